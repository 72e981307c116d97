"""Bytes that the daemon may have to keep for a worker's readers, reserved before the worker may send them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from attrs import define, field

from computerd.contract import limits
from computerd.host.worker.frames import WINDOW

RESERVE_BYTES: Final = limits.MIB
"""Of all downloads of a session together."""
SMALL_BYTES: Final = 64 * 1024
"""What a download can do with, a little slower."""
_SCARCE_BYTES: Final = 2 * WINDOW


@define(eq=False, repr=False)
class Share:
    """What one download has of it, or waits for.

    Attributes:
        size: Bytes.
    """

    _reserve: Reserve
    size: int
    granted: Callable[[], None]

    def give_back(self, size: int | None = None) -> None:
        """Gives back so many bytes; without a number all of them, or takes the wish back."""
        size = self.size if size is None else size
        self.size -= size
        self._reserve._returned(self, size)


@define(eq=False, repr=False)
class Reserve:
    """First come, first served.

    Attributes:
        freed: Called when something was given back.
    """

    freed: Callable[[], None]
    left: int = field(default=RESERVE_BYTES)
    _waiting: deque[Share] = field(factory=deque, init=False)

    @property
    def scarce(self) -> bool:
        """Whether who has more than `SMALL_BYTES` is to give it back, as far as he can."""
        return self.left < _SCARCE_BYTES

    def has(self, size: int) -> bool:
        """Whether so much can be had now."""
        return size == 0 or (not self._waiting and size <= self.left)

    def take(self, size: int, granted: Callable[[], None]) -> Share:
        """Calls `granted`, perhaps now, when the bytes are reserved."""
        share = Share(self, size, granted)
        self._waiting.append(share)
        self._serve()
        return share

    def _returned(self, share: Share, size: int) -> None:
        if share in self._waiting:
            self._waiting.remove(share)
        else:
            self.left += size
        self._serve()
        self.freed()

    def _serve(self) -> None:
        while self._waiting and self._waiting[0].size <= self.left:
            share = self._waiting.popleft()
            self.left -= share.size
            share.granted()
