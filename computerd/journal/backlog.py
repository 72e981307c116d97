"""What the journal's thread has been asked for and has not answered yet. Lives on the reactor's thread.

A job waits until the thread has answered it. Meanwhile one thing may happen: after `STALL_SECONDS` its caller is told `unavailable`, or has
gone away. The job is *expired* then. The thread drops an expired job that it has not begun; one that it has begun may still turn out to be
committed, and then the job's `late` makes up for what the caller does not know. Patient jobs never expire.

While a job has expired and the thread has answered nothing since, the journal is *stalled* and takes no new work but patient work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from computerd.contract.errors import ApiError, Code
from computerd.journal.tally import Tally

STALL_SECONDS: Final = 5.0
"""After which the disk counts as stalled."""
MAX_JOBS: Final = 10_000
MAX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of events that wait to be written."""
RETRY_MS: Final = 1000

_log = Logger()

T = TypeVar("T")


class Reactor(Protocol):
    """What of the reactor the journal needs."""

    def callFromThread(self, function: Callable[..., Any], /, *args: object) -> None:
        """Calls it on the reactor's thread."""

    def callLater(self, delay: float, function: Callable[..., Any], /, *args: object) -> IDelayedCall:
        """Calls it after so many seconds."""

    def seconds(self) -> float:
        """A clock that never jumps."""


def unavailable(message: str) -> ApiError:
    """A refusal that time cures."""
    return ApiError(Code.UNAVAILABLE, message, retry_after_ms=RETRY_MS)


@define(eq=False)
class Job(Generic[T]):
    """One thing to do on the journal's thread.

    Attributes:
        run: Does it. One that writes is given the `Group` of its transaction, and raises ApiError only before it has added anything;
            one that reads is given the connection.
        writes: Whether it writes.
        size: About how many bytes it holds.
        patient: Whether it waits for as long as it takes.
        late: Called with the result if it was carried out after it had expired.
        done: Fires with the result.
    """

    run: Callable[[Any], T]
    writes: bool
    size: int = 0
    patient: bool = False
    late: Callable[[T], object] | None = None
    done: Deferred[T] = field(init=False)
    expired: bool = False
    since: float = 0.0

    @done.default
    def _new_deferred(self) -> Deferred[T]:
        return Deferred(self._cancelled)

    def _cancelled(self, done: Deferred[T]) -> None:
        self.expired = not self.patient


@define(eq=False)
class Answer:
    """What became of a job: a result, an error, or neither when it had expired before its turn."""

    job: Job[Any]
    result: object = None
    error: BaseException | None = None
    dropped: bool = False


@define(eq=False)
class Backlog:
    """The jobs that wait, and whether more are taken.

    Attributes:
        reactor: For time.
        put: Hands a job to the thread.
        tally: Counts what is done.
    """

    reactor: Reactor
    put: Callable[[Job[Any]], None]
    tally: Tally = field(factory=Tally)
    _open: bool = field(default=False, init=False)
    _stalled: bool = field(default=False, init=False)
    _waiting: dict[Job[Any], None] = field(factory=dict, init=False)
    _bytes: int = field(default=0, init=False)
    _alarm: IDelayedCall | None = field(default=None, init=False)

    @property
    def stalled(self) -> bool:
        """Whether the disk has not answered for `STALL_SECONDS`."""
        return self._stalled

    def open(self) -> None:
        """Takes jobs from now on."""
        self._open = True

    def submit(self, job: Job[T]) -> Deferred[T]:
        """Passes a job on, or refuses it at once with `unavailable`."""
        refusal = self._refusal(job)
        if refusal is not None:
            return fail(refusal)
        job.since = self.reactor.seconds()
        self._waiting[job] = None
        self.tally.waiting = len(self._waiting)
        self._bytes += job.size
        if self._alarm is None:
            self._alarm = self.reactor.callLater(STALL_SECONDS, self._expire)
        self.put(job)
        return job.done

    def deliver(self, outcomes: Sequence[Answer]) -> None:
        """Takes the thread's answers."""
        if self._stalled:
            self._stalled = False
            _log.warn("the journal's disk answers again")
        now = self.reactor.seconds()
        for outcome in outcomes:
            if outcome.job in self._waiting:
                del self._waiting[outcome.job]
                self.tally.waiting = len(self._waiting)
                self._bytes -= outcome.job.size
                self._tell(outcome, now)

    def close(self) -> None:
        """Takes no more jobs."""
        self._open = False

    def abandon(self, message: str) -> None:
        """Tells everybody who still waits that there will be no answer."""
        self._open = self._stalled = False
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for job in list(self._waiting):
            self.deliver([Answer(job, error=unavailable(message))])

    def _refusal(self, job: Job[Any]) -> ApiError | None:
        if not self._open:
            return unavailable("The journal is closed; try again when the server is back.")
        if job.patient:
            return None
        if self._stalled:
            return unavailable("The server's disk does not answer; try again later.")
        if len(self._waiting) >= MAX_JOBS or self._bytes + job.size > MAX_BYTES:
            return unavailable("The server's disk can't keep up; try again later.")
        return None

    def _tell(self, outcome: Answer, now: float) -> None:
        job = outcome.job
        if job.writes and not outcome.dropped and outcome.error is None:
            self.tally.observe(now - job.since)
        if job.expired:
            if job.late is not None and not outcome.dropped and outcome.error is None:
                job.late(outcome.result)
        elif job.done.called:
            # a patient one, whose caller has gone away
            return
        elif outcome.error is not None:
            job.done.errback(outcome.error)
        else:
            job.done.callback(outcome.result)

    def _expire(self) -> None:
        self._alarm = None
        now = self.reactor.seconds()
        for job in list(self._waiting):
            if job.patient or job.expired:
                continue
            rest = job.since + STALL_SECONDS - now
            # a timer may come a hair early
            if rest > 0.001:
                self._alarm = self.reactor.callLater(rest, self._expire)
                return
            job.expired = True
            if not self._stalled:
                self._stalled = True
                _log.critical(
                    "the journal's disk has not answered for {seconds:.0f} s; new work is refused until it does",
                    seconds=STALL_SECONDS,
                )
            job.done.errback(unavailable("The server's disk did not answer in time; try again later."))
