"""Signals as something that poll(2) can wait for.

A handler only notes the signal and wakes the loop. The same ending signal a second time means that the loop is stuck: then the
terminal is put back and the process ends on the spot.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Self

from computerd.opc.failure import BY_SIGNAL

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
OTHERS: Final = (signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)


class Signals:
    """Catches signals while it is entered.

    Args:
        emergency: Puts the terminal back.
    """

    def __init__(self, emergency: Callable[[], None]) -> None:
        self._emergency = emergency
        self._noted: deque[int] = deque()
        self._ended: set[int] = set()
        self._old: dict[int, Any] = {}
        self._read, self._write = -1, -1
        self._old_wakeup = -1

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._old_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (*ENDING, *OTHERS):
            # nohup(1), and shells without job control for what runs in the background, ignore on purpose
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._old[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        """Readable when something was noted."""
        return self._read

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number in ENDING:
            if number in self._ended:
                self._emergency()
                os._exit(BY_SIGNAL + number)
            self._ended.add(number)
        self._noted.append(number)

    def take(self) -> list[int]:
        """What came since the last call, in order."""
        try:
            while os.read(self._read, 4096):
                pass
        except BlockingIOError:
            pass
        noted = []
        while self._noted:
            noted.append(self._noted.popleft())
        return noted

    def stop(self) -> None:
        """Stops this job as a typed ^Z would, and returns when it goes on."""
        if signal.SIGTSTP not in self._old:
            return
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note)
