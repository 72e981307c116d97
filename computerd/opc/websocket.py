"""An open WebSocket from the client's side, by wsproto: bytes to whole messages and back, within bounds. Holds no I/O.

wsproto tells each frame as it comes in, cut wherever the network cut it; here the pieces are joined, up to MAX_MESSAGE. It tells a
broken rule as if the other end had closed; its state says which of the two it was.
"""

from __future__ import annotations

import contextlib
from typing import Final, NamedTuple

from wsproto import WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.utilities import LocalProtocolError

from computerd.contract import limits

MAX_MESSAGE: Final = 16 * limits.MIB
"""Bytes of one message that are put up with. The server's results are far smaller."""
CLOSE_NORMAL: Final = 1000


class Text(NamedTuple):
    """A whole text message, in UTF-8."""

    data: bytes


class Binary(NamedTuple):
    """A whole binary message."""

    data: bytes


class Pinged(NamedTuple):
    """To be answered with a pong of the same payload."""

    payload: bytes


class Ponged(NamedTuple):
    """An answer to a ping, or a sign of life."""


class Closed(NamedTuple):
    """The other end says goodbye; nothing comes after it. The code is 1005 if it gave none (RFC 6455, section 7.1.5)."""

    code: int
    reason: str


Message = Text | Binary | Pinged | Ponged | Closed


class BadServerError(Exception):
    """The other end does not keep to RFC 6455, or sends a message without end."""


class ClosedError(Exception):
    """Nothing can be sent any more: one end has said goodbye."""


class WebSocket:
    """One connection after its handshake. All that sends, except `close`, raises ClosedError after a goodbye.

    Args:
        protocol: A client's, open. What came after the handshake's answer is in it already: `feed(b"")` tells.
    """

    def __init__(self, protocol: WSConnection) -> None:
        self._protocol = protocol
        self._parts = bytearray()

    # --- to the other end

    def text(self, text: str) -> bytes:
        """The bytes of a text message."""
        return self._encoded(TextMessage(text))

    def binary(self, data: bytes) -> bytes:
        """The bytes of a binary message."""
        return self._encoded(BytesMessage(data))

    def ping(self) -> bytes:
        """The bytes of a ping."""
        return self._encoded(Ping())

    def pong(self, payload: bytes = b"") -> bytes:
        """The bytes of a pong: the answer to a ping, or unasked a sign of life (RFC 6455, section 5.5.3)."""
        return self._encoded(Pong(payload))

    def close(self) -> bytes:
        """The bytes that say goodbye, or answer the other end's goodbye; none when that has been done."""
        with contextlib.suppress(ClosedError):
            return self._encoded(CloseConnection(CLOSE_NORMAL))
        return b""

    def _encoded(self, event: Event) -> bytes:
        try:
            return self._protocol.send(event)
        except LocalProtocolError:
            raise ClosedError from None

    # --- from the other end

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes.

        Raises:
            BadServerError: A frame that the RFC forbids, or a message over MAX_MESSAGE.
        """
        with contextlib.suppress(LocalProtocolError):  # both have said goodbye: it is of no interest
            self._protocol.receive_data(data)
        return [message for event in self._protocol.events() if (message := self._message(event)) is not None]

    def _message(self, event: Event) -> Message | None:
        match event:
            case BytesMessage(data, _, finished):
                whole = self._joined(bytes(data), finished)
                return None if whole is None else Binary(whole)
            case TextMessage(text, _, finished):
                whole = self._joined(text.encode(), finished)
                return None if whole is None else Text(whole)
            case Ping(payload):
                return Pinged(bytes(payload))
            case Pong():
                return Ponged()
            case CloseConnection(code, reason):
                if self._protocol.state not in (ConnectionState.REMOTE_CLOSING, ConnectionState.CLOSED):
                    raise BadServerError(reason)
                return Closed(int(code), reason or "")
        return None

    def _joined(self, piece: bytes, finished: bool) -> bytes | None:
        if finished and not self._parts:
            return piece
        self._parts += piece
        if len(self._parts) > MAX_MESSAGE:
            raise BadServerError(f"it sent a message of over {MAX_MESSAGE} bytes")
        if not finished:
            return None
        whole = bytes(self._parts)
        self._parts.clear()
        return whole
