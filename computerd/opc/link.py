"""A WebSocket connection to a daemon: an open socket that does not block, with what is still to be sent."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, Self

from computerd.contract import closing
from computerd.opc import address, handshake, requests, websocket
from computerd.opc.failure import Failure
from computerd.opc.locate import Place
from computerd.opc.websocket import Message, Opcode

HANDSHAKE_SECONDS: Final = 15.0
"""From the request to the end of the answer's head."""
READ_BYTES: Final = 128 * 1024
"""Taken from the socket at a time: also the most that waits for a standard output that is full."""
CLOSE_NORMAL: Final = 1000

_ADVICE: Final = {
    closing.CloseCode.GOING_AWAY: "It heard nothing from this client for a minute. Connect again.",
    closing.CloseCode.RESTARTING: "Connect again in a few seconds.",
    closing.CloseCode.CREDENTIAL_ENDED: "Get a new token (`computerctl token create`).",
    closing.CloseCode.TOO_MUCH_UNSENT: "Connect again, and read faster.",
    closing.CloseCode.TOO_MANY_CONNECTIONS: "Close some of them first.",
    closing.CloseCode.NO_KEY: "It has no key to check tokens with yet. Try again in 2 seconds.",
}


class Lost(Exception):  # noqa: N818
    """The link has ended, and not by our wish. The text says how and what to do."""


class Link:
    """One connection after its handshake.

    Args:
        connection: The socket, which becomes non-blocking.
        early: What came after the handshake's answer.
        random: Returns so many random bytes; masks are made of them (RFC 6455, section 10.3).
    """

    def __init__(self, connection: socket.socket, early: bytes, random: Callable[[int], bytes]) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._decoder = websocket.Decoder()
        self._early = early
        self._random = random
        self._unsent = bytearray()

    def fileno(self) -> int:
        """For poll(2)."""
        return self._connection.fileno()

    @property
    def unsent(self) -> int:
        """Bytes that the kernel did not take yet."""
        return len(self._unsent)

    @property
    def buffered(self) -> bool:
        """Whether `receive` has something although the socket may not be readable."""
        return bool(self._early) or (isinstance(self._connection, ssl.SSLSocket) and self._connection.pending() > 0)

    def send(self, opcode: Opcode, payload: bytes) -> None:
        """Sends a message, now or with the next `flush`.

        Raises:
            Lost: The link has ended.
        """
        self._unsent += websocket.encode(opcode, payload, self._random(4))
        self.flush()

    def flush(self) -> None:
        """Gives the kernel what it takes.

        Raises:
            Lost: The link has ended.
        """
        try:
            while self._unsent:
                count = self._connection.send(self._unsent)
                del self._unsent[:count]
        except OSError as error:
            if not _would_block(error):
                raise _broken(error) from None

    def receive(self) -> list[Message] | None:
        """What has arrived, pings answered and taken out; None when nothing has.

        Raises:
            Lost: The link has ended. Messages before its end have been returned by earlier calls.
        """
        data, self._early = self._early, b""
        if not data:
            try:
                data = self._connection.recv(READ_BYTES)
            except OSError as error:
                if _would_block(error):
                    return None
                raise _broken(error) from None
            if not data:
                raise Lost("the daemon ended the connection without a word. Look at its log, and connect again.")
        try:
            messages = self._decoder.feed(data)
        except websocket.BadServerError as error:
            raise Lost(f"what answers is no WebSocket server that this client understands: {error}.") from None
        return [message for message in messages if not self._answered(message)]

    def _answered(self, message: Message) -> bool:
        if message.opcode is Opcode.PING:
            # if it can't be sent any more, what arrived with it still counts; the next call tells
            with contextlib.suppress(Lost):
                self.send(Opcode.PONG, message.payload)
        return message.opcode is Opcode.PING

    def close(self) -> None:
        """Says goodbye if that is possible at once, and lets go. No error."""
        with contextlib.suppress(OSError, Lost, ValueError):
            self.send(Opcode.CLOSE, CLOSE_NORMAL.to_bytes(2, "big"))
        with contextlib.suppress(OSError):
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _would_block(error: OSError) -> bool:
    return isinstance(error, (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError))


def _broken(error: OSError) -> Lost:
    return Lost(
        f"the connection to the daemon broke: {error.strerror or error}. Check that it still runs, and connect again."
    )


def closed(payload: bytes) -> Lost:
    """What a close frame from the daemon means for a person."""
    code, reason = websocket.closing(payload)
    known = code in set(closing.CloseCode)
    advice = _ADVICE.get(closing.CloseCode(code), "") if known else "Look at its log, and connect again."
    said = closing.REASONS[closing.CloseCode(code)] if known and code != closing.CloseCode.NO_KEY else reason
    return Lost(f"the daemon closed the connection ({code}{': ' + said if said else ''}). {advice}".rstrip())


def dial(place: Place, random: Callable[[int], bytes]) -> Link:
    """A new link.

    Raises:
        Failure: The daemon can't be reached, or refused.
    """
    key = base64.b64encode(random(16)).decode()
    connection = address.connect(place.address)
    try:
        connection.sendall(handshake.request(place, key))
        head, early = _head(connection, place)
        if not head.accepts(key):
            raise _refused(place, head, early, connection)
        if head.headers.get("sec-websocket-protocol") != handshake.SUBPROTOCOL:
            raise Failure("invalid_answer", f"{place.address.url} is no daemon that speaks {handshake.SUBPROTOCOL}.")
        return Link(connection, early, random)
    except OSError as error:
        connection.close()
        raise address.unreachable(place.address, error) from None
    except BaseException:
        connection.close()
        raise


def _head(connection: socket.socket, place: Place) -> tuple[handshake.Head, bytes]:
    """The answer's head, and what came after it."""
    data = b""
    limit = time.monotonic() + HANDSHAKE_SECONDS
    while handshake.HEAD_END not in data:
        if len(data) > handshake.MAX_HEAD or time.monotonic() > limit:
            raise Failure("invalid_answer", f"{place.address.url} does not answer as a daemon does. Check the URL.")
        more = connection.recv(READ_BYTES)
        if not more:
            raise ConnectionError("it ended the connection during the handshake")
        data += more
    text, _, rest = data.partition(handshake.HEAD_END)
    head = handshake.parse(text)
    if head is None:
        raise Failure("invalid_answer", f"{place.address.url} does not answer as a daemon does. Check the URL.")
    return head, rest


def _refused(place: Place, head: handshake.Head, body: bytes, connection: socket.socket) -> Failure:
    size = head.headers.get("content-length", "")
    want = min(int(size), 64 * 1024) if size.isdigit() else 0
    with contextlib.suppress(OSError):
        while len(body) < want and (more := connection.recv(want - len(body))):
            body += more
    try:
        requests.answer(place, head.status, body)
    except Failure as failure:
        return failure
    return Failure("invalid_answer", f"{place.address.url} answered {head.status} to a WebSocket. Check the URL.")
