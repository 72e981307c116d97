"""`terminals.open`, `.resize`, `.eof` and `.close`.

Opening takes these steps, and each undoes what came before it when it fails: a slot of the session, a process that is
known to run, the journal's `terminal.opened`, the answer, then output. Nothing is left of a terminal that did not start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, field
from msgspec import UNSET
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from computerd.api import access
from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.api.trail import NOWHERE, Trail
from computerd.contract import identifiers, limits, objects, results
from computerd.contract.access import Access
from computerd.contract.errors import ApiError, Code
from computerd.contract.params import OfTerminal, OpenTerminal, ResizeTerminal
from computerd.contract.rules import check_open
from computerd.session.changing import refuse_archived
from computerd.session.port import Record
from computerd.session.sessions import Sessions
from computerd.terminal.budget import Budget
from computerd.terminal.port import Process, Spawner, Start
from computerd.terminal.slots import Slots
from computerd.terminal.terminal import Terminal

_EMPTY: Final = results.Empty()
_EMPTY_SECONDS: Final = 1.0
"""For the ends of a session's terminals to be told, once their processes are gone."""


@define(eq=False)
class Terminals:
    """The work of the four methods.

    Attributes:
        seconds: A monotonic clock.
        random: n bytes of a cryptographic source.
        soon: Calls a function in the reactor's next turn: after the answer, which is sent in this one.
        trail: Is told of their ends.
    """

    sessions: Sessions
    spawner: Spawner
    slots: Slots
    seconds: Callable[[], float]
    random: Callable[[int], bytes]
    soon: Callable[[Callable[[], None]], object]
    trail: Trail = NOWHERE
    _log: Logger = field(factory=Logger, init=False)

    async def open(self, params: OpenTerminal, caller: Caller, connection: Connection) -> results.TerminalOpened:
        """Starts a shell or a command in the session's workspace."""
        check_open(params)
        record = await self.sessions.record(params.session_id)
        access.check_owner(Access.TERMINALS, caller, record.owner.id)
        refuse_archived(record)
        self.slots.take(record.id)
        start = _start(params, record, identifiers.TERMINAL.new(self.random))
        try:
            process = await self.spawner.spawn(start)
        except BaseException:
            self.slots.give_back(record.id)
            raise
        terminal = self._terminal(start, process, connection)
        if connection.channels.closed:
            _forsake(terminal)
            raise ApiError(Code.UNAVAILABLE, "The connection has ended.")
        try:
            await self.sessions.terminal_opened(record.id, terminal.id, start.command, caller.actor)
        except BaseException:
            _forsake(terminal)
            raise
        terminal.on_gone = lambda gone, code: self._closed(gone, code, connection)
        connection.channels.add(terminal)
        terminal.traffic.opened += 1
        terminal.traffic.open += 1
        self.soon(terminal.start)
        return results.TerminalOpened(
            terminal=objects.Terminal(id=terminal.id, channel=terminal.channel, stderr_channel=terminal.error_channel)
        )

    async def resize(self, params: ResizeTerminal, caller: Caller, connection: Connection) -> results.Empty:
        """Sets a terminal's size."""
        connection.channels.open_terminal(params.terminal_id).resize(params.cols, params.rows)
        return _EMPTY

    async def eof(self, params: OfTerminal, caller: Caller, connection: Connection) -> results.Empty:
        """Ends a terminal's input."""
        connection.channels.open_terminal(params.terminal_id).eof()
        return _EMPTY

    async def close(self, params: OfTerminal, caller: Caller, connection: Connection) -> results.Empty:
        """Hangs a terminal up."""
        connection.channels.open_terminal(params.terminal_id).close()
        return _EMPTY

    # `computerd.session.port.Processes`

    def busy(self, session_id: str) -> bool:
        """Whether a terminal is open or being opened."""
        return self.slots.taken(session_id) > 0

    async def end(self, session_id: str) -> None:
        """Ends what runs in a session, and lets nobody open a terminal on it meanwhile."""
        self.slots.close(session_id)
        try:
            await self.spawner.end_session(session_id)
            await self._emptied(session_id)
        finally:
            self.slots.reopen(session_id)

    async def _emptied(self, session_id: str) -> None:
        """Waits a moment for the last `terminal.closed` of a session; a client that reads nothing can keep it back."""
        emptied: Deferred[None] = Deferred()
        forget = self.slots.when_empty(session_id, lambda: emptied.callback(None))
        try:
            await emptied.addTimeout(_EMPTY_SECONDS, self.sessions.clock, onTimeoutCancel=lambda *_: None)
        finally:
            forget()

    def _terminal(self, start: Start, process: Process, connection: Connection) -> Terminal:
        channel, error_channel = connection.channels.reserve(start.size is not None)
        return Terminal(
            id=start.terminal_id,
            session_id=start.session_id,
            channel=channel,
            error_channel=error_channel,
            outbox=connection.outbox,
            process=process,
            budget=Budget(limits.INPUT_BYTES_PER_SECOND, limits.INPUT_BYTES_PER_SECOND, self.seconds),
            on_gone=lambda gone, code: self._released(gone, connection),
            traffic=connection.channels.traffic,
        )

    def _released(self, terminal: Terminal, connection: Connection) -> None:
        connection.channels.remove(terminal)
        self.slots.give_back(terminal.session_id)

    def _closed(self, terminal: Terminal, exit_code: int | None, connection: Connection) -> None:
        terminal.traffic.open -= 1
        # first, so that whoever waits for the slot comes after it in the journal
        written: Deferred[object] = ensureDeferred(
            self.sessions.terminal_closed(terminal.session_id, terminal.id, exit_code)
        )
        self._released(terminal, connection)
        self.trail.note(
            "terminal.closed", caller=connection.caller, session_id=terminal.session_id, subject=terminal.id
        )
        # the journal says it again at its next start, for every terminal whose end it does not know
        written.addErrback(lambda failure: self._log.failure("terminal.closed was not journaled", failure))


def _forsake(terminal: Terminal) -> None:
    """Ends a process whose opener will never hear of it. It is started all the same, because that is how its end is heard."""
    terminal.abandon()
    terminal.start()


def _start(params: OpenTerminal, record: Record, terminal_id: str) -> Start:
    tty = params.tty
    default_term = "xterm-256color" if tty else "dumb"
    size = (params.cols, params.rows) if params.cols is not UNSET and params.rows is not UNSET else None
    return Start(
        session_id=record.id,
        terminal_id=terminal_id,
        owner=record.owner.id,
        command=None if params.command is UNSET else params.command,
        term=default_term if params.term is UNSET else params.term,
        size=size,
    )
