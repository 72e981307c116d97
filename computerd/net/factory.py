"""Makes WebSocket connections of HTTP ones."""

# twisted.web and autobahn have no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from attrs import frozen
from autobahn.twisted.websocket import WebSocketServerFactory
from autobahn.websocket import USES_NVX
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from computerd.api.front import Front
from computerd.api.trail import NOWHERE, Trail
from computerd.contract import limits
from computerd.contract.decoding import decode, decode_query
from computerd.contract.errors import invalid
from computerd.contract.params import Attach
from computerd.net.connection import CLOSE_SECONDS, Opening, Socket
from computerd.net.credentials import Credentials, Verified
from computerd.net.heads import SUBPROTOCOL, Head
from computerd.net.httpchannel import Channel
from computerd.net.roster import Roster
from computerd.net.shares import Shares
from computerd.net.tally import Tally
from computerd.terminal.traffic import Traffic

_HANDSHAKE: Final = (
    b"GET /connect HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n%b\r\n"
)


@frozen
class _Timer:
    """Autobahn's timers on the injected reactor; its own take the global one."""

    reactor: Any

    def call_later(self, seconds: float, function: Callable[..., object], *arguments: object) -> IDelayedCall:
        call: IDelayedCall = self.reactor.callLater(seconds, function, *arguments)
        return call


class ConnectionFactory(WebSocketServerFactory):
    """The factory of `Socket`.

    Attributes:
        front: Carries calls out.
        credentials: Says whether one still counts.
        roster: Every connection.
        wall: Seconds since the epoch.
        random: n bytes of a cryptographic source.
        tally: Counts connections and what is called on them.
        traffic: Counts what their terminals carry.
        trail: Is told of their beginnings and ends.
        shares: What each member may have of the reactor's time, over HTTP too.
    """

    protocol = Socket  # type: ignore[assignment]  # Autobahn declares its own class
    noisy = False

    def __init__(
        self,
        reactor: Any,
        front: Front,
        credentials: Credentials,
        roster: Roster,
        wall: Callable[[], float],
        random: Callable[[int], bytes],
        tally: Tally | None = None,
        traffic: Traffic | None = None,
        trail: Trail = NOWHERE,
        worked: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(server="", reactor=reactor)
        self.front = front
        self.credentials = credentials
        self.roster = roster
        self.wall = wall
        self.random = random
        self.tally = tally or Tally()
        self.traffic = traffic or Traffic()
        self.trail = trail
        self.shares = Shares(reactor.seconds, worked or reactor.seconds)
        self._batched_timer = _Timer(reactor)
        # One call: each one sets allowNullOrigin back to False unless it names it. Origins are checked before, as exact strings.
        self.setProtocolOptions(
            versions=[13],
            webStatus=False,
            utf8validateIncoming=True,
            requireMaskedClientFrames=True,
            maskServerFrames=False,
            applyMask=True,
            maxFramePayloadSize=limits.MAX_MESSAGE_BYTES,
            maxMessagePayloadSize=limits.MAX_MESSAGE_BYTES,
            autoFragmentSize=0,
            failByDrop=False,
            echoCloseCodeReason=False,
            openHandshakeTimeout=limits.HEAD_SECONDS,
            closeHandshakeTimeout=CLOSE_SECONDS,
            tcpNoDelay=True,
            perMessageCompressionAccept=lambda offers: None,
            autoPingInterval=0,
            autoPingTimeout=0,
            serveFlashSocketPolicy=False,
            allowedOrigins=[],
            allowNullOrigin=False,
            maxConnections=0,
            trustXForwardedFor=0,
        )
        if not USES_NVX:
            Logger().warn(
                "Autobahn's native code (NVX) is not in use: large frames take 100 times as long. "
                "Install a wheel of autobahn for this platform, and do not set AUTOBAHN_USE_NVX=0."
            )

    def take_over(
        self,
        channel: Channel,
        head: Head,
        key: str,
        verified: Verified | None,
        attaches: tuple[Attach, ...],
        request_id: str,
    ) -> None:
        """Makes a WebSocket of a connection whose handshake was checked.

        Autobahn gets a handshake that says only what it has to know: no token, no cookie, no extension.
        """
        subprotocol = SUBPROTOCOL in head.words("Sec-WebSocket-Protocol")
        socket = Socket()
        socket.factory = self
        socket.opening = Opening(verified, subprotocol, attaches, request_id)
        channel.bequeath(socket)
        offer = b"Sec-WebSocket-Protocol: %b\r\n" % SUBPROTOCOL.encode() if subprotocol else b""
        socket.dataReceived(_HANDSHAKE % (key.encode(), offer))


def attaches(head: Head) -> tuple[Attach, ...]:
    """The attaches that a connection's URL names, which share their options.

    Raises:
        ApiError: `invalid_request` with the field.
    """
    query = head.query
    sessions = [value for name, value in query if name == "sessionId"]
    options = decode_query(Attach, [pair for pair in query if pair[0] != "sessionId"], {"sessionId": ""})
    if len(sessions) > limits.MAX_ATTACHED:
        raise invalid("sessionId", f"At most {limits.MAX_ATTACHED} sessions may be attached.")
    plain = msgspec.to_builtins(options)
    return tuple(decode(Attach, {**plain, "sessionId": session}) for session in dict.fromkeys(sessions))
