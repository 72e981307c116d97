"""How far a transfer is: one line on standard error, drawn anew several times a second, and taken away at the end."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from typing import Final

EVERY_SECONDS: Final = 0.1
FIRST_SECONDS: Final = 0.3
"""What is over sooner is not worth a line."""
WINDOW_SECONDS: Final = 5.0
"""The rate is that of the last few seconds."""
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


class Progress:
    """Of one transfer.

    Args:
        name: What is transferred; printable.
        total: Bytes, or None: nobody knows.
        shown: Whether to draw at all.
        fd: Where.
    """

    def __init__(self, name: str, total: int | None, *, shown: bool, fd: int = 2) -> None:
        self._name = name
        self._total = total
        self._fd = fd
        self._shown = shown
        self._began = time.monotonic()
        self._next = self._began + FIRST_SECONDS
        self._marks: deque[tuple[float, int]] = deque([(self._began, 0)])
        self._drawn = False
        self.bytes = 0

    def add(self, count: int) -> None:
        """So many bytes more."""
        self.bytes += count
        if self._shown and (now := time.monotonic()) >= self._next:
            self._next = now + EVERY_SECONDS
            self._draw(now)

    def clear(self) -> None:
        """Takes the line away."""
        if self._drawn:
            self._put(b"\r\x1b[K")
            self._drawn = False

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    def _draw(self, now: float) -> None:
        self._marks.append((now, self.bytes))
        while len(self._marks) > 2 and self._marks[0][0] < now - WINDOW_SECONDS:
            self._marks.popleft()
        then, before = self._marks[0]
        line = status(self._name, self.bytes, self._total, (self.bytes - before) / max(now - then, 0.001))
        try:
            # in the background, it would be written over somebody else's work
            if os.tcgetpgrp(self._fd) != os.getpgrp():
                return
            columns = os.get_terminal_size(self._fd).columns or 80
        except OSError:
            return
        self._drawn = True
        self._put(f"\r{line[: columns - 1]}\x1b[K".encode("utf-8", "replace"))

    def _put(self, data: bytes) -> None:
        try:
            os.write(self._fd, data)
        except OSError:
            self._shown = False


def wanted(quiet: bool, env: Mapping[str, str], fd: int = 2) -> bool:
    """Whether somebody is there to see it, on a terminal that can take a line away."""
    return not quiet and os.isatty(fd) and env.get("TERM", "dumb") != "dumb"


def status(name: str, done: int, total: int | None, rate: float) -> str:
    """The line: how much, of how much, how fast, and how long it will still take."""
    if total is None:
        return f"{name}  {size(done)}  {size(rate)}/s"
    percent = 100 * min(done, total) // total if total else 100
    left = clock(max(0, total - done) / rate) if rate > 0 else "-:--"
    return f"{name}  {percent:3d} %  {size(done)} of {size(total)}  {size(rate)}/s  {left} left"


def size(count: float) -> str:
    """Bytes for a person, in powers of 1000."""
    unit = 0
    while count >= 999.95 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.1f} {_UNITS[unit]}" if unit else f"{int(count)} B"


def files(count: int) -> str:
    """So many files."""
    return f"{count} file{'' if count == 1 else 's'}"


def clock(seconds: float) -> str:
    """A time for a person."""
    whole = min(int(seconds + 0.5), 359_999)
    minutes, rest = divmod(whole, 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
