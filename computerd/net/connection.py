"""One WebSocket connection, from the upgrade to its end.

Theory. A connection goes through these states, never back:

    opening   the transport is ours, the handshake's answer is on its way
    open      `ready` was sent; texts are calls, binary frames are terminals' input
    closing   a close frame was sent or answered: its terminals are hung up, nothing that arrives counts, no call's answer is sent
    lost      the transport is gone

"closing" ends when the client closes its side, at most `CLOSE_SECONDS` later. On a plain socket our side is closed right after the close frame
and what still comes is read and dropped: a socket that is closed with unread data resets the connection, and the client would see 1006.
"""

# twisted.web and autobahn have no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Final

from attrs import frozen
from twisted.internet import tcp
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

import computerd
from computerd.api.connection import Connection
from computerd.contract import limits, results
from computerd.contract.closing import REASONS, CloseCode
from computerd.contract.identifiers import CONNECTION, REQUEST
from computerd.contract.params import Attach
from computerd.contract.shapes import timestamp
from computerd.net.attempts import LOCAL
from computerd.net.calls import Calls
from computerd.net.credentials import Verified
from computerd.net.heads import SUBPROTOCOL
from computerd.net.receiving import Receiver
from computerd.net.sender import Sender
from computerd.net.throttle import source
from computerd.terminal.channels import Channels

CLOSE_SECONDS: Final = 5.0
"""From a close frame to a hard end."""
MEMBER_UNSENT_BYTES: Final = 24 * limits.MIB
"""That all of a member's clients together may leave unread: fifty connections at their own limit would be 800 MiB."""
MEMBER_ARRIVING_BYTES: Final = 8 * limits.MIB
"""Of messages that have not come whole, on all of a member's connections together."""
STRANGER_CLOSE_SECONDS: Final = 1.0
"""The same for a client whose credential could not be checked."""
MISSED_PINGS: Final = 2
_PING: Final = b"\x89\x00"


@frozen
class Opening:
    """What is known of a connection before it is open.

    Attributes:
        verified: Whose credential it presented; None: the host's key is not there yet.
        subprotocol: Whether `opc.v1` was offered.
        attaches: The sessions that its URL names.
        request_id: Of the handshake.
    """

    verified: Verified | None
    subprotocol: bool
    attaches: tuple[Attach, ...]
    request_id: str


