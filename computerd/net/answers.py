"""HTTP answers: JSON but for the metrics, always with a request id, never with the server's version."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from attrs import frozen
from msgspec import Struct

from computerd.contract.errors import ApiError
from computerd.net.heads import MethodNotAllowed, RangeNotSatisfiable
from computerd.wire import strictjson


@frozen
class Reply:
    """One answer.

    Attributes:
        headers: Beside those that every answer has.
        kind: The media type of the body.
    """

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    kind: str = "application/json"

    def lines(self, request_id: str, date: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Every header, but for Connection."""
        yield b"Date", date
        yield b"Content-Type", self.kind.encode()
        yield b"Content-Length", b"%d" % len(self.body)
        yield b"Cache-Control", b"no-store"
        yield b"X-Content-Type-Options", b"nosniff"
        yield b"X-Request-Id", request_id.encode()
        for name, value in self.headers:
            yield name.encode(), value.encode()

    def raw(self, request_id: str, date: bytes) -> bytes:
        """The whole answer, the last one on its connection."""
        head = b"HTTP/1.1 %d %s\r\n" % (self.status, reason(self.status))
        lines = b"".join(b"%s: %s\r\n" % line for line in self.lines(request_id, date))
        return head + lines + b"Connection: close\r\n\r\n" + self.body


@frozen
class Preamble:
    """The head of an answer whose body is a stream, or that has none.

    Attributes:
        kind: The media type of the body; None: there is none.
        length: Of the body, in bytes; None: nobody knows, or there is none.
        headers: Beside those that every answer has.
        cache: The value of Cache-Control.
    """

    status: int
    kind: str | None
    length: int | None
    headers: tuple[tuple[str, str], ...] = ()
    cache: str = "no-store"

    def lines(self, request_id: str, date: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Every header, but for Connection and Transfer-Encoding."""
        yield b"Date", date
        if self.kind is not None:
            yield b"Content-Type", self.kind.encode()
        if self.length is not None:
            yield b"Content-Length", b"%d" % self.length
        yield b"Cache-Control", self.cache.encode()
        yield b"X-Content-Type-Options", b"nosniff"
        yield b"X-Request-Id", request_id.encode()
        for name, value in self.headers:
            yield name.encode(), value.encode()


def reason(status: int) -> bytes:
    """The phrase that goes with a status."""
    return HTTPStatus(status).phrase.encode()


def success(status: int, result: Struct) -> Reply:
    """A result."""
    return Reply(status, strictjson.dumps(result))


def refusal(error: ApiError, request_id: str) -> Reply:
    """An error."""
    headers: list[tuple[str, str]] = []
    if error.status == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    if error.status == 426:
        headers += [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
    if isinstance(error, MethodNotAllowed):
        headers.append(("Allow", ", ".join(error.allow)))
    if isinstance(error, RangeNotSatisfiable):
        headers.append(("Content-Range", f"bytes */{error.size}"))
    if error.retry_after_ms is not None:
        headers.append(("Retry-After", str(-(-error.retry_after_ms // 1000))))
    return Reply(error.status, strictjson.dumps({"error": error.body(request_id)}), tuple(headers))
