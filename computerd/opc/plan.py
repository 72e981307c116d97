"""What is to be opened, and how it ended."""

from __future__ import annotations

import signal
from typing import NamedTuple

from computerd.opc.failure import BY_SIGNAL, OWN_FAILURE


class Plan(NamedTuple):
    """What to open.

    Attributes:
        size: Columns and rows, on a tty.
        fixed: The size was given: the window's changes do not matter.
        term: The value of TERM, on a tty; None: the daemon's default.
    """

    session: str
    command: str | None
    tty: bool
    size: tuple[int, int]
    fixed: bool
    term: str | None

    def params(self) -> dict[str, object]:
        """For `terminals.open`. Off a tty, size and TERM would be refused."""
        params: dict[str, object] = {"sessionId": self.session, "tty": self.tty}
        if self.tty:
            params["cols"], params["rows"] = self.size
            if self.term is not None:
                params["term"] = self.term
        if self.command is not None:
            params["command"] = self.command
        return params


class Ending(NamedTuple):
    """How it ended.

    Attributes:
        status: For exit(3).
        message: For the person, or None.
        abnormal: The program could not put the terminal in order itself.
        drain: Seconds to wait for what came before the end to be written; None: as long as it takes.
    """

    status: int
    message: str | None = None
    abnormal: bool = False
    drain: float | None = None


def exited(code: object, name: object) -> Ending:
    """The ending that `exitCode` and `signal` of `terminal.exited` describe. What they do not say is never taken for success."""
    if isinstance(code, int) and not isinstance(code, bool) and 0 <= code <= 255:
        return Ending(code)
    try:
        return Ending(BY_SIGNAL + signal.Signals[str(name)], abnormal=True)
    except KeyError:
        return Ending(OWN_FAILURE, f"the daemon did not say how the program ended (it said {name!r}).", abnormal=True)


def by_signal(number: int) -> Ending:
    """This process was told to end."""
    return Ending(BY_SIGNAL + number, abnormal=True, drain=0.0)


def failed(message: str, drain: float | None = 0.0) -> Ending:
    """It is `opc` that failed."""
    return Ending(OWN_FAILURE, message, abnormal=True, drain=drain)
