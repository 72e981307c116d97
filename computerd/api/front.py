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

    async def call(self, method: Method, params: Struct, caller: Caller, connection: Connection | None) -> Answer:
        """Access, then work, then the result. `connection` is None over HTTP.

        Raises:
            ApiError: A refusal for the caller.
        """
