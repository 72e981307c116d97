"""One HTTP connection: its deadlines, what is refused about its framing, and how it ends.

Twisted's channel waits for a slow head without end, accepts folded headers, and reads a whole body before anybody
decides whether it is wanted. Here a head has `limits.HEAD_SECONDS` in all, and a request that is refused while its body is on
the way is answered at once; what the client still sends is read and dropped for a moment (64 KiB, 2 s), because closing a socket
with unread data resets it, and the client would never see the answer.

Twisted also answers all requests of one read in a row, 1,400 in 64 KiB, and keeps the answers for a client that does not read. Here a
connection *rests* between two requests: until the reactor's next turn, until its pace allows the next, and until its client has
taken the answers, whichever comes last. Meanwhile nothing is read of it.

While a body arrives, nothing is read for up to three reasons, each of which ends by itself: it is *held*, because nobody has room for it; some
of what was read is still to be decoded, which takes several turns where chunks are small; the client does not take what it is sent.
"""

# twisted.web and autobahn have no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from twisted.internet.interfaces import IDelayedCall, ISSLTransport
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from twisted.web import http

from computerd.contract import limits
from computerd.contract.errors import ApiError, invalid
from computerd.net import answers
from computerd.net.chunks import Chunks
from computerd.net.entrance import Exposition
from computerd.net.tally import OTHER
from computerd.terminal.budget import Budget

if TYPE_CHECKING:
    from computerd.net.incoming import Incoming
    from computerd.net.request import Request
    from computerd.net.site import Site

IDLE_SECONDS: Final = 60.0
"""That a connection may stay open without a request."""
LINGER_SECONDS: Final = 2.0
LINGER_BYTES: Final = 64 * limits.KIB
BODY_GRACE_SECONDS: Final = 10.0
BODY_BYTES_PER_SECOND: Final = limits.KIB
"""A body must come at least this fast once the grace is over."""


