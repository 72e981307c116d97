"""The door that every request comes through, whether over WebSocket or HTTP."""

from __future__ import annotations

from typing import Protocol

from attrs import frozen
from msgspec import Struct

from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.contract.methods import Method


@frozen
class Answer:
    """What a request came to.

    Attributes:
        result: An instance of the method's result type.
        status: The HTTP status, where it is not the route's own.
    """

    result: Struct
    status: int | None = None


class Front(Protocol):
    """What `net` calls. `computerd.api.dispatch.Api` is it."""

    def serves(self, method: Method) -> bool:
        """Whether the method has its work yet."""

    async def call(
        self, method: Method, params: Struct, caller: Caller, connection: Connection | None, arrived: float
    ) -> Answer:
        """Access, then work, then the result.

        Args:
            method: Its row.
            params: An instance of the method's params.
            caller: Who calls.
            connection: On which; None over HTTP.
            arrived: When the request was there, in seconds of the monotonic clock that the front has too.

        Raises:
            ApiError: A refusal for the caller.
        """

    def notified(self, params: Struct, connection: Connection) -> None:
        """A notification of the client's: `params` say which. Never raises."""
