"""A WebSocket connection to a daemon: an open socket that does not block, with what is still to be sent."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, Self

from computerd.contract import closing
from computerd.opc import address, requests
from computerd.opc.failure import Failure, milliseconds, one_line
from computerd.opc.handshake import Handshake, Refusal
from computerd.opc.locate import Place
from computerd.opc.websocket import BadServerError, Closed, ClosedError, Message, Pinged, WebSocket

HANDSHAKE_SECONDS: Final = 15.0
"""From the request to the end of its answer."""
READ_BYTES: Final = 128 * 1024
"""Taken from the socket at a time: also the most that waits for a standard output that is full."""

_ADVICE: Final = {
    closing.CloseCode.GOING_AWAY: "It heard nothing from this client for a minute. Connect again.",
    closing.CloseCode.RESTARTING: "Connect again in a few seconds.",
    closing.CloseCode.CREDENTIAL_ENDED: "Get a new token (`computerctl token create`).",
    closing.CloseCode.TOO_MUCH_UNSENT: "Connect again, and read faster.",
    closing.CloseCode.TOO_MANY_CONNECTIONS: "Close some of them first.",
    closing.CloseCode.NO_KEY: "It has no key to check tokens with yet. Try again in 2 seconds.",
}


class Lost(Exception):
    """The link has ended, and not by our wish. The text says how and what to do.

    Attributes:
        code: The close code that the daemon gave, or None.
        retry_after_ms: How long the daemon wants us to wait, or None.
    """

    def __init__(self, message: str, code: int | None = None, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_ms = retry_after_ms

    @property
    def what(self) -> str:
        """What happened, without the advice that follows in the next sentence."""
        return str(self).partition(". ")[0].rstrip(".")


class Link:
    """One connection after its handshake.

    Args:
        connection: The socket, which becomes non-blocking.
        websocket: What speaks over it.
    """

    def __init__(self, connection: socket.socket, websocket: WebSocket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._websocket = websocket
        self._unsent = bytearray()
        # some messages may have come together with the handshake's answer
        self._fresh = True
        self._end: Lost | None = None

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
        return self._fresh or self._end is not None or _pending(self._connection)

    # --- to the daemon: now, or with the next `flush`. All of it raises Lost when the link has ended.

    def text(self, text: str) -> None:
        """Sends a text message."""
        self._send(lambda: self._websocket.text(text))

    def binary(self, data: bytes) -> None:
        """Sends a binary message."""
        self._send(lambda: self._websocket.binary(data))

    def ping(self) -> None:
        """Sends a ping; `Ponged` will answer it."""
        self._send(self._websocket.ping)

    def pong(self, payload: bytes = b"") -> None:
        """Sends a pong."""
        self._send(lambda: self._websocket.pong(payload))

    def _send(self, encoded: Callable[[], bytes]) -> None:
        try:
            self._unsent += encoded()
        except ClosedError:
            raise self._end or Lost("the connection to the daemon has been closed.") from None
        self.flush()

    def flush(self) -> None:
        """Gives the kernel what it takes."""
        try:
            while self._unsent:
                count = self._connection.send(self._unsent)
                del self._unsent[:count]
        except OSError as error:
            if not _would_block(error):
                raise _broken(error) from None

    # --- from the daemon

    def receive(self) -> list[Message] | None:
        """What has arrived, pings answered and taken out; None when nothing has.

        Raises:
            Lost: The link has ended. Messages before its end have been returned by earlier calls.
        """
        self._check()
        data = self._arrived()
        if data is None:
            return None
        try:
            told = [message for message in self._websocket.feed(data) if not self._own(message)]
        except BadServerError as error:
            raise Lost(f"what answers is no WebSocket server that this client understands: {error}.") from None
        if not told:
            self._check()
        return told

    def _check(self) -> None:
        if self._end is not None:
            raise self._end

    def _arrived(self) -> bytes | None:
        if self._fresh:
            self._fresh = False
            return b""
        try:
            data = self._connection.recv(READ_BYTES)
        except OSError as error:
            if _would_block(error):
                return None
            raise _broken(error) from None
        if not data:
            raise Lost("the daemon ended the connection without a word. Look at its log, and connect again.")
        return data

    def _own(self, message: Message) -> bool:
        """Whether `message` concerns nobody but the link; it has been seen to."""
        if isinstance(message, Pinged):
            # if it can't be sent any more, what arrived with it still counts; the next call tells
            with contextlib.suppress(Lost):
                self.pong(message.payload)
        elif isinstance(message, Closed):
            self._end = closed(message.code, message.reason)
        return isinstance(message, Pinged | Closed)

    def close(self) -> None:
        """Says goodbye if that is possible at once, and lets go. No error."""
        with contextlib.suppress(OSError, Lost, ValueError):
            self._unsent += self._websocket.close()
            self.flush()
        with contextlib.suppress(OSError):
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _would_block(error: OSError) -> bool:
    return isinstance(error, (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError))


def _pending(connection: socket.socket) -> bool:
    """Whether TLS has decrypted more than was read of it."""
    return isinstance(connection, ssl.SSLSocket) and connection.pending() > 0


def _broken(error: OSError) -> Lost:
    return Lost(
        f"the connection to the daemon broke: {error.strerror or error}. Check that it still runs, and connect again."
    )


def closed(code: int, reason: str) -> Lost:
    """What a close from the daemon means for a person."""
    known = code in set(closing.CloseCode)
    advice = _ADVICE.get(closing.CloseCode(code), "") if known else "Look at its log, and connect again."
    said = closing.REASONS[closing.CloseCode(code)] if known else one_line(reason)
    if code == closing.CloseCode.NO_KEY:  # that one is for programs
        said = ""
    message = f"the daemon closed the connection ({code}{': ' + said if said else ''}). {advice}".rstrip()
    return Lost(message, code, _retry_after(reason))


def _retry_after(reason: str) -> int | None:
    """The `retryAfterMs` of a reason that is made for programs."""
    try:
        told = json.loads(reason)
    except ValueError:
        return None
    return milliseconds(told.get("retryAfterMs")) if isinstance(told, dict) else None


def dial(place: Place) -> Link:
    """A new link.

    Raises:
        Failure: The daemon can't be reached, or refused.
    """
    connection = address.connect(place.address)
    try:
        answer = _shaken(connection, place)
        if isinstance(answer, Refusal):
            raise _refused(place, answer)
        return Link(connection, answer)
    except (OSError, UnicodeError) as error:
        connection.close()
        raise address.unreachable(place.address, error) from None
    except BaseException:
        connection.close()
        raise


def _shaken(connection: socket.socket, place: Place) -> WebSocket | Refusal:
    handshake = Handshake(place)
    connection.sendall(handshake.request())
    limit = time.monotonic() + HANDSHAKE_SECONDS
    while (answer := handshake.feed(connection.recv(READ_BYTES))) is None:
        if time.monotonic() > limit:
            raise TimeoutError(f"it did not answer within {HANDSHAKE_SECONDS:.0f} s")
    return answer


def _refused(place: Place, refusal: Refusal) -> Failure:
    try:
        requests.answer(place, refusal.status, refusal.body)
    except Failure as failure:
        return failure
    return Failure("invalid_answer", f"{place.address.url} answered {refusal.status} to a WebSocket. Check the URL.")