class Channel(http.HTTPChannel):
    """A connection before it becomes a WebSocket, if it ever does.

    Attributes:
        site: Where it came in.
        metrics: What `GET /metrics` answers here, because of where the client came in; None: there is no such path.
        caller_known: A request on it has presented a good credential.
        heir: Whom its bytes go to after an upgrade.
        body_bytes: Of the request that is arriving or being answered.
        unsent: Bytes of the last answer, until the client has taken it.
        incoming: The body that is streamed, while it is.
    """

    site: Site
    transport: Any
    callLater: Any
    _networkProducer: Any
    _transferDecoder: Any
    metrics: Exposition | None = None
    caller_known = False
    heir: Protocol | None = None
    body_bytes = 0
    unsent = 0
    incoming: Incoming | None = None
    _came = 0
    _held_since: float | None = None
    _closing = False
    _dropped = 0
    _pace: Budget
    _resting = False
    _rest: IDelayedCall | None = None
    _deadline: IDelayedCall | None = None
    _body_since = 0.0
    _chunks: Chunks | None = None

    def connectionMade(self) -> None:
        """A client has connected; a TLS handshake counts towards the head."""
        super().connectionMade()
        self._pace = Budget(limits.MAX_REQUESTS_PER_SECOND, limits.MAX_REQUESTS_PER_SECOND, self.site.reactor.seconds)
        self.site.admit(self)
        self._start(limits.HEAD_SECONDS, self._head_is_late)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]  # Twisted's has no types
        """The connection has ended."""
        self._stop()
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        self._stop_decoding()
        self.site.release(self)
        super().connectionLost(reason)

    # deadlines

    def _start(self, seconds: float, late: Any, *arguments: object) -> None:
        self._stop()
        self._deadline = self.site.reactor.callLater(seconds, late, *arguments)

    def _stop(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None and deadline.active():
            deadline.cancel()

    def _head_is_late(self) -> None:
        self.abort()

    def expect_body(self) -> None:
        """A body follows: from now on it has to keep coming."""
        self._body_since, self._came, self.body_bytes, self._held_since = self.site.reactor.seconds(), 0, 0, None
        self._start(BODY_GRACE_SECONDS, self._check_body)

    def count_body(self, size: int, *, kept: bool = True) -> None:
        """A piece of it has come, and is `kept` until the rest is there, or not."""
        self._came += size
        if kept:
            self.body_bytes += size

    def hold_body(self) -> None:
        """Reads nothing more of it for now, which is not the client's fault. Harmless when it is held already."""
        if self._held_since is None:
            self._held_since = self.site.reactor.seconds()
        self._networkProducer.pauseProducing()

    def release_body(self) -> None:
        """Reads on. Harmless when it is not held."""
        if self._held_since is not None:
            self._body_since += self.site.reactor.seconds() - self._held_since
            self._held_since = None
            self._read_on()

    def _read_on(self) -> None:
        if self._held_since is None and not self._decoding and not self._waitingForTransport:
            self._networkProducer.resumeProducing()

    def _check_body(self) -> None:
        if self._held_since is not None:
            # nor is it idle
            self.resetTimeout()
            self._start(1.0, self._check_body)
            return
        elapsed = self.site.reactor.seconds() - self._body_since
        if elapsed >= BODY_GRACE_SECONDS and (self._came < (elapsed - BODY_GRACE_SECONDS + 1) * BODY_BYTES_PER_SECOND):
            self._refuse_body(invalid("body", "The body comes too slowly: send it again."))
            return
        self._start(1.0, self._check_body)

    def _refuse_body(self, error: ApiError) -> None:
        if self.incoming is not None:
            self.incoming.stop(error)
        else:
            self.refuse(error)

    def send_continue(self) -> None:
        """Tells a client that waits for it to send the body (RFC 9110, section 10.1.1)."""
        self._send100Continue()

    # parsing

    def dataReceived(self, data: bytes) -> None:
        """Bytes from the client."""
        if self.heir is not None:
            self.heir.dataReceived(data)
        elif self._closing:
            self._drop(len(data))
        else:
            if self._deadline is None and not self._handlingRequest and not self._resting:
                self._start(limits.HEAD_SECONDS, self._head_is_late)
            super().dataReceived(data)

    def lineReceived(self, line: bytes) -> None:
        """One line of a head. Folded headers have been obsolete since RFC 7230, and proxies disagree about them."""
        if self._closing:
            return
        if line[:1] in (b" ", b"\t") or b"\r" in line or b"\x00" in line:
            self._respondToBadRequestAndDisconnect()
            return
        super().lineReceived(line)

    def rawDataReceived(self, data: bytes) -> None:
        """Part of a body, or what follows the head of an upgrade."""
        if self.heir is not None:
            self.heir.dataReceived(data)
        elif self._closing:
            self._drop(len(data))
        else:
            super().rawDataReceived(data)
            if self._decoding:
                self._networkProducer.pauseProducing()
            elif self.incoming is not None:
                self.incoming.flush()

    def _maybeChooseTransferDecoder(self, header: bytes, data: bytes) -> bool:
        """What Twisted calls for each header, some of which say how the body comes."""
        before = self._transferDecoder
        good = bool(super()._maybeChooseTransferDecoder(header, data))
        if good and self._transferDecoder is not before and self.length is None:
            self._chunks = Chunks(self._transferDecoder, self.site.reactor, self._decode_on, self._refuse_body)
            self._transferDecoder = self._chunks
        return good

    @property
    def _decoding(self) -> bool:
        """Whether some of what was read of the body is still to be decoded."""
        return self._chunks is not None and self._chunks.waiting

    def _decode_on(self) -> None:
        self.rawDataReceived(b"")
        if self._chunks is not None:
            self._read_on()

    def _stop_decoding(self) -> None:
        chunks, self._chunks = self._chunks, None
        if chunks is not None:
            chunks.stop()

    def _finishRequestBody(self, data: bytes) -> None:
        """What Twisted calls at the end of a body, with what follows it."""
        if self._chunks is not None:
            self._chunks = None
            self._read_on()
        super()._finishRequestBody(data)

    def allHeadersReceived(self) -> None:
        """A head is complete. The request decides now whether its body is wanted."""
        self._stop()
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        """A request is complete."""
        if not self._closing:
            self._stop()
            super().allContentReceived()

    @property
    def request_line(self) -> tuple[bytes, bytes]:
        """Verb and target of the request whose head has just been read."""
        return self._command, self._path

    @property
    def knows_continue(self) -> bool:
        """Whether that request is of a version of HTTP that has `100 Continue`."""
        return bool(self._version == b"HTTP/1.1")

    # between two requests

    def requestDone(self, request: Request) -> None:
        """An answer is complete. After the server's `stop_accepting` it was the last."""
        if self.site.closing:
            self.persistent = False
        self.body_bytes = 0
        paid = self._pace.take(1)
        if self.persistent and (not paid or self._waitingForTransport or self._buffer or self._dataBuffer):
            # the parser's loop looks at `paused` before each line
            self._resting = self.paused = True
            self._rest_on(paid)
        super().requestDone(request)
        self._keep_resting()

    def answered(self, size: int) -> None:
        """An answer with a body of that size was written."""
        self.unsent = size if self._waitingForTransport else 0

    def resumeProducing(self) -> None:
        """The client has taken all answers."""
        self.unsent = 0
        super().resumeProducing()
        self._keep_resting()
        if self._held_since is not None or self._decoding:
            self._networkProducer.pauseProducing()
        if self._resting and self._rest is None:
            self._go_on()

    def _keep_resting(self) -> None:
        if self._resting:
            self._networkProducer.pauseProducing()

    def _rest_on(self, paid: bool) -> None:
        wait = 0.0 if paid else self._pace.wait_ms(1) / 1000
        self._rest = self.site.reactor.callLater(wait, self._rested, paid)

    def _rested(self, paid: bool) -> None:
        self._rest = None
        if not paid and not self._pace.take(1):
            self._rest_on(False)
        elif not self._waitingForTransport:
            self._go_on()

    def _go_on(self) -> None:
        self._resting = self.paused = False
        self._networkProducer.resumeProducing()
        if self._buffer:
            self.dataReceived(b"")

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return not self._handlingRequest and self.incoming is None

    # the end

    def refuse(self, error: ApiError, method: str = OTHER, request_id: str | None = None) -> None:
        """Answers a request, of that method and under that id if they are known, reads no more of them, and closes."""
        if self._closing:
            return
        self.site.tally.answered(method, error.status)
        self.site.tally.refused(error)
        self._closing = True
        self._stop()
        self._stop_decoding()
        self.setTimeout(None)
        transport = self.transport
        request_id = request_id or self.site.request_id()
        transport.write(answers.refusal(error, request_id).raw(request_id, self.site.date()))
        self._start(LINGER_SECONDS, self.abort)
        self._networkProducer.unregisterProducer()
        # what comes is to be dropped, even if nothing was read for lack of room
        self._networkProducer.resumeProducing()
        if ISSLTransport.providedBy(transport) or not hasattr(transport, "loseWriteConnection"):
            transport.loseConnection()
        else:
            transport.loseWriteConnection()

    def _drop(self, size: int) -> None:
        self._dropped += size
        if self._dropped >= LINGER_BYTES:
            self._networkProducer.pauseProducing()

    def abort(self) -> None:
        """Closes now."""
        self._stop()
        self._stop_decoding()
        self._closing = True
        if self.transport is not None:
            self.transport.abortConnection()

    def _respondToBadRequestAndDisconnect(self) -> None:
        """What Twisted calls for every request that is not HTTP."""
        self.refuse(invalid(None, "This is not a valid HTTP/1.1 request."))

    def _send100Continue(self) -> None:
        if not self._closing:
            super()._send100Continue()

    def bequeath(self, heir: Protocol) -> None:
        """Hands the transport over: nothing of the channel is left on it."""
        self._stop()
        self.setTimeout(None)
        self._networkProducer.unregisterProducer()
        self.site.release(self)
        self.heir = heir
        transport = self.transport
        if isinstance(getattr(transport, "wrappedProtocol", None), Protocol):
            # TLS wraps the protocol
            transport.wrappedProtocol = heir
        else:
            transport.protocol = heir
        heir.makeConnection(transport)
        if hasattr(transport, "resumeProducing"):
            transport.resumeProducing()
