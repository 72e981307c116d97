"""Signals that end the process, as an exception: so that what was begun is undone on the way out."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class Ended(BaseException):
    """This process was told to end.

    Attributes:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """SIGTERM and SIGHUP raise Ended, as SIGINT raises KeyboardInterrupt. One that is ignored on purpose, as by nohup(1), stays so."""
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    old = {number: signal.signal(number, _end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    raise Ended(number)
