"""The size of the user's window, and when to tell the remote terminal of a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

RESIZE_SECONDS: Final = 0.05
"""Between two resizes: dragging a window's edge makes hundreds."""
RETRY_SECONDS: Final = 0.25
"""Before a resize is sent again that was refused because input had been dropped."""

Size = tuple[int, int]


class Window:
    """Times are seconds of one monotonic clock.

    Args:
        size: What the remote terminal was opened with.
        measure: The window's columns and rows now; None: it has none, or a fixed size was asked for.
    """

    def __init__(self, size: Size, measure: Callable[[], Size] | None) -> None:
        self._told: Size | None = size
        self._measure = measure
        self._last = float("-inf")
        self.due: float | None = None
        """When to look next; None: not before it changes."""

    def changed(self, now: float) -> None:
        """It may have a new size."""
        if self._measure is not None and self.due is None:
            self.due = max(now, self._last + RESIZE_SECONDS)

    def forget(self, now: float, delay: float = 0.0) -> None:
        """The remote terminal may not have the size that it was told: tell it again, after `delay` seconds."""
        self._told = None
        self.due = None if self._measure is None else max(now, self._last + RESIZE_SECONDS) + delay

    def news(self, now: float) -> Size | None:
        """The size to tell now, or None. It counts as told."""
        if self._measure is None or self.due is None or now < self.due:
            return None
        self.due = None
        size = self._measure()
        if size == self._told:
            return None
        self._told, self._last = size, now
        return size
