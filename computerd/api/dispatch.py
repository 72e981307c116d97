"""From a method's row to its work: access first, then the one function that does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from attrs import define, field
from msgspec import Struct

from computerd.api import access, events, sessions
from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.api.front import Answer
from computerd.api.terminals import Terminals
from computerd.contract import objects, results
from computerd.contract.errors import ApiError, Code
from computerd.contract.methods import Method
from computerd.session.sessions import Sessions

Work = Callable[[Any, Caller], Awaitable[Struct | Answer]]
"""A method that works over HTTP and WebSocket alike."""
SocketWork = Callable[[Any, Caller, Connection], Awaitable[Struct]]
"""A method that needs the connection."""
_TIMED: Final = (results.Pong, results.Attached, results.TurnSent)
"""Results that say how long the request took."""


@define(eq=False)
class Api:
    """Every method that has its work yet.

    Attributes:
        seconds: A monotonic clock.
    """

    sessions: Sessions
    terminals: Terminals
    seconds: Callable[[], float]
    _work: Mapping[str, Work] = field(init=False)
    _socket_work: Mapping[str, SocketWork] = field(init=False)

    @_work.default
    def _works(self) -> Mapping[str, Work]:
        store = self.sessions
        return {
            "sessions.create": lambda params, caller: sessions.create(store, params, caller),
            "sessions.get": lambda params, caller: sessions.get(store, params, caller),
            "sessions.list": lambda params, caller: sessions.list_sessions(store, params, caller),
            "events.list": lambda params, caller: events.events_list(store, params, caller),
        }

    @_socket_work.default
    def _socket_works(self) -> Mapping[str, SocketWork]:
        return {
            "terminals.open": self.terminals.open,
            "terminals.resize": self.terminals.resize,
            "terminals.eof": self.terminals.eof,
            "terminals.close": self.terminals.close,
            "ping": self._ping,
        }

    def serves(self, method: Method) -> bool:
        """Whether the method has its work yet."""
        return method.name in self._work or method.name in self._socket_work

    async def call(
        self, method: Method, params: Struct, caller: Caller, connection: Connection | None, arrived: float
    ) -> Answer:
        """See `Front`."""
        if connection is not None:
            _check_input_limit(connection)
        access.check_scope(method.access, caller)
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

    async def _ping(self, params: Struct, caller: Caller, connection: Connection) -> results.Pong:
        # `call` says how long it took, as it does for every method that tells
        return results.Pong(timing=objects.Timing(server_us=0))


def _check_input_limit(connection: Connection) -> None:
    """Input that was dropped is told to whoever asks next on the connection, and that request is not carried out."""
    wait = connection.channels.over_limit()
    if wait is not None:
        raise ApiError(
            Code.RATE_LIMITED,
            "Terminal input over 1 MiB per second was dropped: send it again, more slowly.",
            retry_after_ms=wait,
        )
