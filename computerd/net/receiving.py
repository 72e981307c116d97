"""The way in: the fast path for keys and requests, and the bounds on what one client can make the reactor do.

Theory. Bytes are taken apart here when they are whole frames as clients send them: final, masked, text or binary, under 64 KiB. Everything
else is Autobahn's, which is handed the rest as it is whenever it stands between two messages, and keeps it until it stands there again. A key
costs Autobahn about 35 µs (a masker object of native code, a list of fragments, statistics, observers), and here under 3 µs.

A receiver is in one of three states:

    READING  as above
    HELD     the client sent more than it may: the transport is not read, what was read waits, for up to a second
    DEAD     a close frame was sent or answered: what still comes is dropped unread

The bounds: `_SLICE` fast frames in a row before others get their turn, `_SLOW_FRAMES` of Autobahn's kind a second, `limits.MAX_FRAGMENTS` frames a
message, `limits.MAX_PINGS_PER_SECOND` pings, and as many pongs.
"""

# twisted.web and autobahn have no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from autobahn.twisted.websocket import WebSocketServerProtocol
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from computerd.contract import limits
from computerd.contract.closing import CloseCode
from computerd.net.framing import BINARY, REPEATED, SHORTEST, frame_end, payload_of, short_head
from computerd.terminal.budget import Budget
from computerd.wire import frames

if TYPE_CHECKING:
    from computerd.net.factory import ConnectionFactory

_SLICE: Final = 1000
_SLOW_FRAMES: Final = 1000.0
_SLOW_PAUSE: Final = 0.1
_PIECES: Final = 256
_FREE_BYTES: Final = 64 * limits.KIB
"""Of a message that has not come whole, before the member's other connections are looked at."""
_TEXT_BYTES: Final = 4.0 * limits.MIB
"""Text that is parsed in a second, in bytes: about 20 ms of work."""
_VALID_CLOSE: Final = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})


