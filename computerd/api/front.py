"""The door that every request comes through, whether over WebSocket or HTTP."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from attrs import frozen
from msgspec import Struct

from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.contract.methods import Method
from computerd.workspace.port import Coding, Opened, Packed, Upload


@frozen
class Answer:
    """What a request came to.

    Attributes:
        result: An instance of the method's result type.
        status: The HTTP status, where it is not the route's own.
    """

    result: Struct
    status: int | None = None


@frozen(eq=False)
class Arriving:
    """An archive that may come.

    Attributes:
        upload: Takes it. `Upload.finish` is not to be called: `land` does.
        land: That was all, or it can't go on. Fires when it is in place and the journal says so.
    """

    upload: Upload
    land: Callable[[], Coroutine[Any, Any, Answer]]


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

    async def give(self, method: Method, params: Struct, caller: Caller, coding: Coding) -> Opened | Packed:
        """Access, then a stream of bytes, for a method whose route `gives` one. It is to be read, or let go of.

        Args:
            method: Its row.
            params: An instance of the method's params.
            caller: Who calls.
            coding: How an archive is to be compressed.

        Raises:
            ApiError: A refusal for the caller.
        """

    async def take(self, method: Method, params: Struct, caller: Caller, coding: Coding) -> Arriving:
        """Access, then what takes a stream of bytes, for a method whose route `takes` one. Arguments as of `give`.

        Raises:
            ApiError: A refusal for the caller, before anything of the stream is needed.
        """

    def notified(self, params: Struct, connection: Connection) -> None:
        """A notification of the client's: `params` say which. Never raises."""
