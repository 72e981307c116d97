"""When to tell the daemon which events have arrived: often enough for its limits, and not for each of them.

The daemon puts up with 10,000 events and 8 MiB that were not acknowledged; we stay far below both. But each acknowledgement counts as one of
the connection's 100 messages a second, so in a flood they are spaced out: at 20 a second, each stands for what came meanwhile.
"""

from __future__ import annotations

from typing import Final

from computerd.contract import limits

EVERY: Final = 100
"""Events."""
BYTES: Final = limits.MIB
SECONDS: Final = 1.0
"""For the first of fewer."""
SPACING_SECONDS: Final = 0.05
"""Between two at least. 10,000 events within that time would be 200,000 a second."""


class Acks:
    """What of one attachment is not acknowledged yet. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._count = 0
        self._bytes = 0
        self._since = 0.0
        self._last = float("-inf")

    def taken(self, size: int, now: float) -> None:
        """An event of `size` bytes has been printed."""
        if self._count == 0:
            self._since = now
        self._count += 1
        self._bytes += size

    def due(self, now: float) -> bool:
        """Whether to acknowledge now. If so, it counts as done."""
        if self._count == 0 or now < self._when:
            return False
        self._count = self._bytes = 0
        self._last = now
        return True

    def wait(self, now: float) -> float | None:
        """Seconds until it is due although nothing comes; None: never."""
        return max(0.0, self._when - now) if self._count else None

    @property
    def _when(self) -> float:
        many = self._count >= EVERY or self._bytes >= BYTES
        return max(self._since, self._last + SPACING_SECONDS) if many else self._since + SECONDS
