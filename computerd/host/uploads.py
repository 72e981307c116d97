"""Bytes into the workspace: an archive.

    asked → ready → (data) → (the end of it) → landed

What the caller gives is sent as far as the worker has given room for it; the rest of a piece is kept, and the caller waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote_to_bytes

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime

from computerd.contract.errors import ApiError, Code
from computerd.host import answers
from computerd.host.asking import STREAM_SECONDS, Request, encoded
from computerd.host.incoming import Violation, granted
from computerd.host.worker import frames
from computerd.workspace.port import Coding, Landed, Upload

LANDING_SECONDS: Final = 600.0
"""For what the worker was sent, and says that it is at: a few bytes may hold 100,000 files, and a slow disk makes 500 of them a second."""


def _nobody() -> None:
    pass


@define(eq=False, repr=False)
class ArchiveUpload(Request[Upload]):
    """Implements `computerd.workspace.port.Upload`."""

    _path: str
    _room: Callable[[], None] = field(default=_nobody, init=False)
    _failed: Callable[[], None] = field(default=_nobody, init=False)
    _window: int = field(default=frames.WINDOW, init=False)
    _held: deque[memoryview] = field(factory=deque, init=False)
    _waiting: bool = field(default=False, init=False)
    _whole: bool = field(default=False, init=False)
    _sent: bool = field(default=False, init=False)
    _until: float = field(default=0.0, init=False)
    _error: ApiError | None = field(default=None, init=False)
    _done: Deferred[Landed] | None = field(default=None, init=False)

    # What the port promises.

    def begin(self, room: Callable[[], None], failed: Callable[[], None]) -> None:
        """See `Upload`."""
        self._room, self._failed = room, failed
        if self._error is not None:
            self._failed()

    def write(self, data: bytes) -> bool:
        """See `Upload`."""
        if self._error is not None or self._left or self._whole:
            return True
        if data:
            self._held.append(memoryview(data))
        self._pump()
        self._waiting = bool(self._held)
        return not self._waiting

    def finish(self) -> Deferred[Landed]:
        """See `Upload`."""
        if self._error is not None:
            return fail(self._error)
        if self._left:
            return fail(ApiError(Code.UNAVAILABLE, "The upload was given up."))
        self._whole = True
        self._done = Deferred(lambda _: self.leave())
        self._pump()
        return self._done

    def abort(self) -> None:
        """See `Upload`."""
        if not self._whole:
            self._held.clear()
            self.leave()

    # What the worker says.

    def _result(self, payload: bytes) -> None:
        answers.ready(payload)
        self._patience.rest()  # now it is the caller's time
        self._succeed(self)

    def _stream(self, kind: bytes, payload: bytes) -> None:
        if kind == frames.MORE and self._answered:
            self._widen(payload)
            self._pump()
        elif kind == frames.END and self._sent and self._done is not None:
            landed = answers.landed(payload)
            if unquote_to_bytes(landed.path) != unquote_to_bytes(self._path):
                raise Violation("a place that was not asked for")
            self._close()
            done, self._done = self._done, None
            done.callback(landed)
        else:
            raise Violation("what was not asked for")

    def _heard_late(self, kind: bytes, payload: bytes) -> None:
        if kind == frames.MORE:
            self._widen(payload)
        else:
            Request._heard_late(self, kind, payload)

    def _widen(self, payload: bytes) -> None:
        self._window += granted(payload)
        if self._window > frames.WINDOW:
            raise Violation("more room than it was sent data")

    def goes_on(self) -> None:
        """See `Request`."""
        left = self._until - self._reactor.seconds()
        if (self._held or self._sent) and not self._left and left > 0:
            self._patience.wait(min(STREAM_SECONDS, left))

    def drained(self) -> None:
        """See `Request`."""
        if self._held and not self._left:
            self._pump()

    def _pump(self) -> None:
        peer = self._peer
        if peer is None or self._left or self._ended:
            return
        while self._held and self._window > 0 and peer.roomy:
            piece = self._held.popleft()
            size = min(len(piece), self._window, frames.MAX_PAYLOAD)
            if size < len(piece):
                self._held.appendleft(piece[size:])
            self._window -= size
            self._send(frames.DATA, bytes(piece[:size]))
        if self._held:
            self._wait_for_it()
        elif not self._whole:
            self._patience.rest()
            if self._waiting:
                self._waiting = False
                self._room()
        elif not self._sent:
            self._sent = True
            self._send(frames.END)
            self._wait_for_it()

    def _wait_for_it(self) -> None:
        self._until = self._reactor.seconds() + LANDING_SECONDS
        self._wait(STREAM_SECONDS)

    # The end.

    def failed(self, error: ApiError) -> None:
        """See `Request`."""
        if not self._answered:
            Request.failed(self, error)
            return
        self._held.clear()
        self._error = error
        done, self._done = self._done, None
        if done is not None:
            done.errback(error)
        else:
            self._failed()


def unpack(reactor: IReactorTime, path: str, replace: bool, coding: Coding) -> ArchiveUpload:
    """Asks for room for an archive."""
    return ArchiveUpload(
        reactor, encoded(path, {"verb": "unpack", "path": path, "replace": replace, "coding": coding}), path
    )
