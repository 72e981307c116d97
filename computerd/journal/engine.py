"""The journal's thread, its file and its queue, from the start to the end. Lives on the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Final, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from computerd.api.audit import Entry
from computerd.api.credentials import Revocation
from computerd.journal.backlog import Answer, Backlog, Job, Reactor
from computerd.journal.revocations import Revocations
from computerd.journal.store import Store
from computerd.journal.tally import Tally
from computerd.journal.thread import Writer
from computerd.journal.trail import Trail
from computerd.session.port import Commit, Listener, Random, Seconds

CHECK_SECONDS: Final = 5.0
"""That a start spends on `PRAGMA quick_check`, which reads about 1 GB/s from the page cache."""
STOP_SECONDS: Final = 5.0
"""That a stop waits for a disk that does not answer. Half of what the daemon has from SIGTERM to its end."""

_log = Logger()

T = TypeVar("T")


@define(eq=False)
class Engine:
    """What runs the journal.

    Attributes:
        path: The database file.
        reactor: Where results come back to, and its monotonic clock.
        seconds: The wall clock.
        random: For ids.
        failed: Called once if the journal dies while it runs.
        revocations: Kept up to date while it runs.
        tally: Counts what is done.
        listener: Who is told of commits and of a new epoch.
        log_epoch: The epoch. Empty until the file is open.
    """

    path: str
    reactor: Reactor
    seconds: Seconds
    random: Random
    failed: Callable[[], None]
    revocations: Revocations = field(factory=Revocations, init=False)
    tally: Tally = field(factory=Tally, init=False)
    listener: Listener | None = field(default=None, init=False)
    log_epoch: str = field(default="", init=False)
    _store: Store = field(init=False)
    _trail: Trail = field(init=False)
    _writer: Writer = field(init=False)
    _backlog: Backlog = field(init=False)
    _thread: Thread | None = field(default=None, init=False)
    _started: Deferred[None] | None = field(default=None, init=False)
    _stopped: Deferred[None] | None = field(default=None, init=False)
    _check_limit: IDelayedCall | None = field(default=None, init=False)
    _stop_limit: IDelayedCall | None = field(default=None, init=False)

    @_store.default
    def _new_store(self) -> Store:
        return Store(self.path, self.seconds, self.random, self._from_thread(self._report))

    @_trail.default
    def _new_trail(self) -> Trail:
        return Trail(self.seconds, self._from_thread(self._report))

    @_writer.default
    def _new_writer(self) -> Writer:
        return Writer(
            store=self._store,
            trail=self._trail,
            monotonic=self.reactor.seconds,
            opened=self._from_thread(self._has_opened),
            deliver=self._from_thread(self._deliver),
            renewed=self._from_thread(self._has_renewed),
            revoked=self._from_thread(self.revocations.replace),
            ended=self._from_thread(self._has_ended),
        )

    @_backlog.default
    def _new_backlog(self) -> Backlog:
        return Backlog(self.reactor, self._writer.put, self.tally)

    @property
    def stalled(self) -> bool:
        """Whether the disk has not answered for five seconds."""
        return self._backlog.stalled

    def start(self) -> Deferred[None]:
        """Starts the thread. Fires when the journal is open, has closed what the last run left open, and knows the revocations.

        Raises:
            JournalError: Through the Deferred: the file can't or must not be used.
        """
        self._started = Deferred()
        self._check_limit = self.reactor.callLater(CHECK_SECONDS, self._store.interrupt)
        self._thread = Thread(target=self._writer.run, name="journal", daemon=True)
        self._thread.start()
        return self._started

    def stop(self) -> Deferred[None]:
        """Writes what is queued, closes the file and ends the thread. Fires within `STOP_SECONDS` even if the disk does not answer."""
        self._stopped = Deferred()
        stopped = self._stopped
        if self._thread is None:
            stopped.callback(None)
            return stopped
        self._backlog.close()
        self._stop_limit = self.reactor.callLater(STOP_SECONDS, self._give_up)
        self._writer.stop()
        return stopped

    def note(self, entry: Entry) -> None:
        """Queues an audit row. Also before the start."""
        self._trail.note(entry)

    def submit(self, job: Job[T]) -> Deferred[T]:
        """Has a job done, or refuses it at once with `unavailable`."""
        return self._backlog.submit(job)

    def _from_thread(self, function: Callable[..., None]) -> Callable[..., None]:
        return lambda *args: self.reactor.callFromThread(function, *args)

    def _deliver(self, outcomes: Sequence[Answer], commits: Sequence[Commit]) -> None:
        for commit in commits:
            self.tally.events += len(commit.events)
            if self.listener is not None:
                self._tell(self.listener.committed, commit)
        self._backlog.deliver(outcomes)

    def _tell(self, function: Callable[..., None], *args: object) -> None:
        try:
            function(*args)
        except Exception:
            # who waits for the journal must get an answer, whatever its listener does
            _log.failure("who listens to the journal has failed")

    def _has_opened(self, log_epoch: str, listed: list[Revocation]) -> None:
        _cancel(self._check_limit)
        self.log_epoch = log_epoch
        self.revocations.replace(listed)
        if self._stopped is None:
            self._backlog.open()
            started, self._started = self._started, None
            if started is not None:
                started.callback(None)

    def _has_renewed(self, log_epoch: str) -> None:
        self.log_epoch = log_epoch
        if self.listener is not None:
            self._tell(self.listener.renewed)

    def _has_ended(self, error: BaseException | None) -> None:
        _cancel(self._check_limit)
        _cancel(self._stop_limit)
        self._backlog.abandon("The journal is closed; try again when the server is back.")
        # it has said its last word: there is nothing to wait for
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        started, self._started = self._started, None
        if started is not None:
            started.errback(error or RuntimeError("the journal was stopped before it was open"))
        elif error is not None:
            _log.critical("the journal has died: {error!r}", error=error)
            self.failed()
        if self._stopped is not None and not self._stopped.called:
            self._stopped.callback(None)

    def _give_up(self) -> None:
        _log.critical(
            "the disk does not answer: the journal is left as it is, and what was not acknowledged may be lost"
        )
        self._backlog.abandon("The journal is closed; try again when the server is back.")
        if self._stopped is not None:
            self._stopped.callback(None)

    def _report(self, text: str) -> None:
        _log.critical("{text}", text=text)


def _cancel(call: IDelayedCall | None) -> None:
    if call is not None and call.active():
        call.cancel()