class Receiver(WebSocketServerProtocol):
    """What every connection does with what it receives. Subclasses say what a frame and a text mean.

    Attributes:
        take_input: Called with the channel and the data of each binary frame.
        dead: A close frame was sent or answered.
        heard: Something has come since this was last cleared.
        arriving: Bytes of a message that has not come whole.
    """

    factory: ConnectionFactory
    transport: Any
    take_input: Callable[[int, bytes], None]
    dead = False
    heard = False
    arriving = 0
    data: bytes
    frame_data: list[Any]
    current_frame: Any
    inside_message: bool
    _held: IDelayedCall | None = None
    _log = Logger()

    def connectionMade(self) -> None:
        """The transport is ours."""
        super().connectionMade()
        seconds = self.factory.reactor.seconds
        self._slow = Budget(_SLOW_FRAMES, limits.MAX_FRAGMENTS + 100, seconds)
        self._text = Budget(_TEXT_BYTES, _TEXT_BYTES, seconds)
        self._pings = Budget(limits.MAX_PINGS_PER_SECOND, limits.MAX_PINGS_PER_SECOND, seconds)
        self._pongs = Budget(limits.MAX_PINGS_PER_SECOND, limits.MAX_PINGS_PER_SECOND, seconds)
        self._fragments = 0

    # for subclasses

    def take_text(self, text: str) -> None:
        """A text message."""
        raise NotImplementedError

    def close(self, code: CloseCode) -> None:
        """Ends the connection."""
        raise NotImplementedError

    def peer_closes(self, code: int | None) -> None:
        """The client has said goodbye."""
        raise NotImplementedError

    def too_much_arrives(self) -> bool:
        """Whether the messages that have not come whole are too much for all of the member's connections together."""
        raise NotImplementedError

    # bytes

    def dataReceived(self, data: bytes) -> None:
        """Bytes from the client: the hot path."""
        self.heard = True
        if self.dead:
            return
        if self._held is not None:
            # of what was in the air when reading stopped; no more comes
            self.data += data
            return
        while True:
            if self._between:
                if self.data:
                    data, self.data = self.data + data, b""
                data = self._fast(data)
                if not data:
                    return
            size = len(self.data) + len(data)
            self._dataReceived(data)
            data = b""
            # what Autobahn has left is for the fast way again, unless it waits for more of a frame
            if self._stopped() or not self._between or len(self.data) in (0, size):
                return

    def _stopped(self) -> bool:
        return self.dead or self._held is not None

    @property
    def _between(self) -> bool:
        """Whether the next byte begins a message, or a control frame between two."""
        return self.state == self.STATE_OPEN and self.current_frame is None and not self.inside_message

    def _fast(self, data: bytes) -> bytes:
        """Handles the frames in front. Returns the rest, unless it was kept for the next read."""
        at = 0
        end = len(data)
        take_input = self.take_input
        for _ in range(_SLICE):
            if end - at < SHORTEST:
                # too little to look at at once; most often nothing at all
                return data[at:]
            opcode, length, mask, channel = short_head(data, at)
            if opcode == BINARY and 132 <= length < 254:
                stop = at + length - 122
                if stop > end:
                    break
                size = length - 132
                words = size + 3 >> 2
                key = mask * REPEATED[words] >> 8 * (4 * words - size)
                payload = (int.from_bytes(data[at + 10 : stop], "big") ^ key).to_bytes(size, "big")
                at = stop
                try:
                    take_input(channel ^ mask, payload)
                except Exception:
                    self._log.failure("a frame could not be handled")
                continue
            stop = frame_end(data, at)
            if stop == 0:
                return data[at:]
            if stop > end:
                break
            start, at = at, stop
            self.onMessage(payload_of(data, start, stop), data[start] == BINARY)
            if self.dead:
                return b""
            if self._held is not None:
                break
        else:
            self.hold(0)
        self.data = data[at:]
        return b""

    def onMessage(self, payload: bytes, is_binary: bool) -> None:
        """A whole message, from here or from Autobahn."""
        if self.dead:
            return
        try:
            if is_binary:
                self.take_input(*frames.split(payload))
            else:
                self._take_text(payload)
        except frames.BadFrame:
            self.close(CloseCode.PROTOCOL_ERROR)
        except Exception:
            self._log.failure("a message could not be handled")

    def _take_text(self, payload: bytes) -> None:
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            self.close(CloseCode.INVALID_TEXT)
            return
        if not self._text.take(len(payload)):
            self.hold(self._text.wait_ms(len(payload)) / 1000)
        self.take_text(text)

    # holding

    def hold(self, seconds: float) -> None:
        """Reads nothing more of this client for a while; what was read waits."""
        if self._held is None and not self.dead:
            self._held = self.factory.reactor.callLater(seconds, self._go_on)
            self.transport.pauseProducing()

    def _go_on(self) -> None:
        self._held = None
        self.transport.resumeProducing()
        data, self.data = self.data, b""
        heard = self.heard
        self.dataReceived(data)
        self.heard = heard

    def end_receiving(self) -> None:
        """From now on everything is dropped unread."""
        self.dead = True
        held, self._held = self._held, None
        if held is not None:
            held.cancel()
            self.transport.resumeProducing()

    # what Autobahn finds

    def processData(self) -> bool:
        """One step of Autobahn's parser, which would go on after a violation and while the client is held."""
        if self._held is not None:
            return False
        # after a violation this step goes on with what it has, so nothing may be taken from under it
        more = not self.dead and bool(super().processData())
        if self.dead:
            self.data = b""
            return False
        return more and not self._between

    def onFrameBegin(self) -> None:
        """A frame begins that the fast path did not take."""
        if not self._slow.take(1):
            self.hold(_SLOW_PAUSE)
        super().onFrameBegin()

    def onMessageBegin(self, is_binary: bool) -> None:
        """A message begins."""
        self._fragments = 0
        super().onMessageBegin(is_binary)

    def onMessageFrameBegin(self, length: int) -> None:
        """A fragment begins."""
        self._fragments += 1
        if self._fragments > limits.MAX_FRAGMENTS:
            self._fail_connection(CloseCode.MESSAGE_TOO_BIG)
        super().onMessageFrameBegin(length)

    def onMessageFrameData(self, payload: bytes) -> None:
        """A part of a frame. In pieces of a byte or two, a message would take thirty times its size."""
        super().onMessageFrameData(payload)
        if self.frame_data and len(self.frame_data) > _PIECES:
            self.frame_data = [b"".join(self.frame_data)]
        self.arriving += len(payload)
        if self.arriving > _FREE_BYTES and self.too_much_arrives():
            self._fail_connection(CloseCode.MESSAGE_TOO_BIG)

    def onMessageEnd(self) -> None:
        """A message is complete. Autobahn's own way also fires an event that nobody listens to."""
        self.arriving = 0
        parts, self.message_data = self.message_data, []
        if not self.dead:
            self.onMessage(b"".join(parts), self.message_is_binary)

    def onPing(self, payload: bytes) -> None:
        """The client asks whether we are here."""
        if self._pings.take(1):
            self.sendPong(payload)
        else:
            self.close(CloseCode.POLICY_VIOLATION)

    def onPong(self, payload: bytes) -> None:
        """The client is here. Nobody has to answer that often, so it is a flood too."""
        if not self._pongs.take(1):
            self.close(CloseCode.POLICY_VIOLATION)

    def onCloseFrame(self, code: int | None, reason: bytes | None) -> bool:
        """The client says goodbye. True: parse no further."""
        if self.dead:
            return True
        try:
            (reason or b"").decode()
        except UnicodeDecodeError:
            self.close(CloseCode.INVALID_TEXT)
            return True
        if code is not None and code not in _VALID_CLOSE:
            self.close(CloseCode.PROTOCOL_ERROR)
        else:
            self.peer_closes(code)
        return True

    def _fail_connection(self, code: int = CloseCode.PROTOCOL_ERROR, reason: str = "") -> None:
        """Where Autobahn ends a connection. It would log a warning for each, and go on parsing."""
        self.failedByMe = True
        self.close(CloseCode(code))
