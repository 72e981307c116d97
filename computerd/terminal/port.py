"""The port through which a terminal reaches its process. `host` implements `Spawner` and `Process`; `Terminal` is the `Watcher`."""

from __future__ import annotations

from collections.abc import Awaitable
from enum import IntEnum
from typing import Protocol

from attrs import frozen


class Stream(IntEnum):
    """Where output came from. On a tty all of it is `OUTPUT`."""

    OUTPUT = 1
    ERROR = 2


@frozen
class Start:
    """What to start, as plain data.

    Attributes:
        session_id: The session in whose workspace (and cgroup) the process starts.
        terminal_id: Names the terminal's own cgroup.
        owner: The member id of the session's owner: decides the Unix user.
        command: For the user's shell with `-c`; None is a login shell.
        term: The value of TERM.
        size: (columns, rows) of the pseudo-terminal; None means pipes.
    """

    session_id: str
    terminal_id: str
    owner: str
    command: str | None
    term: str
    size: tuple[int, int] | None


class Watcher(Protocol):
    """Told what a process does. Never raises."""

    def output(self, stream: Stream, data: bytes) -> bool:
        """Takes 1 to 65,532 bytes. False: read no more of this process until `Process.resume` is called."""

    def ended(self, exit_code: int | None, signal: str | None) -> None:
        """The process has exited and all of its output was given to `output`. Called once, last.

        Exactly one of the two is not None: a code of 0 to 255, or a name such as `SIGKILL`.
        """


class Process(Protocol):
    """A running process. Every call after its end is harmless and does nothing."""

    def start(self, watcher: Watcher) -> None:
        """Begins to deliver output, perhaps before this returns, and in time the end. Called once."""

    def write(self, data: bytes) -> bool:
        """Queues input. False: the queue has no room for it, and nothing of it was taken."""

    def eof(self) -> None:
        """Ends the input after what was written before. A second call does nothing."""

    def resize(self, columns: int, rows: int) -> None:
        """Sets the size of the pseudo-terminal, ahead of any input written later."""

    def resume(self) -> None:
        """Reads on after `Watcher.output` returned False."""

    def hang_up(self) -> None:
        """SIGHUP and SIGCONT now, SIGKILL 5 s later to what is left. A second call does nothing.

        Output goes on until the process ends; `Watcher.ended` follows once all of it was taken.
        """

    def discard(self) -> None:
        """The connection has gone: drops output from now on, so that the end can come. Before `start`, too: the end is told then."""


class Spawner(Protocol):
    """Starts processes as the agent's Unix user."""

    def spawn(self, start: Start) -> Awaitable[Process]:
        """Fires once the program is known to run as the user, in the workspace.

        Raises:
            ApiError: `computer_not_set_up` or `computer_unavailable`, with nothing left behind.
        """

    def end_session(self, session_id: str) -> Awaitable[None]:
        """Ends all that runs in a session: hangs up its processes, gives up those that are starting, kills what is left behind.

        Fires when it is done, at the latest 6 s later; never fails.
        """
