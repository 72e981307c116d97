"""From a method's row to its work: access first, then the one function that does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from attrs import define, field
from msgspec import Struct

from computerd.api import access, agentless, events, sessions
from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.api.files import WorkspaceFiles
from computerd.api.following import Following
from computerd.api.front import Answer, Arriving
from computerd.api.terminals import Terminals
from computerd.api.trail import NOWHERE, Trail
from computerd.contract import objects, results
from computerd.contract.access import RULES
from computerd.contract.errors import ApiError, Code
from computerd.contract.methods import Method
from computerd.contract.params import Ack
from computerd.session.lifecycle import Lifecycle
from computerd.session.sessions import Sessions
from computerd.workspace.port import Coding, Opened, Packed, Upload

Work = Callable[[Any, Caller], Awaitable[Struct | Answer]]
"""A method that works over HTTP and WebSocket alike."""
SocketWork = Callable[[Any, Caller, Connection], Awaitable[Struct]]
"""A method that needs the connection."""
Gift = Callable[[Any, Caller, Coding], Awaitable[Opened | Packed]]
"""A method that answers with a stream."""
Taker = Callable[[Any, Caller, Coding], Awaitable[Upload]]
"""A method that takes a stream."""
_TIMED: Final = (results.Pong, results.Attached, results.TurnSent)
"""Results that say how long the request took."""


@define(eq=False)
class Api:
    """Every method.

    Attributes:
        seconds: A monotonic clock.
        trail: Is told what was called to change something.
    """

    sessions: Sessions
    lifecycle: Lifecycle
    following: Following
    terminals: Terminals
    files: WorkspaceFiles
    seconds: Callable[[], float]
    trail: Trail = NOWHERE
    _work: Mapping[str, Work] = field(init=False)
    _socket_work: Mapping[str, SocketWork] = field(init=False)
    _gifts: Mapping[str, Gift] = field(init=False)
    _takers: Mapping[str, Taker] = field(init=False)

    @_work.default
    def _works(self) -> Mapping[str, Work]:
        on_sessions: Mapping[str, Callable[[Sessions, Any, Caller], Awaitable[Struct | Answer]]] = {
            "sessions.create": sessions.create,
            "sessions.get": sessions.get,
            "sessions.list": sessions.list_sessions,
            "sessions.interrupt": agentless.interrupt,
            "sessions.compact": agentless.needs_agent,
            "turns.send": agentless.needs_agent,
            "turns.get": agentless.turn,
            "turns.cancel": agentless.turn,
            "asks.list": agentless.list_asks,
            "asks.get": agentless.ask,
            "asks.answer": agentless.ask,
            "asks.dismiss": agentless.ask,
            "subagents.list": agentless.list_subagents,
            "subagents.get": agentless.subagent,
            "subagents.stop": agentless.subagent,
            "events.list": events.events_list,
        }
        on_lifecycle: Mapping[str, Callable[[Lifecycle, Any, Caller], Awaitable[Struct]]] = {
            "sessions.update": sessions.update,
            "sessions.suspend": sessions.suspend,
            "sessions.resume": sessions.resume,
        }
        return {
            **{name: partial(work, self.sessions) for name, work in on_sessions.items()},
            **{name: partial(work, self.lifecycle) for name, work in on_lifecycle.items()},
            "files.list": self.files.list_folder,
        }

    @_socket_work.default
    def _socket_works(self) -> Mapping[str, SocketWork]:
        return {
            "sessions.attach": self.following.attach,
            "sessions.detach": self.following.detach,
            "terminals.open": self.terminals.open,
            "terminals.resize": self.terminals.resize,
            "terminals.eof": self.terminals.eof,
            "terminals.close": self.terminals.close,
            "ping": self._ping,
        }

    @_gifts.default
    def _give(self) -> Mapping[str, Gift]:
        return {"files.read": self.files.read, "files.download": self.files.download}

    @_takers.default
    def _take(self) -> Mapping[str, Taker]:
        return {"files.upload": self.files.upload}

    def serves(self, method: Method) -> bool:
        """Whether the method has its work yet."""
        return any(method.name in table for table in (self._work, self._socket_work, self._gifts, self._takers))

    async def call(
        self, method: Method, params: Struct, caller: Caller, connection: Connection | None, arrived: float
    ) -> Answer:
        """See `Front`."""
        try:
            answer = await self._carry_out(method, params, caller, connection, arrived)
        except Exception as error:
            self.trail.note_call(method, params, caller, connection, error)
            raise
        self.trail.note_call(method, params, caller, connection, answer.result)
        return answer

    async def _carry_out(
        self, method: Method, params: Struct, caller: Caller, connection: Connection | None, arrived: float
    ) -> Answer:
        if connection is not None:
            _check_input_limit(connection)
        access.check_scope(method.access, caller)
        if connection is not None:
            _check_read_only(method, params, connection)
        work = self._work.get(method.name)
        if work is not None:
            answer = await work(params, caller)
        elif connection is not None:
            answer = await self._socket_work[method.name](params, caller, connection)
        else:
            raise ApiError(Code.NOT_FOUND, f"{method.name} is served over WebSocket only: connect to /connect.")
        answer = answer if isinstance(answer, Answer) else Answer(answer)
        if isinstance(answer.result, _TIMED):
            answer.result.timing = objects.Timing(server_us=round((self.seconds() - arrived) * 1e6))
        return answer

    async def give(self, method: Method, params: Struct, caller: Caller, coding: Coding) -> Opened | Packed:
        """See `Front`."""
        access.check_scope(method.access, caller)
        return await self._gifts[method.name](params, caller, coding)

    async def take(self, method: Method, params: Struct, caller: Caller, coding: Coding) -> Arriving:
        """See `Front`."""
        try:
            access.check_scope(method.access, caller)
            upload = await self._takers[method.name](params, caller, coding)
        except Exception as error:
            self.trail.note_call(method, params, caller, None, error)
            raise
        return Arriving(upload, partial(self._land, method, params, caller, upload))

    async def _land(self, method: Method, params: Any, caller: Caller, upload: Upload) -> Answer:
        try:
            result = await self.files.land(params, caller, upload)
        except Exception as error:
            self.trail.note_call(method, params, caller, None, error)
            raise
        self.trail.note_call(method, params, caller, None, result)
        return Answer(result)

    def notified(self, params: Struct, connection: Connection) -> None:
        """See `Front`. Telemetry is taken so that clients need not know whether anybody wants it, and nobody here does."""
        if isinstance(params, Ack):
            connection.attachments.ack(params.session_id, params.seq)

    async def _ping(self, params: Struct, caller: Caller, connection: Connection) -> results.Pong:
        # `call` says how long it took, as it does for every method that tells
        return results.Pong(timing=objects.Timing(server_us=0))


def _check_read_only(method: Method, params: Struct, connection: Connection) -> None:
    """A connection that attached a session only to look can't change it."""
    session_id = getattr(params, "session_id", None)
    if session_id is not None and RULES[method.access].writes and connection.attachments.read_only(session_id):
        raise access.refuse_read_only()


def _check_input_limit(connection: Connection) -> None:
    """Input that was dropped is told to whoever asks next on the connection, and that request is not carried out."""
    wait = connection.channels.over_limit()
    if wait is not None:
        raise ApiError(
            Code.RATE_LIMITED,
            "Terminal input over 1 MiB per second was dropped: send it again, more slowly.",
            retry_after_ms=wait,
        )
