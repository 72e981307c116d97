"""A session's worker: a process that is the user, and does the work on files.

    starting → working → leaving → gone

Requests wait until it works, and while it has as many as it may have. It leaves when it had nothing to do for a minute, when its session ends, or the
daemon: its socket is closed then, and what runs is given a few seconds to clear away. One that sends what it may not, or gives no sign of
life, is killed at once. In every case all its requests have failed before it is gone.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from computerd.contract.errors import ApiError, Code
from computerd.host.asking import Request, busy, no_answer
from computerd.host.descriptor import Descriptor
from computerd.host.hired import Hired
from computerd.host.incoming import Violation
from computerd.host.link import Link
from computerd.host.patience import Patience
from computerd.host.room import Reserve, Share

IDLE_SECONDS: Final = 60.0
"""Without a request, after which a worker ends (F13)."""
LEAVE_SECONDS: Final = 4.0
"""For a worker to end by itself, before it is killed. The end of a session is waited for 6 s, and the daemon's own end 7 s."""
MAX_RUNNING: Final = 12
"""Requests of a worker at a time: each has a thread there. The worker takes a few more, because it frees a place a moment after the last word."""
MAX_QUEUED: Final = 64
_MAX_STUCK: Final = 4
"""Requests that don't end although they were cancelled, before the worker is killed for it."""
_MAX_NUMBER: Final = 2**32 - 1
_MAX_SAID: Final = 4096
"""Bytes of standard error that go to the log."""


def _nothing() -> None:
    pass


