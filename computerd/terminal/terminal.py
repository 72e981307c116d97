"""One terminal, from its opening to its end.

Theory. A terminal is in one of three states:

    OPEN     its process runs (or has exited and its last output is on the way); input, resize and eof reach it
    CLOSING  it was hung up; output still flows, its id answers `terminal_not_found`, its input is dropped
    GONE     its process has ended and its last byte is with the outbox; `terminal.exited` was sent, exactly once

OPEN → CLOSING on `close`; OPEN or CLOSING → GONE when the process port says `ended`, which it does once and last. When
the connection is lost, a terminal is hung up and its output discarded, so that nobody waits for a reader who is gone.

Output is never kept here: the outbox takes a frame at once, and when it then says that it is full, the process is
read no further until the outbox calls `resume`. So a client that does not read blocks its own programs, and nothing
else grows. Order follows from that: everything a program wrote was handed to the outbox before `ended` is heard.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from attrs import define, field

from computerd.contract.errors import ApiError, Code
from computerd.contract.results import TerminalExited
from computerd.terminal.budget import Budget
from computerd.terminal.outbox import Outbox
from computerd.terminal.port import Process, Stream
from computerd.terminal.traffic import Traffic


class State(Enum):
    """Where a terminal is in its life."""

    OPEN = auto()
    CLOSING = auto()
    GONE = auto()


@define(eq=False)
class Terminal:
    """A process with its channels. It is the process's `Watcher`, and the source that the outbox holds back.

    Attributes:
        id: `tm_…`.
        session_id: Whose workspace it runs in.
        channel: Its input, and its output.
        error_channel: Its standard error; None on a tty.
        budget: Of its input, in bytes.
        on_gone: Called with the terminal and its exit code once it is gone.
        traffic: Counts what it carries.
    """

    id: str
    session_id: str
    channel: int
    error_channel: int | None
    outbox: Outbox
    process: Process
    budget: Budget
    on_gone: Callable[[Terminal, int | None], None]
    traffic: Traffic = field(factory=Traffic)
    state: State = State.OPEN
    _discarding: bool = field(default=False, init=False)

    @property
    def tty(self) -> bool:
        """Whether it has a pseudo-terminal."""
        return self.error_channel is None

    def start(self) -> None:
        """Lets output flow. Its opener has been answered."""
        self.process.start(self)

    # what the client sends

    def input(self, data: bytes) -> bool:
        """Gives `data` to the program. False: it was over the limit, and dropped whole."""
        if self.state is not State.OPEN or not data:
            return True
        if self.budget.take(len(data)) and self.process.write(data):
            self.traffic.input_bytes += len(data)
            return True
        return False

    def resize(self, columns: int, rows: int) -> None:
        """Sets the size of the pseudo-terminal.

        Raises:
            ApiError: `invalid_request` on pipes.
        """
        if not self.tty:
            raise ApiError(
                Code.INVALID_REQUEST,
                "This terminal has pipes and no size: open it with tty true to resize it.",
                field="terminalId",
            )
        self.process.resize(columns, rows)

    def eof(self) -> None:
        """Ends the program's input."""
        self.process.eof()

    def close(self) -> None:
        """Hangs up. The end follows."""
        if self.state is State.OPEN:
            self.state = State.CLOSING
            self.process.hang_up()

    def abandon(self) -> None:
        """The connection is gone: hang up, and let nobody wait for a reader."""
        if self.state is State.GONE:
            return
        self._discarding = True
        self.outbox.forget(self)
        self.close()
        self.process.discard()

    # what the process does

    def output(self, stream: Stream, data: bytes) -> bool:
        """Sends `data` on. False: the outbox is full."""
        if self._discarding:
            return True
        channel = self.channel
        if stream is Stream.ERROR and self.error_channel is not None:
            channel = self.error_channel
        self.traffic.output_bytes += len(data)
        return self.outbox.frame(channel, data, self)

    def ended(self, exit_code: int | None, signal: str | None) -> None:
        """The process is gone and its output is with the outbox."""
        if self.state is State.GONE:
            return
        self.state = State.GONE
        self.outbox.forget(self)
        if not self._discarding:
            self.outbox.notify(
                "terminal.exited", TerminalExited(terminal_id=self.id, exit_code=exit_code, signal=signal)
            )
        self.on_gone(self, exit_code)

    # what the outbox says

    def resume(self) -> None:
        """There is room again."""
        self.process.resume()
