"""What a connection sends: the one place that all its bytes go through, so that their order holds.

Theory. There is no output queue of ours in the normal case. The sender is in one of two states:

    FREE     nothing of ours is in user space: a frame goes straight to the kernel, with one `send`
    PENDING  the kernel took less than it was given: the rest is with Twisted's transport, and the transport will say when it is gone

While PENDING, terminals that give a frame, and attached sessions that have messages, hear False, and are called again, in the order in which
they first heard it, when the sender is FREE; so a client that does not read blocks its own programs and costs nothing. What can't be
held back (answers, notifications, pongs) waits in one queue, behind the frames that were given before it, and over
`limits.MAX_UNSENT_BYTES` of it the connection is given up (4008). Being one queue, it keeps two promises: the answer to
`terminals.open` precedes the terminal's output, and its last output precedes `terminal.exited`.

How the transport says that it is empty: as a pull producer on plain sockets (Twisted calls `resumeProducing` each time the buffer is
empty), as a push producer on TLS, which turns pull producers into busy loops.

With TCP_NOTSENT_LOWAT the kernel takes only what it will soon send (64 KiB), so that an answer does not stand behind megabytes.
"""

# Twisted has no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct as Layout
from typing import Any, Final

from msgspec import Struct
from twisted.internet import tcp
from twisted.internet.interfaces import IPullProducer, IPushProducer
from zope.interface import implementer

from computerd.contract import limits
from computerd.terminal.outbox import Waiting
from computerd.wire import rpc

_TCP_NOTSENT_LOWAT: Final = 25
"""Of linux/tcp.h; Python names it only from 3.12 on."""
_LOWAT_BYTES: Final = 64 * limits.KIB
_JOIN_BYTES: Final = 64 * limits.KIB
"""How much of the queue is sent with one call."""

# A final frame of a server: opcode and FIN, length in one of three forms (RFC 6455, section 5.2), the channel.
_SMALL: Final = Layout(">BBI").pack
_MEDIUM: Final = Layout(">BBHI").pack
_LARGE: Final = Layout(">BBQI").pack
_BINARY: Final = 0x82
_TEXT: Final = 0x81


def text_frame(message: bytes) -> bytes:
    """The frame of a text message."""
    size = len(message)
    if size < 126:
        return b"\x81%c%b" % (size, message)
    if size < 65536:
        return b"\x81\x7e%b%b" % (size.to_bytes(2, "big"), message)
    return b"\x81\x7f%b%b" % (size.to_bytes(8, "big"), message)


