"""A request to a worker, from the call to the last word on it.

    queued → asked → (answered → …) → over

Whoever asked may leave at any time: he is forgotten at once, and the worker is told. The request's number stays taken until the worker has said its
last word on it, so that what was on its way belongs to nobody else; what still comes is dropped. A deadline ends it for the caller in any case.
Only a worker that has shown no life since is ended for it, or one that doesn't end what was cancelled: another request may be doing well, while this
one waits for a file system that is dead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from computerd.contract.errors import ApiError, Code
from computerd.host import answers
from computerd.host.incoming import Violation
from computerd.host.patience import Patience
from computerd.host.room import Share
from computerd.host.worker import frames
from computerd.workspace.port import Listing

QUEUE_SECONDS: Final = 15.0
"""For a request to reach the worker: more than an old one's end and a new one's start take."""
ANSWER_SECONDS: Final = 10.0
"""From the call to the worker's first answer, and from a cancellation to its last word."""
STREAM_SECONDS: Final = 30.0
"""Without any progress of a stream that could go on."""
_MAX_CALL: Final = 48 * 1024

T = TypeVar("T")


def no_answer() -> ApiError:
    """What the caller is told of a worker that is dead, stopped or mad."""
    return ApiError(
        Code.COMPUTER_UNAVAILABLE,
        "The process that works on the session's files gives no answer, and was ended. Try again.",
    )


def busy() -> ApiError:
    """What the caller is told when others have taken all that there is for a session."""
    return ApiError(Code.RATE_LIMITED, "Too much is being done on the session's files at once. Try again later.")


class Peer(Protocol):
    """What a request needs of its worker."""

    @property
    def roomy(self) -> bool:
        """Whether data may be sent now. If not, the request's `drained` is called when it may."""

    def send(self, number: int, kind: bytes, payload: bytes = b"") -> None:
        """Sends a frame."""

    @property
    def scarce(self) -> bool:
        """See `Reserve`."""

    def reserve(self, size: int, granted: Callable[[], None]) -> Share:
        """Calls `granted`, perhaps now, when the worker may send so many more bytes."""

    def over(self, request: Request[Any]) -> None:
        """The request has ended, and its number is free."""

    def withdrawn(self, request: Request[Any]) -> None:
        """The request was not sent yet, and isn't to be."""

    def alive_since(self, moment: float) -> bool:
        """Whether the worker has said anything since. If not, it is ended, and the request with it."""

    def stuck(self, request: Request[Any]) -> None:
        """The worker doesn't end what was cancelled."""


