"""The user's own terminal: raw while a remote program has it, and as it was on every way out.

Raw means that keys reach the remote terminal untouched, as ssh(1) does it. `restore` may be called at any time, also twice, also
from a signal handler; `atexit` calls it if nothing else did.
"""

from __future__ import annotations

import atexit
import os
import signal
import termios
from typing import Any, Final

_IFLAG, _OFLAG, _LFLAG, _CC = 0, 1, 3, 6
FALLBACK_SIZE: Final = (80, 24)
"""Columns and rows where there is no terminal to ask: what VT100s had, and what every program copes with."""
MAX_CELLS: Final = 1000
"""Of the Computer API."""


class Tty:
    """One terminal, by a descriptor that is open on it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._saved: list[Any] | None = None

    @property
    def is_raw(self) -> bool:
        """Whether keys go to the remote terminal now."""
        return self._saved is not None

    def raw(self) -> None:
        """Makes it raw. From the background this stops the process until it is brought forward, as it should.

        Raises:
            termios.error: It has gone.
        """
        if self._saved is not None:
            return
        saved = termios.tcgetattr(self._fd)
        atexit.register(self.restore)
        self._saved = saved
        termios.tcsetattr(self._fd, termios.TCSADRAIN, _raw(saved))

    def again(self) -> None:
        """Makes it raw again if it was: a shell that had it in between has put its own modes on."""
        if self._saved is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, _raw(self._saved))

    def restore(self, *, now: bool = False) -> None:
        """Makes it as it was. Never fails: there is nobody left to tell.

        Args:
            now: Do not wait until what was written to it has been shown; it may be stuck.
        """
        saved, self._saved = self._saved, None
        if saved is None:
            return
        atexit.unregister(self.restore)
        if not self._foreground():
            # the shell has taken it over and set its own modes: ours would be wrong there
            return
        old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            termios.tcsetattr(self._fd, termios.TCSANOW if now else termios.TCSADRAIN, saved)
        except termios.error:
            pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)

    def _foreground(self) -> bool:
        """Whether this process may use it; also true when it is not our controlling terminal."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            return True


def _raw(attributes: list[Any]) -> list[Any]:
    """As `enter_raw_mode` of OpenSSH (sshtty.c)."""
    raw = list(attributes)
    raw[_CC] = list(attributes[_CC])
    raw[_IFLAG] |= termios.IGNPAR
    raw[_IFLAG] &= ~(
        termios.ISTRIP | termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON | termios.IXANY | termios.IXOFF
    )
    raw[_LFLAG] &= ~(
        termios.ISIG | termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ECHONL | termios.IEXTEN
    )
    raw[_OFLAG] &= ~termios.OPOST
    raw[_CC][termios.VMIN] = 1
    raw[_CC][termios.VTIME] = 0
    return raw


def size(fds: tuple[int, ...]) -> tuple[int, int]:
    """Columns and rows of the first of these descriptors that is a terminal and knows, within what the API takes."""
    for fd in fds:
        try:
            columns, rows = os.get_terminal_size(fd)
        except OSError:
            continue
        if columns > 0 and rows > 0:
            return min(columns, MAX_CELLS), min(rows, MAX_CELLS)
    return FALLBACK_SIZE
