"""Bytes out of the workspace: a file, or an archive.

    asked → answered → flowing → (the worker's end) → told

A sink that takes no more is given no more, and the worker gets no more room: what it had room for already is kept. That room is reserved beforehand,
so that all that a worker can make the daemon keep is bounded, however many read and none takes anything.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec
from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.host import answers
from computerd.host.asking import ANSWER_SECONDS, STREAM_SECONDS, Request, T, busy, encoded
from computerd.host.incoming import Violation, grant
from computerd.host.room import SMALL_BYTES
from computerd.host.worker import frames
from computerd.workspace.port import Coding, Opened, Packed, Sink

_RENEW_BYTES: Final = 32 * 1024
"""Dealt with, before the worker is told."""
_MAX_TAR_BYTES: Final = 2 * limits.MAX_ARCHIVE_BYTES + 64 * limits.MIB
"""More than an archive can have: 100,000 entries with heads, two paths of 4 KiB and padding each are less than another GiB."""


def _not_taken() -> ApiError:
    return ApiError(Code.COMPUTER_UNAVAILABLE, "It was not read in time. Ask for it again.")


@define(eq=False, repr=False)
class Download(Request[T]):
    """A request whose answer is followed by data. Implements `computerd.workspace.port.Source`."""

    _sink: Sink | None = field(default=None, init=False)
    _most: int = field(default=0, init=False)
    _exact: bool = field(default=False, init=False)
    _open: bool = field(default=False, init=False)
    _window: int = field(default=frames.WINDOW, init=False)
    _total: int = field(default=0, init=False)
    _dealt: int = field(default=0, init=False)
    _held: deque[bytes | bytearray] = field(factory=deque, init=False)
    _paused: bool = field(default=False, init=False)
    _resumed: bool = field(default=False, init=False)
    _delivering: bool = field(default=False, init=False)
    _complete: bool = field(default=False, init=False)
    _error: ApiError | None = field(default=None, init=False)

    # What the port promises.

    def start(self, sink: Sink) -> None:
        """See `Source`."""
        self._sink = sink
        if self._error is not None:
            self._tell(self._error)
        elif not self._left:
            self._started()

    def resume(self) -> None:
        """See `Source`."""
        self._resumed = True
        if self._paused:
            self._paused = False
            self._deliver()

    def stop(self) -> None:
        """See `Source`."""
        self._sink = None
        self._held.clear()
        if self._ended:
            self._free()
        else:
            self.leave()

    def _started(self) -> None:
        self._deliver()

    # What the worker says.

    def _stream(self, kind: bytes, payload: bytes) -> None:
        if kind == frames.DATA and self._open:
            self._count(len(payload))
            self._hold(payload)
            self._deliver()
        elif kind == frames.END and self._open:
            self._last_word(payload)
            self._finish()
        else:
            raise Violation("what was not asked for")

    def _hold(self, payload: bytes) -> None:
        # in large pieces: each of its own would cost far more than it holds
        last = self._held[-1] if self._held else None
        if last is None or len(last) + len(payload) > frames.MAX_PAYLOAD:
            self._held.append(payload)
            return
        if isinstance(last, bytes):
            last = self._held[-1] = bytearray(last)
        last += payload

    def _last_word(self, payload: bytes) -> None:
        answers.end(payload)

    def _heard_late(self, kind: bytes, payload: bytes) -> None:
        if kind == frames.DATA:
            self._count(len(payload))
        else:
            Request._heard_late(self, kind, payload)

    def _count(self, size: int) -> None:
        self._window -= size
        self._total += size
        if size == 0 or self._window < 0:
            raise Violation("more data than there was room for, or none")
        if self._total > self._most:
            raise Violation("more data than there can be")

    def _finish(self) -> None:
        self._complete = True
        # not yet free: what is held still takes the room that was reserved for it
        share, self._share = self._share, None
        self._close()
        self._share = share
        if self._exact and self._total < self._most:
            self.failed(ApiError(Code.UNAVAILABLE, "The file became shorter while it was read."))
        else:
            self._deliver()

    def _deliver(self) -> None:
        if self._delivering:
            return
        self._delivering = True
        while self._held and not self._paused and self._sink is not None:
            piece = bytes(self._held.popleft())
            self._dealt += len(piece)
            self._resumed = False
            self._paused = not self._sink.write(piece) and not self._resumed
        self._delivering = False
        if self._complete and not self._held:
            self._free()
            self._tell(None)
        elif not self._ended and not self._left:
            self._renew()

    def _renew(self) -> None:
        self._yield()
        if self._dealt >= _RENEW_BYTES:
            self._window += self._dealt
            self._send(frames.MORE, grant(self._dealt))
            self._dealt = 0
        if self._sink is None:
            self._wait(STREAM_SECONDS, _not_taken())
        elif self._paused:
            self._patience.rest()
        else:
            self._wait(STREAM_SECONDS)

    def _yield(self) -> None:
        """Leaves room to others: what was dealt with is not given to the worker again."""
        share, peer = self._share, self._peer
        if share is not None and peer is not None and share.size > SMALL_BYTES and self._dealt > 0 and peer.scarce:
            size = min(self._dealt, share.size - SMALL_BYTES)
            self._dealt -= size
            share.give_back(size)

    # The end.

    def failed(self, error: ApiError) -> None:
        """See `Request`."""
        if not self._answered:
            Request.failed(self, error)
        else:
            self._held.clear()
            self._free()
            self._error = error
            self._tell(error)

    def _tell(self, error: ApiError | None) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.ended(error)


@define(eq=False, repr=False)
class FileDownload(Download[Opened]):
    """A file: opened first, and read when it is known what of it is wanted."""

    _start: int = field(default=0, init=False)
    _asked: bool = field(default=False, init=False)

    def _result(self, payload: bytes) -> None:
        answer = answers.file(payload)
        self._wait(STREAM_SECONDS, _not_taken())
        times = answer.mtime_ns, answer.ctime_ns
        self._succeed(Opened(answer.name, answer.size, *times, answer.inode, read=self._read, close=self.stop))

    def _read(self, start: int, length: int) -> FileDownload:
        self._start, self._most, self._exact = start, length, True
        return self

    def _started(self) -> None:
        self._wait(ANSWER_SECONDS, busy())
        peer = self._peer
        assert peer is not None, "who is not there has failed"
        self._share = peer.reserve(min(self._most, frames.WINDOW), self._go)

    def _go(self) -> None:
        if self._left or self._ended:
            return
        self._open = True
        self._send(frames.CALL, msgspec.json.encode({"start": self._start, "length": self._most}))
        self._wait(STREAM_SECONDS)


@define(eq=False, repr=False)
class ArchiveDownload(Download[Packed]):
    """An archive, which flows as soon as it was asked for."""

    _coding: Coding
    _unreadable: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        Download.__attrs_post_init__(self)
        self.need, self._most = frames.WINDOW, _MAX_TAR_BYTES

    def _result(self, payload: bytes) -> None:
        answer = answers.archive(payload)
        self._open = True
        self._wait(STREAM_SECONDS, _not_taken())
        self._succeed(Packed(answer.name, answer.folder, self, lambda: self._unreadable, self._coding))

    def _last_word(self, payload: bytes) -> None:
        self._unreadable = answers.unreadable(payload)


def open_file(reactor: IReactorTime, path: str) -> FileDownload:
    """Asks for a file."""
    return FileDownload(reactor, encoded(path, {"verb": "open", "path": path}))


def pack(reactor: IReactorTime, path: str, coding: Coding) -> ArchiveDownload:
    """Asks for an archive."""
    return ArchiveDownload(reactor, encoded(path, {"verb": "pack", "path": path, "coding": coding}), coding)
