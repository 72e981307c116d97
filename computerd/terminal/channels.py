"""Which channel is which terminal, on one connection. Nothing here can be reached from another connection."""

from __future__ import annotations

from attrs import define, field

from computerd.contract.errors import ApiError, Code
from computerd.terminal.terminal import State, Terminal
from computerd.terminal.traffic import Traffic


@define(eq=False)
class Channels:
    """The terminals of one connection, by channel and by id.

    Channel numbers count from 1 and are never used again, so that a late frame can't reach a younger terminal.

    Attributes:
        strays: Frames that came for a channel that is not, or no longer, there.
        dropped: Bytes of input that were over a terminal's limit.
        closed: The connection has ended; nothing may be added.
        traffic: Counts the same, and more, over all connections.
    """

    strays: int = 0
    dropped: int = 0
    closed: bool = False
    traffic: Traffic = field(factory=Traffic)
    _next: int = field(default=1, init=False)
    _by_channel: dict[int, Terminal] = field(factory=dict, init=False)
    _by_id: dict[str, Terminal] = field(factory=dict, init=False)
    _over_limit: Terminal | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._by_id)

    def reserve(self, tty: bool) -> tuple[int, int | None]:
        """The next channel, and without a tty another one for standard error."""
        channel = self._next
        self._next += 1 if tty else 2
        return channel, None if tty else channel + 1

    def add(self, terminal: Terminal) -> None:
        """Makes `terminal` reachable. A connection that has ended meanwhile abandons it at once."""
        if self.closed:
            terminal.abandon()
            return
        self._by_channel[terminal.channel] = terminal
        self._by_id[terminal.id] = terminal

    def remove(self, terminal: Terminal) -> None:
        """`terminal` is gone."""
        self._by_channel.pop(terminal.channel, None)
        self._by_id.pop(terminal.id, None)

    def input(self, channel: int, data: bytes) -> None:
        """Input from the client: the hot path."""
        terminal = self._by_channel.get(channel)
        if terminal is None:
            self.strays += 1
            self.traffic.stray_frames += 1
        elif not terminal.input(data):
            self.dropped += len(data)
            self.traffic.dropped_bytes += len(data)
            self._over_limit = terminal

    def over_limit(self) -> int | None:
        """Milliseconds to wait when input was dropped since the last request, else None. Asking clears it."""
        terminal, self._over_limit = self._over_limit, None
        if terminal is None:
            return None
        self.traffic.refused += 1
        return terminal.budget.wait_ms(terminal.budget.burst / 16)

    def open_terminal(self, terminal_id: str) -> Terminal:
        """The terminal with that id.

        Raises:
            ApiError: `terminal_not_found`, in the same words for one that never was, has ended, or is another connection's.
        """
        terminal = self._by_id.get(terminal_id)
        if terminal is None or terminal.state is not State.OPEN:
            raise ApiError(
                Code.TERMINAL_NOT_FOUND,
                "No such terminal on this connection: it has ended, or another connection opened it.",
            )
        return terminal

    def session_of(self, terminal_id: str) -> str | None:
        """The session of a terminal that is not gone, or None."""
        terminal = self._by_id.get(terminal_id)
        return None if terminal is None else terminal.session_id

    def close_all(self) -> None:
        """The connection has ended."""
        self.closed = True
        for terminal in list(self._by_id.values()):
            terminal.abandon()
        self._over_limit = None