@define(eq=False, repr=False)
class Worker:
    """One worker. `ask` it, then `begin` it; or the other way round.

    Attributes:
        session_id: Whose files.
        owner: Of the session.
        account: What it runs as: it is compared, and nothing else.
        on_left: Called once, when it takes no more requests; whether something was wrong.
    """

    _reactor: IReactorTime
    session_id: str
    owner: str
    account: object
    _hire: Callable[[], Deferred[Hired]]
    _boot: bytes
    on_left: Callable[[Worker, bool], None]
    _link: Link | None = field(default=None, init=False)
    _hired: Hired | None = field(default=None, init=False)
    _starting: Deferred[None] | None = field(default=None, init=False)
    _queue: deque[Request[Any]] = field(factory=deque, init=False)
    _running: dict[int, Request[Any]] = field(factory=dict, init=False)
    _stuck: set[Request[Any]] = field(factory=set, init=False)
    _last: int = field(default=0, init=False)
    _heard_at: float = field(default=0.0, init=False)
    _left: bool = field(default=False, init=False)
    _reserve: Reserve = field(init=False)
    _patience: Patience = field(init=False)
    _kill: IDelayedCall | None = field(default=None, init=False)
    _said: int = field(default=0, init=False)
    _idle_since: float = field(default=0.0, init=False)
    _log: Logger = field(factory=Logger, init=False)

    def __attrs_post_init__(self) -> None:
        self._patience = Patience(self._reactor, self.leave)
        self._reserve = Reserve(self._admit)

    def begin(self) -> None:
        """Starts it."""
        self._starting = self._hire().addCallbacks(self._begun, self._not_begun)

    def ask(self, request: Request[Any]) -> None:
        """Puts a request to it."""
        if len(self._queue) >= MAX_QUEUED:
            request.broken(busy())
            return
        self._patience.rest()
        self._queue.append(request)
        request.queued(self)
        self._admit()

    def leave(self) -> None:
        """Ends it in order. What runs fails. A second call does nothing."""
        if self._left:
            return
        self._abandon(no_answer(), wrong=False)
        if self._hired is not None:
            self._kill = self._reactor.callLater(LEAVE_SECONDS, self._kill_now)

    @property
    def idle_since(self) -> float | None:
        """Since when it has had nothing to do; None: it is at work, or only starts."""
        return None if self._running or self._queue or self._link is None else self._idle_since

    # What its requests need.

    @property
    def roomy(self) -> bool:
        """See `Peer`."""
        return self._link is not None and self._link.roomy

    def send(self, number: int, kind: bytes, payload: bytes = b"") -> None:
        """See `Peer`."""
        if self._link is not None:
            self._link.send(number, kind, payload)

    @property
    def scarce(self) -> bool:
        """See `Peer`."""
        return self._reserve.scarce

    def reserve(self, size: int, granted: Callable[[], None]) -> Share:
        """See `Peer`."""
        return self._reserve.take(size, granted)

    def over(self, request: Request[Any]) -> None:
        """See `Peer`."""
        del self._running[request.number]
        self._stuck.discard(request)
        self._check_stuck()
        self._admit()

    def withdrawn(self, request: Request[Any]) -> None:
        """See `Peer`."""
        self._queue.remove(request)
        self._admit()

    def alive_since(self, moment: float) -> bool:
        """See `Peer`."""
        if self._heard_at > moment:
            return True
        self._break("it gives no answer")
        return False

    def stuck(self, request: Request[Any]) -> None:
        """See `Peer`."""
        self._stuck.add(request)
        self._check_stuck()

    # Its life.

    def _begun(self, hired: Hired) -> None:
        self._starting, self._hired = None, hired
        if self._left:
            hired.kill()
            hired.begin()
            return
        socket, errors = (source.descriptor for source in hired.line.sources)
        hired.dismissed, hired.exited = self.leave, self._exited
        self._link = Link(self._reactor, socket, self._received, self._lost, self._drained)
        errors.readable = lambda: self._listen(errors)
        errors.read_on()
        self._link.put(self._boot)
        self._link.begin(hired.rest)
        hired.begin()
        self._admit()

    def _not_begun(self, failure: Failure) -> None:
        self._starting = None
        if self._left:
            return
        error = failure.value
        if not isinstance(error, ApiError):
            if not isinstance(error, CancelledError):
                self._log.failure("a worker could not be started", failure)
            error = no_answer()
        # what somebody has to set right is said each time, and at once when it is right
        self._abandon(error, wrong=error.code is Code.COMPUTER_UNAVAILABLE)

    def _received(self, number: int, kind: bytes, payload: bytes) -> None:
        request = self._running.get(number)
        if request is None:
            raise Violation("an answer to what was not asked")
        self._heard_at = self._reactor.seconds()
        request.heard(kind, payload)

    def _drained(self) -> None:
        for request in tuple(self._running.values()):
            request.drained()

    def _admit(self) -> None:
        if self._link is None or self._left:
            return
        for request in tuple(self._queue):
            if len(self._running) >= MAX_RUNNING:
                return
            if request in self._queue and self._reserve.has(request.need):
                self._queue.remove(request)
                self._last = self._last % _MAX_NUMBER + 1
                self._running[self._last] = request
                request.put(self._last, self.reserve(request.need, _nothing) if request.need else None)
        if not self._running and not self._queue:
            self._idle_since = self._reactor.seconds()
            self._patience.wait(IDLE_SECONDS)

    def _check_stuck(self) -> None:
        if self._stuck and (len(self._stuck) >= _MAX_STUCK or len(self._stuck) == len(self._running)):
            self._break("it doesn't end what was cancelled")

    # Its end.

    def _lost(self, why: str) -> None:
        self._break(why)

    def _break(self, why: str) -> None:
        if self._left:
            return
        self._listen_last()
        self._log.warn("a worker of session {session} was ended: {why}", session=self.session_id, why=why)
        self._kill_now()
        self._abandon(no_answer(), wrong=True)

    def _abandon(self, error: ApiError, *, wrong: bool) -> None:
        self._left = True
        self._patience.rest()
        if self._link is not None:
            self._link.close()
        self.on_left(self, wrong)
        requests = [*self._running.values(), *self._queue]
        self._running.clear()
        self._queue.clear()
        for request in requests:
            request.broken(error)
        if self._starting is not None:
            self._starting.cancel()

    def _kill_now(self) -> None:
        if self._kill is not None and self._kill.active():
            self._kill.cancel()
        self._kill = None
        if self._hired is not None:
            self._hired.kill()

    def _exited(self) -> None:
        if self._kill is not None:
            self._kill.cancel()
            self._kill = None
        self._break("it has ended")
        self._hired = None

    # Its standard error.

    def _listen(self, errors: Descriptor) -> None:
        try:
            said = os.read(errors.number, _MAX_SAID)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            said = b""
        said = said[: _MAX_SAID - self._said]
        self._said += len(said)
        if said:
            self._log.warn("a worker of session {session} says {said}", session=self.session_id, said=repr(said))
        if not said or self._said >= _MAX_SAID:
            errors.close()

    def _listen_last(self) -> None:
        if self._hired is not None:
            errors = self._hired.line.sources[1].descriptor
            if not errors.closed:
                with suppress(OSError):
                    self._listen(errors)