@implementer(IPushProducer, IPullProducer)
class Sender:
    """The `Outbox` of one connection.

    Args:
        transport: Of the connection; no producer is registered on it.
        overflow: Called when too much is unsent.
        crowded: Asked once much is unsent: whether it is too much for all of the member's connections together.

    Attributes:
        unsent: Bytes of the queue that can't be held back.
        moved: How often the transport has become empty: the client reads.
        ended: Nothing is sent any more.
    """

    def __init__(
        self, transport: Any, overflow: Callable[[], None], crowded: Callable[[], bool] = lambda: False
    ) -> None:
        self.unsent = 0
        self.moved = 0
        self._transport = transport
        self._overflow = overflow
        self._crowded = crowded
        self._pending = False
        self.ended = False
        self._queue: deque[tuple[bytes, bool]] = deque()
        self._waiting: dict[Waiting, None] = {}
        self._send: Callable[[bytes], int] | None = None
        if isinstance(transport, tcp.Connection):
            handle = transport.getHandle()
            self._send = handle.send
            _tune(handle)
            transport.registerProducer(self, False)
            # the answer to the handshake is with the transport, and goes first: FREE when that is gone
            self._pending = True
        else:
            transport.registerProducer(self, True)

    @property
    def pending(self) -> bool:
        """Whether the kernel has not yet taken all that was sent."""
        return self._pending

    # Outbox

    def frame(self, channel: int, data: bytes, source: Waiting) -> bool:
        """Sends a terminal's output: the hot path."""
        size = len(data) + 4
        if size < 126:
            packet = _SMALL(_BINARY, size, channel) + data
        elif size < 65536:
            packet = _MEDIUM(_BINARY, 126, size, channel) + data
        else:
            packet = _LARGE(_BINARY, 127, size, channel) + data
        if not self._pending:
            return self._write(packet) or self._wait(source)
        if self.ended:
            return True
        self._queue.append((packet, False))
        return self._wait(source)

    def messages(self, texts: Sequence[bytes], source: Waiting, *, all_the_same: bool = False) -> bool:
        """Sends events. The journal has them, so none is kept here while the transport is full."""
        full = self._pending and not self.ended
        if not full or all_the_same:
            self.control(text_frame(texts[0]) if len(texts) == 1 else b"".join(map(text_frame, texts)))
        # they may have been the ones that were too many
        return self._wait(source) if full and not self.ended else True

    def forget(self, source: Waiting) -> None:
        """`source` has ended."""
        self._waiting.pop(source, None)

    def notify(self, method: str, params: Struct) -> None:
        """Sends a notification."""
        self.control(text_frame(rpc.notification(method, params)))

    # everything else

    def control(self, packet: bytes) -> None:
        """Sends what can't be held back: whole frames, already framed."""
        if not self._pending:
            self._write(packet)
        elif not self.ended:
            self._queue.append((packet, True))
            self.unsent += len(packet)
            if self.unsent > limits.MIB and (self.unsent > limits.MAX_UNSENT_BYTES or self._crowded()):
                self._overflow()

    def end(self) -> None:
        """Drops what waits and leaves the transport: what is written to it now is the connection's last word."""
        if self.ended:
            return
        self.ended = True
        self._pending = True
        self.unsent = 0
        self._queue.clear()
        self._waiting.clear()
        self._transport.unregisterProducer()

    def _wait(self, source: Waiting) -> bool:
        """`source` hears when there is room. False, which is what it is told now."""
        self._waiting[source] = None
        return False

    def _write(self, packet: bytes) -> bool:
        """Gives a packet to the kernel, and what it does not take to the transport. True: nothing is left in user space."""
        if self._send is None:
            # a full buffer calls pauseProducing before this returns
            self._transport.write(packet)
            return not self._pending
        try:
            sent = self._send(packet)
        except OSError:
            # full, or broken: the transport will find out which
            sent = 0
        if sent == len(packet):
            return True
        self._pending = True
        self._transport.write(packet[sent:] if sent else packet)
        return False

    # what the transport says

    def pauseProducing(self) -> None:
        """TLS: the transport is full. Called again at every write while it is."""
        self._pending = True

    def stopProducing(self) -> None:
        """The transport has ended."""
        self.end()

    def resumeProducing(self) -> None:
        """The transport is empty."""
        if self.ended:
            return
        self._pending = False
        self.moved += 1
        self._flush()
        waiting = self._waiting
        # those that hear False again go to the end of the line, and are not called twice in one turn
        for _ in range(len(waiting)):
            if self._pending or not waiting:
                return
            source = next(iter(waiting))
            del waiting[source]
            source.resume()

    def _flush(self) -> None:
        queue = self._queue
        while queue and not self._pending:
            packets = []
            size = 0
            while queue and size < _JOIN_BYTES:
                packet, counted = queue.popleft()
                packets.append(packet)
                size += len(packet)
                if counted:
                    self.unsent -= len(packet)
            self._write(b"".join(packets))


def _tune(handle: socket.socket) -> None:
    if handle.family not in (socket.AF_INET, socket.AF_INET6):
        return
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # a kernel before 3.12 refuses: answers wait behind a full socket buffer, and all else works
    with suppress(OSError):
        handle.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _LOWAT_BYTES)
