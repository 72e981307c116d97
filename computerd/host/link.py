"""The daemon's end of a worker's socket: frames in, a slice a turn, and frames out."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from computerd.host.descriptor import Descriptor
from computerd.host.incoming import Frames, Violation
from computerd.host.worker.frames import encode

_READ_BYTES: Final = 128 * 1024
"""Read in one turn of the reactor. With the rest of a frame before it, that is what a turn handles, and what is kept, at most."""
_TURN_FRAMES: Final = 256
"""Frames handled in one turn: a million tiny ones must not keep the others waiting."""
_SECOND_FRAMES: Final = 4_000
"""Handled in a second: 250 MB of whole ones."""
_MEAN_BYTES: Final = 1_024
"""Of the payloads of so many: what a worker sends in a second is few frames, or large ones. One that sends many tiny ones is up to no good (I9)."""
_ROOMY_BYTES: Final = 64 * 1024
"""Less than so many bytes waiting for the worker: it may be sent more data."""
_UNREAD_BYTES: Final = 2 * 1024 * 1024
"""Waiting for the worker, after which it is given up. All calls that it may have at a time, and its program, are less."""
_PIECE_BYTES: Final = 64 * 1024


def _ignore() -> None:
    pass


@define(eq=False, repr=False)
class Link:
    """Begins with `begin`. After `close`, or once `lost` was called, it calls nobody any more.

    Attributes:
        descriptor: The socket.
        received: Takes request, kind and payload of a frame. May raise `Violation`.
        lost: Called once, with why, when the worker has ended or has sent what it may not. Never within a call of `send`.
        drained: There is room again for data, after `roomy` was False.
    """

    _reactor: IReactorTime
    descriptor: Descriptor
    received: Callable[[int, bytes, bytes], None]
    lost: Callable[[str], None]
    drained: Callable[[], None] = field(default=_ignore)
    closed: bool = field(default=False, init=False)
    _frames: Frames = field(factory=Frames, init=False)
    _queue: bytearray = field(factory=bytearray, init=False)
    _next: IDelayedCall | None = field(default=None, init=False)
    _doomed: str | None = field(default=None, init=False)
    _second: float = field(default=0.0, init=False)
    _count: int = field(default=0, init=False)
    _bytes: int = field(default=0, init=False)

    def begin(self, rest: bytes) -> None:
        """Handles what was read already, and all that comes."""
        self.descriptor.readable = self._readable
        self.descriptor.writable = self._writable
        self._frames.feed(rest)
        self._later()

    @property
    def roomy(self) -> bool:
        """Whether data may be sent: what waits for the worker is little."""
        return len(self._queue) < _ROOMY_BYTES

    def send(self, request: int, kind: bytes, payload: bytes = b"") -> None:
        """Sends a frame now, or when there is room."""
        self.put(encode(request, kind, payload))

    def put(self, data: bytes) -> None:
        """Sends what is a frame already."""
        if self.closed or self._doomed is not None:
            return
        sent = 0 if self._queue else self._write(data)
        self._queue += memoryview(data)[sent:]
        if len(self._queue) > _UNREAD_BYTES:
            self._doom("it does not read")
        if self._queue:
            self.descriptor.write_on()

    def close(self) -> None:
        """Closes the socket, which tells the worker to end."""
        self.closed = True
        self._queue.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self.descriptor.close()

    # In.

    def _readable(self) -> None:
        try:
            data = os.read(self.descriptor.number, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(f"its socket fails: {error.strerror}")
            return
        if not data:
            self._lose("it has ended")
            return
        self._frames.feed(data)
        self._handle()

    def _handle(self) -> None:
        try:
            for _ in range(_TURN_FRAMES):
                found = self._frames.next()
                if found is None:
                    self.descriptor.read_on()
                    return
                self._bytes += len(found[2])
                self.received(*found)
                if self.closed:
                    return
                if self._too_many():
                    self.descriptor.read_no_more()
                    self._later(self._second + 1.0 - self._reactor.seconds())
                    return
        except Violation as violation:
            self._lose(f"it sent {violation}")
            return
        self.descriptor.read_no_more()
        self._later()

    def _too_many(self) -> bool:
        """Counts a frame. Whether they were as many as are handled in a second. Raises Violation."""
        self._count += 1
        if self._count < _SECOND_FRAMES:
            return False
        if self._reactor.seconds() - self._second >= 1.0:
            self._second, self._count, self._bytes = self._reactor.seconds(), 0, 0
            return False
        if self._bytes < self._count * _MEAN_BYTES:
            raise Violation("too many frames for what they hold")
        return True

    def _later(self, seconds: float = 0.0) -> None:
        if self._next is None:
            self._next = self._reactor.callLater(max(0.0, seconds), self._go_on)

    def _go_on(self) -> None:
        self._next = None
        if self._doomed is not None:
            self._lose(self._doomed)
        else:
            self._handle()

    def _lose(self, why: str) -> None:
        if not self.closed:
            self.close()
            self.lost(why)

    def _doom(self, why: str) -> None:
        self._doomed = why
        self._queue.clear()
        self.descriptor.read_no_more()
        self._later()

    # Out.

    def _write(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self.descriptor.number, data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:  # its end is read as well, but perhaps it only reads no more
            self._doom("it does not read")
            return len(data)

    def _writable(self) -> None:
        while self._queue:
            piece = bytes(memoryview(self._queue)[:_PIECE_BYTES])
            sent = self._write(piece)
            if self._doomed is not None:
                break
            del self._queue[:sent]
            if sent < len(piece):
                break
        if not self._queue:
            self.descriptor.write_no_more()
        if self.roomy and not self.closed and self._doomed is None:
            self.drained()
