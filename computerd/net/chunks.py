"""A body in chunks (RFC 9112, section 7.1), decoded a little at a time.

One read of the transport's, 64 KiB, may hold 10,900 chunks of one byte, and Twisted's decoder takes 4 µs for each, 40 ms in all, in which nobody
else is served. So it gets a read in slices, and a turn of the reactor ends after some chunks; what is left waits for the next, and
meanwhile the channel reads nothing more. A slice is what is left of the chunk that is arriving, whose length is known, and a few bytes of
which nothing is known. So a turn is bounded whatever comes, and a chunk of some KiB costs one slice.

A client that sends nothing but tiny chunks would still keep the processor busy for hardly any bytes, so its body is refused. One that sends them as
somebody types is not: then they come slowly.
"""

# Twisted has no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall

from computerd.contract.errors import ApiError, invalid

CHUNKS_PER_TURN: Final = 64
"""After which a turn ends: 0.3 ms, and up to `SLICE_BYTES` / 6 chunks more may come of the last slice."""
SLICE_BYTES: Final = 512
TINY_BYTES: Final = 64
"""Chunks that have fewer on average are tiny. Their framing is not counted: extensions are as long as the client likes (1 KiB at most)."""
TINY_CHUNKS: Final = 1000
TINY_SECONDS: Final = 5.0
"""More than so many tiny ones in so short a time are too many. At 200 a second they take a thousandth of a processor."""


class Chunks:
    """What a channel of Twisted's has as the decoder of such a body.

    Args:
        decoder: Twisted's, which this one drives.
        reactor: For turns and time.
        go_on: To be called in a later turn; it comes back with `dataReceived(b"")`.
        refuse: Called when the chunks are too many and too small.
    """

    def __init__(
        self, decoder: Any, reactor: Any, go_on: Callable[[], None], refuse: Callable[[ApiError], None]
    ) -> None:
        self._decoder = decoder
        self._take: Callable[[bytes], None] = decoder.dataCallback
        self._finish: Callable[[bytes], None] = decoder.finishCallback
        decoder.dataCallback, decoder.finishCallback = self._piece, self._end
        self._reactor = reactor
        self._go_on = go_on
        self._refuse = refuse
        self._unread = b""
        self._at = 0
        self._pieces: list[bytes] = []
        self._turn: IDelayedCall | None = None
        self._over = False
        self._chunks_of_turn = 0
        self._chunks = 0
        self._bytes = 0
        self._since: float = reactor.seconds()

    @property
    def waiting(self) -> bool:
        """Whether some of what was read is still to be decoded, in a later turn."""
        return self._turn is not None

    def dataReceived(self, data: bytes) -> None:
        """Bytes from the client. Those that come while others wait, as they may over TLS, wait behind them.

        Raises:
            _MalformedChunkedDataError: Twisted's: these are no chunks.
        """
        if self._over:
            return
        self._unread = self._unread[self._at :] + data
        self._at = 0
        if self._turn is None:
            self._decode()

    def stop(self) -> None:
        """Forgets what waits: the body is complete, or nobody wants it any more."""
        self._over = True
        self._unread = b""
        self._pieces.clear()
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.cancel()

    def _decode(self) -> None:
        decoder = self._decoder
        self._chunks_of_turn = 0
        while self._at < len(self._unread):
            if self._chunks_of_turn >= CHUNKS_PER_TURN:
                self._turn = self._reactor.callLater(0, self._next_turn)
                return
            size = SLICE_BYTES + (decoder.length if decoder.state == "BODY" else 0)
            part = self._unread[self._at : self._at + size]
            self._at += len(part)
            decoder.dataReceived(part)
            if decoder.state == "TRAILER":
                # 64 KiB of lines that nobody reads, at most: one slice a turn
                self._chunks_of_turn = CHUNKS_PER_TURN
            self._give()
            self._judge()
        self._unread, self._at = b"", 0

    def _next_turn(self) -> None:
        self._turn = None
        self._go_on()

    def _piece(self, data: bytes) -> None:
        self._pieces.append(data)
        if self._decoder.state == "CRLF":
            # the last piece of its chunk
            self._chunks_of_turn += 1
            self._chunks += 1

    def _give(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces:
            data = b"".join(pieces)
            self._bytes += len(data)
            self._take(data)

    def _end(self, data: bytes) -> None:
        self._give()
        if not self._over:
            # what follows the body, of this slice and of those that were to come
            data += self._unread[self._at :]
            self.stop()
            self._finish(data)

    def _judge(self) -> None:
        if self._chunks <= TINY_CHUNKS or self._over:
            return
        now = self._reactor.seconds()
        # the first of them may have begun, and been counted, before
        too_many = self._bytes < (self._chunks - 1) * TINY_BYTES and now - self._since < TINY_SECONDS
        self._chunks, self._bytes, self._since = 0, 0, now
        if too_many:
            self._refuse(invalid("body", "Send the body in larger chunks."))
