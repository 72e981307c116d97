"""The journal as the rest of the daemon sees it: the port of `computerd.session.port`, and the life of the thread behind it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Thread
from typing import Any, Final, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from computerd.api.audit import Entry
from computerd.api.credentials import Revocation
from computerd.contract.objects import Event
from computerd.journal import events, keys, records
from computerd.journal.backlog import Answer, Backlog, Job, Reactor
from computerd.journal.decisions import decide
from computerd.journal.revocations import Revocations
from computerd.journal.store import Store
from computerd.journal.tally import Tally
from computerd.journal.thread import Writer
from computerd.journal.trail import Trail
from computerd.journal.trimming import Trimmer
from computerd.session.drafts import Stamped, Stamper
from computerd.session.port import (
    Commit,
    Decision,
    Draft,
    Excerpt,
    Key,
    Listener,
    Outcome,
    Random,
    Record,
    Seconds,
)

CHECK_SECONDS: Final = 5.0
"""That a start spends on `PRAGMA quick_check`, which reads about 1 GB/s from the page cache."""
STOP_SECONDS: Final = 5.0
"""That a stop waits for a disk that does not answer. Half of what the daemon has from SIGTERM to its end."""

AUDIT_KEEP_DAYS: Final = 90.0
"""For how many days audit rows are kept, if nothing else is said."""
DAY: Final = 24 * 3600
DECISION_BYTES: Final = 4096
"""What a decision counts for in the backlog, because nobody knows before what it will write."""
PAGES: Final = 4
"""Pages that are read at a time. The thread would read on while none is taken off its hands, and each can take megabytes."""

_log = Logger()

T = TypeVar("T")


@define(eq=False)
class Journal:
    """Events in SQLite. Implements `computerd.session.port.Journal`.

    Attributes:
        path: The database file, `journal.db` in the state folder.
        reactor: Where results come back to, and its monotonic clock.
        seconds: The wall clock, in seconds since the epoch.
        random: For ids.
        failed: Called once if the journal dies while it runs. Nothing can be written any more then.
        audit_keep_days: For how many days `trim` keeps audit rows.
        revocations: Kept up to date while the journal runs.
        tally: Counts what is done.
    """

    path: str
    reactor: Reactor
    seconds: Seconds
    random: Random
    failed: Callable[[], None] = lambda: None
    audit_keep_days: float = AUDIT_KEEP_DAYS
    revocations: Revocations = field(factory=Revocations, init=False)
    tally: Tally = field(factory=Tally, init=False)
    _stamper: Stamper = field(init=False)
    _later: Stamper = field(init=False)
    _trimmer: Trimmer = field(factory=Trimmer, init=False)
    _store: Store = field(init=False)
    _trail: Trail = field(init=False)
    _writer: Writer = field(init=False)
    _backlog: Backlog = field(init=False)
    _pages: DeferredSemaphore = field(factory=lambda: DeferredSemaphore(PAGES), init=False)
    _listener: Listener | None = field(default=None, init=False)
    _log_epoch: str = field(default="", init=False)
    _thread: Thread | None = field(default=None, init=False)
    _started: Deferred[None] | None = field(default=None, init=False)
    _stopped: Deferred[None] | None = field(default=None, init=False)
    _check_limit: IDelayedCall | None = field(default=None, init=False)
    _stop_limit: IDelayedCall | None = field(default=None, init=False)

    @_stamper.default
    def _for_the_reactor(self) -> Stamper:
        return Stamper(self.seconds, self.random)

    @_later.default
    def _for_the_thread(self) -> Stamper:
        return Stamper(self.seconds, self.random)

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
    def log_epoch(self) -> str:
        """Names this incarnation of the journal. Empty until it is open."""
        return self._log_epoch

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

    def listen(self, listener: Listener) -> None:
        """See the port."""
        self._listener = listener

    def note(self, entry: Entry) -> None:
        """See `computerd.api.audit.Audit`. Also before the start."""
        self._trail.note(entry)

    def create(self, record: Record, drafts: Sequence[Draft]) -> Deferred[Sequence[Event]]:
        """See the port."""
        stamped = self._stamp(drafts)
        return self._backlog.submit(Job(lambda group: group.create(record, stamped), True, _size(stamped)))

    def append(self, session_id: str, drafts: Sequence[Draft], *, patient: bool = False) -> Deferred[Sequence[Event]]:
        """See the port."""
        stamped = self._stamp(drafts)
        job: Job[Sequence[Event]] = Job(lambda group: group.append(session_id, stamped), True, _size(stamped), patient)
        return self._backlog.submit(job)

    def decide(
        self,
        session_id: str,
        decision: Decision,
        *,
        key: Key | None = None,
        late: Callable[[Sequence[Event]], object] | None = None,
    ) -> Deferred[Outcome]:
        """See the port."""

        def told(outcome: Outcome) -> None:
            if late is not None and outcome.events:
                late(outcome.events)

        return self._backlog.submit(
            Job(
                lambda group: decide(group, session_id, decision, key, self._later),
                True,
                DECISION_BYTES,
                late=told,
            )
        )

    def answered(self, member: str, method: str, key: str, digest: str) -> Deferred[bytes | None]:
        """See the port."""
        now = _milliseconds(self.seconds())
        return self._submit(Job(lambda connection: keys.find(connection, member, method, key, digest, now), False))

    def session(self, session_id: str) -> Deferred[Record | None]:
        """See the port."""
        return self._submit(Job(lambda connection: records.read(connection, session_id), False))

    def sessions(self, *, archived: bool, limit: int, before: tuple[float, str] | None) -> Deferred[Excerpt[Record]]:
        """See the port."""
        return self._page(lambda connection: records.newest(connection, archived, limit, before))

    def awake(self, *, limit: int, after: str) -> Deferred[Sequence[str]]:
        """See the port."""
        return self._submit(Job(lambda connection: records.awake(connection, limit, after), False))

    def events(
        self, session_id: str, *, after: int, limit: int, types: Collection[str] | None
    ) -> Deferred[Excerpt[Event]]:
        """See the port."""
        return self._page(lambda connection: events.read(connection, session_id, after, limit, types))

    def trim(self, *, keep: int, before: float | None, limit: int) -> Deferred[Mapping[str, int] | None]:
        """See the port. Audit rows go after `audit_keep_days`."""
        now = _milliseconds(self.seconds())
        audit_before = now - _milliseconds(self.audit_keep_days * DAY)
        oldest = None if before is None else _milliseconds(before)
        return self._submit(Job(lambda group: self._trimmer.trim(group, keep, oldest, limit, now, audit_before), True))

    def _page(self, read: Callable[[sqlite3.Connection], Excerpt[T]]) -> Deferred[Excerpt[T]]:
        return self._pages.run(self._submit, Job(read, False))

    def _submit(self, job: Job[Any]) -> Deferred[Any]:
        return self._backlog.submit(job)

    def _stamp(self, drafts: Sequence[Draft]) -> list[Stamped]:
        return [self._stamper.stamp(draft) for draft in drafts]

    def _from_thread(self, function: Callable[..., None]) -> Callable[..., None]:
        return lambda *args: self.reactor.callFromThread(function, *args)

    def _deliver(self, outcomes: Sequence[Answer], commits: Sequence[Commit]) -> None:
        for commit in commits:
            self.tally.events += len(commit.events)
            if self._listener is not None:
                self._tell(self._listener.committed, commit)
        self._backlog.deliver(outcomes)

    def _tell(self, function: Callable[..., None], *args: object) -> None:
        try:
            function(*args)
        except Exception:
            # who waits for the journal must get an answer, whatever its listener does
            _log.failure("who listens to the journal has failed")

    def _has_opened(self, log_epoch: str, listed: list[Revocation]) -> None:
        _cancel(self._check_limit)
        self._log_epoch = log_epoch
        self.revocations.replace(listed)
        if self._stopped is None:
            self._backlog.open()
            started, self._started = self._started, None
            if started is not None:
                started.callback(None)

    def _has_renewed(self, log_epoch: str) -> None:
        self._log_epoch = log_epoch
        if self._listener is not None:
            self._tell(self._listener.renewed)

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


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _size(stamped: Sequence[Stamped]) -> int:
    return sum(len(item.data) for item in stamped)