@define(eq=False, repr=False)
class Request(ABC, Generic[T]):
    """One request. `T` is its first answer.

    Attributes:
        call: The worker's verb and its parameters, as JSON.
        answer: Fires with the first answer, or fails with ApiError. Cancelling it takes the request back.
        number: Names it in frames; 0 until it was sent.
        need: Bytes that the worker may send without being told more, as soon as it was asked.
    """

    _reactor: IReactorTime
    call: bytes
    answer: Deferred[T] = field(init=False)
    number: int = field(default=0, init=False)
    need: int = field(default=0, init=False)
    _peer: Peer | None = field(default=None, init=False)
    _resulted: bool = field(default=False, init=False)
    _answered: bool = field(default=False, init=False)
    _left: bool = field(default=False, init=False)
    _ended: bool = field(default=False, init=False)
    _patience: Patience = field(init=False)
    _since: float = field(default=0.0, init=False)
    _blameless: ApiError | None = field(default=None, init=False)
    _share: Share | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.answer = Deferred(lambda _: self.leave())
        self._patience = Patience(self._reactor, self._too_late)

    # For the worker.

    def queued(self, peer: Peer) -> None:
        """Waits for its turn."""
        self._peer = peer
        self._wait(QUEUE_SECONDS, busy())

    def put(self, number: int, share: Share | None) -> None:
        """It is its turn."""
        self.number = number
        self._share = share
        self._send(frames.CALL, self.call)
        self._wait(ANSWER_SECONDS)

    def heard(self, kind: bytes, payload: bytes) -> None:
        """A frame of this request's.

        Raises:
            Violation: It may not be sent, or not now.
        """
        if kind == frames.BUSY:
            self.goes_on()
        elif self._left:
            self._heard_late(kind, payload)
        elif kind == frames.FAILURE:
            error = answers.refusal(payload)
            self._close()
            self.failed(error)
        elif kind == frames.RESULT and not self._resulted:
            self._resulted = True
            self._result(payload)
        else:
            self._stream(kind, payload)

    def drained(self) -> None:
        """See `Peer.roomy`."""

    def goes_on(self) -> None:
        """The worker says that it works on it. By itself that gives it no more time."""

    def broken(self, error: ApiError) -> None:
        """The worker is no more, or doesn't take the request."""
        self._peer = None
        self._ended = True
        self._patience.rest()
        if not self._left:
            self.failed(error)

    # For the caller, or what stands for him.

    def leave(self) -> None:
        """The caller has gone, or has had his answer: nothing more is told, and the worker ends it. Harmless after the end."""
        if self._left or self._ended:
            return
        self._left = True
        peer = self._peer
        assert peer is not None, "a request is put to a worker before anybody knows it"
        if self.number == 0:
            self._ended = True
            self._patience.rest()
            peer.withdrawn(self)
        else:
            self._send(frames.CANCEL)
            self._wait(ANSWER_SECONDS)

    # For the sorts of requests.

    @abstractmethod
    def _result(self, payload: bytes) -> None:
        """Takes the first answer."""

    def _stream(self, kind: bytes, payload: bytes) -> None:
        """Takes a frame that is neither the first answer nor a refusal."""
        raise Violation("what was not asked for")

    def _heard_late(self, kind: bytes, payload: bytes) -> None:
        """Takes a frame that nobody waits for any more. `_close` at the last."""
        if kind in (frames.END, frames.FAILURE):
            self._close()
        elif kind == frames.RESULT and not self._resulted:
            self._resulted = True
        else:
            raise Violation("what was not asked for")

    def failed(self, error: ApiError) -> None:
        """Tells whoever waits."""
        if not self._answered:
            self._answered = True
            self.answer.errback(error)

    def _succeed(self, answer: T) -> None:
        self._answered = True
        self.answer.callback(answer)

    def _send(self, kind: bytes, payload: bytes = b"") -> None:
        if self._peer is not None and not self._ended:
            self._peer.send(self.number, kind, payload)

    def _wait(self, seconds: float, blameless: ApiError | None = None) -> None:
        # after so long the caller is told `blameless`, if it isn't the worker that is waited for
        self._since, self._blameless = self._reactor.seconds(), blameless
        self._patience.wait(seconds)

    def _close(self) -> None:
        """The last word was said."""
        self._ended = True
        self._patience.rest()
        self._free()
        if self._peer is not None:
            self._peer.over(self)

    def _free(self) -> None:
        share, self._share = self._share, None
        if share is not None:
            share.give_back()

    def _too_late(self) -> None:
        peer = self._peer
        assert peer is not None, "patience ends with the worker"
        if self._left:
            peer.stuck(self)
        # a worker that is ended for it says the same to all
        elif self._blameless is not None or peer.alive_since(self._since):
            error = self._blameless or no_answer()
            self.leave()
            self.failed(error)


@define(eq=False, repr=False)
class Call(Request[T]):
    """A request with one answer, which is its last word."""

    _read: Callable[[bytes], T]

    def _result(self, payload: bytes) -> None:
        answer = self._read(payload)
        self._close()
        self._succeed(answer)

    def _heard_late(self, kind: bytes, payload: bytes) -> None:
        if kind in (frames.RESULT, frames.FAILURE):
            self._close()
        else:
            raise Violation("what was not asked for")


def list_call(reactor: IReactorTime, path: str, depth: int, limit: int, cursor: str | None) -> Call[Listing]:
    """Asks for a page of a folder."""
    call = encoded(path, {"verb": "list", "path": path, "depth": depth, "limit": limit, "cursor": cursor})
    return Call(reactor, call, lambda payload: answers.listing(payload, limit))


def encoded(path: str, call: Mapping[str, object]) -> bytes:
    """The call as JSON.

    Raises:
        ApiError: `invalid_path` for what no place can be called.
    """
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise ApiError(
            Code.INVALID_PATH, "path holds half of a surrogate pair, which is no character.", field="path"
        ) from None
    if size > answers.MAX_PATH:
        raise ApiError(Code.INVALID_PATH, "path is longer than any path can be.", field="path")
    try:
        payload = msgspec.json.encode(call)
    except UnicodeEncodeError:
        payload = b""
    if not payload or len(payload) > _MAX_CALL:
        raise ApiError(Code.INVALID_CURSOR, "cursor is none of this server's.", field="cursor")
    return payload
