"""Credentials that were refused, as the audit trail has them: told in sums, so that a flood of them is a few rows.

The first of an address is told at once. Those that follow within a minute are counted, and told in one row at its end; then the next minute
begins, and ends without a row, and without a trace in memory, when nothing more has come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, field

from computerd.api.trail import Trail

WINDOW_SECONDS: Final = 60.0
MAX_SOURCES: Final = 1000
"""Rows of a minute, and a good 100 KB. More addresses than that share one row: who has a network of them must not fill the disk."""
OTHERS: Final = "others"
LOCAL: Final = "local"
"""This machine: the loopback, or a Unix socket."""
ACTION: Final = "credential.refused"


@define
class _Window:
    """A minute of one source.

    Attributes:
        ends: In seconds of the monotonic clock.
        count: What has come since its row.
    """

    ends: float
    count: int = 0


@define(eq=False)
class Attempts:
    """What has failed, by source and reason.

    Attributes:
        trail: Is told.
        seconds: A monotonic clock.
    """

    trail: Trail
    seconds: Callable[[], float]
    # in the order in which they end
    _windows: dict[tuple[str, str], _Window] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._windows)

    def failed(self, source: str | None, why: str) -> None:
        """A credential was refused.

        Args:
            source: Where it came from, as `throttle.source` names it.
            why: One of a few words.
        """
        key = (LOCAL if source is None else source, why)
        if key not in self._windows and len(self._windows) >= MAX_SOURCES:
            key = (OTHERS, OTHERS)
        window = self._windows.get(key)
        if window is not None:
            window.count += 1
            return
        self._windows[key] = _Window(self.seconds() + WINDOW_SECONDS)
        self._note(key, 1)

    def tell(self, *, all_of_them: bool = False) -> None:
        """Tells what has come in minutes that have ended, or in all. To be called every second or so, and at the end."""
        now = self.seconds()
        while self._windows:
            key = next(iter(self._windows))
            window = self._windows[key]
            if window.ends > now and not all_of_them:
                return
            del self._windows[key]
            if window.count:
                self._note(key, window.count)
                if not all_of_them:
                    self._windows[key] = _Window(now + WINDOW_SECONDS)

    def _note(self, key: tuple[str, str], count: int) -> None:
        self.trail.note(ACTION, key[1], subject=key[0], count=count)
