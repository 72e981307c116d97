"""The opening handshake of RFC 6455, section 4.1, from the client's side, by wsproto and h11. Holds no I/O."""

from __future__ import annotations

from typing import Final, NamedTuple

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, RejectConnection, RejectData, Request
from wsproto.utilities import ProtocolError

from computerd.opc.failure import Failure
from computerd.opc.locate import Place
from computerd.opc.requests import USER_AGENT
from computerd.opc.websocket import WebSocket

SUBPROTOCOL: Final = "opc.v1"
MAX_BODY: Final = 64 * 1024
"""Bytes of a refusal's body that are read. The head is bounded by h11."""

_CUT: Final = "it ended the connection during the handshake"


class Refusal(NamedTuple):
    """The answer was no."""

    status: int
    body: bytes


class Handshake:
    """One attempt."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._status: int | None = None
        self._body = b""

    def request(self) -> bytes:
        """The bytes that ask for the upgrade."""
        where, token = self._place.address, self._place.token
        headers = [(b"User-Agent", USER_AGENT.encode())]
        if token is not None:
            headers.append((b"Authorization", b"Bearer " + token.encode("ascii")))
        return self._protocol.send(
            Request(
                host=where.host_header,
                target=f"{where.path}/connect",
                subprotocols=[SUBPROTOCOL],
                extra_headers=headers,
            )
        )

    def feed(self, data: bytes) -> WebSocket | Refusal | None:
        """What the answer is, with `data`, or none at the end of the stream; None: there is more to come.

        Raises:
            Failure: It is no answer of a daemon.
            ConnectionError: It ended in the middle.
        """
        self._receive(data)
        for event in self._protocol.events():
            match event:
                case AcceptConnection():
                    return self._accepted(event)
                case RejectConnection(status, _, has_body):
                    self._status = status
                    if not has_body:
                        return Refusal(status, b"")
                case RejectData(body, finished):
                    self._body += bytes(body)
                    if finished or len(self._body) > MAX_BODY:
                        return Refusal(self._status or 0, self._body)
        if not data:
            if self._status is not None:
                return Refusal(self._status, self._body)
            raise ConnectionError(_CUT)
        return None

    def _receive(self, data: bytes) -> None:
        try:
            self._protocol.receive_data(data or None)
        # wsproto decodes some headers without looking for errors
        except (ProtocolError, UnicodeDecodeError):
            if not data:
                raise ConnectionError(_CUT) from None
            raise self._strange() from None

    def _accepted(self, event: AcceptConnection) -> WebSocket:
        if event.subprotocol != SUBPROTOCOL:
            raise Failure("invalid_answer", f"{self._place.address.url} is no daemon that speaks {SUBPROTOCOL}.")
        return WebSocket(self._protocol)

    def _strange(self) -> Failure:
        return Failure("invalid_answer", f"{self._place.address.url} does not answer as a daemon does. Check the URL.")