class Socket(Receiver):
    """A connection. Made by `ConnectionFactory`, which sets `opening`.

    Attributes:
        close_code: Why it was closed by us.
    """

    opening: Opening
    sender: Sender | None = None
    close_code: CloseCode | None = None
    _calls: Calls | None = None
    _connection: Connection | None = None
    _deadline: float | None = None
    _missed = 0
    _moved = 0
    _tick_call: IDelayedCall | None = None
    _abort_call: IDelayedCall | None = None

    # opening

    def connectionMade(self) -> None:
        """The transport is ours."""
        super().connectionMade()
        # input before the connection is open is nobody's
        self.take_input = lambda channel, data: None
        self.sender = Sender(self.transport, self._too_much_unsent, self._member_is_over)
        self.factory.roster.arrived(self)

    def onConnect(self, request: object) -> tuple[str | None, dict[str, str]]:
        """The handshake is good. Whatever speaks against the connection is said by its close code."""
        subprotocol = SUBPROTOCOL if self.opening.subprotocol else None
        return subprotocol, {"X-Request-Id": self.opening.request_id}

    def onOpen(self) -> None:
        """The handshake is done."""
        problem = self._problem()
        if problem is not None:
            self.close(problem)
        else:
            self._open()

    def _problem(self) -> CloseCode | None:
        verified = self.opening.verified
        if not self.opening.subprotocol:
            return CloseCode.NO_SUBPROTOCOL
        if verified is None:
            return CloseCode.NO_KEY
        if self.factory.roster.count(verified.caller.member.id) >= limits.MAX_CONNECTIONS_PER_MEMBER:
            return CloseCode.TOO_MANY_CONNECTIONS
        return CloseCode.RESTARTING if self.factory.roster.closing else None

    def _open(self) -> None:
        factory, verified, sender = self.factory, self.opening.verified, self.sender
        assert verified is not None and sender is not None
        connection = Connection(
            id=CONNECTION.new(factory.random),
            caller=verified.caller,
            outbox=sender,
            channels=Channels(traffic=factory.traffic),
        )
        self._connection = connection
        self._calls = Calls(
            factory.front, connection, sender, factory.reactor.seconds, self._request_id, self.hold, factory.tally,
            factory.shares,
        )  # fmt: skip
        # the hot path goes from the parser to the terminals without a stop
        self.take_input = connection.channels.input
        expires = verified.caller.expires_at
        left = None if expires is None else max(0.0, expires - factory.wall())
        if left is not None:
            self._deadline = factory.reactor.seconds() + left
        factory.roster.opened(self, verified.caller.member.id)
        factory.tally.connections += 1
        self._note("connection.opened", connection)
        self._tick_call = factory.reactor.callLater(limits.PING_SECONDS, self._tick)
        sender.notify("ready", _ready(connection.id, expires, left))
        for attach in self.opening.attaches:
            self._calls.attach(attach)

    def _note(self, action: str, connection: Connection) -> None:
        code = self.close_code
        where = source(self.transport.getPeer()) or LOCAL
        self.factory.trail.note(
            action,
            "ok" if code is None else str(int(code)),
            caller=connection.caller,
            subject=f"{connection.id} {where}",
        )

    def _request_id(self) -> str:
        return REQUEST.new(self.factory.random)

    # open

    def take_text(self, text: str) -> None:
        """A request or a notification."""
        if self._calls is not None:
            self._calls.receive(text)

    def sendData(self, data: bytes, sync: bool = False, chopsize: int | None = None) -> None:
        """Autobahn's own frames. They take the same way as all others, so that order holds."""
        sender = self.sender
        if sender is None or self.state != self.STATE_OPEN or sender.ended:
            self.transport.write(data)
        else:
            sender.control(data)

    def unregisterProducer(self) -> None:
        """What Autobahn calls before it drops a connection."""
        if self.sender is not None:
            self.sender.end()

    @property
    def unsent(self) -> int:
        """Bytes that wait for the client and can't be held back."""
        return 0 if self.sender is None else self.sender.unsent

    def _member_is_over(self) -> bool:
        verified = self.opening.verified
        return verified is not None and self.factory.roster.unsent(verified.caller.member.id) > MEMBER_UNSENT_BYTES

    def too_much_arrives(self) -> bool:
        """See `Receiver`."""
        verified = self.opening.verified
        return verified is None or self.factory.roster.arriving(verified.caller.member.id) > MEMBER_ARRIVING_BYTES

    def _too_much_unsent(self) -> None:
        self.close(CloseCode.TOO_MUCH_UNSENT)

    def _tick(self) -> None:
        """Every 30 s: has the client been heard, or has it taken anything off our hands, since the last time?"""
        sender = self.sender
        assert sender is not None
        if self.heard or sender.moved != self._moved:
            self._missed = 0
        if self._missed >= MISSED_PINGS:
            self.close(CloseCode.GOING_AWAY)
            return
        self.heard, self._moved = False, sender.moved
        self._missed += 1
        self._tick_call = self.factory.reactor.callLater(limits.PING_SECONDS, self._tick)
        sender.control(_PING)

    def check(self) -> None:
        """Closes the connection if its credential no longer counts, by either clock."""
        verified = self.opening.verified
        if self.dead or verified is None:
            return
        late = self._deadline is not None and self.factory.reactor.seconds() >= self._deadline
        if late or self.factory.credentials.problem(verified) is not None:
            self.close(CloseCode.CREDENTIAL_ENDED)

    # closing

    def close(self, code: CloseCode) -> None:
        """Ends the connection with a close frame. The first reason stands."""
        if self.dead:
            return
        if self.state != self.STATE_OPEN:
            self.transport.abortConnection()
            return
        self.close_code = code
        self.factory.tally.closed(code)
        self._finish()
        self.sendCloseFrame(code=int(code), reasonUtf8=REASONS[code].encode(), isReply=False)
        self._close_transport(half=True)

    def peer_closes(self, code: int | None) -> None:
        """The client has said goodbye: say it too, and close (RFC 6455, section 7.1.1)."""
        self.factory.tally.left(code)
        self._finish()
        self.wasClean = True
        self.remoteCloseCode = code
        self.sendCloseFrame(code=code, isReply=True)
        self._close_transport(half=False)

    def _finish(self) -> None:
        """Nothing that arrives or is answered from now on counts; the terminals are hung up."""
        self.end_receiving()
        if self.sender is not None:
            self.sender.end()
        tick, self._tick_call = self._tick_call, None
        if tick is not None and tick.active():
            tick.cancel()
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.end()
        connection, self._connection = self._connection, None
        self.factory.roster.finished(self)
        if connection is not None:
            self._note("connection.closed", connection)
            connection.gone()

    def _close_transport(self, half: bool) -> None:
        transport = self.transport
        seconds = STRANGER_CLOSE_SECONDS if self.opening.verified is None else CLOSE_SECONDS
        self._abort_call = self.factory.reactor.callLater(seconds, transport.abortConnection)
        if half and isinstance(transport, tcp.Connection):
            transport.loseWriteConnection()
        else:
            transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The transport is gone."""
        if not self.dead:
            self.factory.tally.lost()
            self._finish()
        for call in (self._abort_call, self.closeHandshakeTimeoutCall):
            if call is not None and call.active():
                call.cancel()
        self.closeHandshakeTimeoutCall = None
        self.factory.roster.lost(self)
        super().connectionLost(reason)


def _ready(connection_id: str, expires: float | None, left: float | None) -> results.Ready:
    return results.Ready(
        connection_id=connection_id,
        server=results.Server(version=computerd.__version__, region=None),
        protocol=results.ProtocolFeatures(features=[]),
        limits=results.ReadyLimits(
            max_attached=limits.MAX_ATTACHED,
            max_message_bytes=limits.MAX_MESSAGE_BYTES,
            max_requests_per_second=limits.MAX_REQUESTS_PER_SECOND,
        ),
        expires_at=None if expires is None else timestamp(expires),
        expires_in_ms=None if left is None else int(1000 * left),
    )
