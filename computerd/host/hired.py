"""A worker's process, from the moment when it runs as the user."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from attrs import define, field

from computerd.host.line import Line
from computerd.host.opening import Reaped


def _nothing() -> None:
    pass


@define(eq=False, repr=False)
class Hired:
    """One process.

    Attributes:
        child: The process.
        line: Its socket, as the first source, and its standard error.
        rest: What was read from the socket already.
        kill_others: Kills what else is in its cgroup.
        on_exit: Called once, when it was reaped, after `exited`.
        dismissed: Called when its session ends, or the daemon: it is to end soon.
        exited: Called once, when it was reaped.
    """

    child: Reaped
    line: Line
    rest: bytes
    kill_others: Callable[[], None]
    on_exit: Callable[[Hired], None]
    dismissed: Callable[[], None] = field(default=_nothing)
    exited: Callable[[], None] = field(default=_nothing)

    def begin(self) -> None:
        """Watches for its end. `dismissed` and `exited` are set."""
        self.child.told = self._reaped
        if self.child.status is not None:
            self._reaped(self.child.status)

    def hang_up(self) -> None:
        """Its session ends, or the daemon."""
        self.dismissed()

    def kill(self) -> None:
        """SIGKILL to it and to all that it has started."""
        if self.child.pid is not None:  # unreaped: the number is its own, and that of the group that it leads
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, signal.SIGKILL)
            self.child.kill()
        self.kill_others()

    def _reaped(self, status: int) -> None:
        self.child.told = None
        self.kill_others()
        self.exited()
        self.line.close()
        self.on_exit(self)
