"""The journal as the rest of the daemon sees it: the port of `computerd.session.port`, and the life of the thread behind it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from threading import Thread
from typing import Any, Final, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from computerd.api.credentials import Revocation
from computerd.contract.objects import Event
from computerd.journal import events, records
from computerd.journal.backlog import Backlog, Job, Reactor
from computerd.journal.revocations import Revocations
from computerd.journal.store import Store
from computerd.journal.thread import Writer
from computerd.session.drafts import Stamped, stamp
from computerd.session.port import Draft, Excerpt, Random, Record, Seconds

CHECK_SECONDS: Final = 5.0
"""That a start spends on `PRAGMA quick_check`, which reads about 1 GB/s from the page cache."""
STOP_SECONDS: Final = 5.0
"""That a stop waits for a disk that does not answer. Half of what the daemon has from SIGTERM to its end."""

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
        revocations: Kept up to date while the journal runs.
    """

    path: str
    reactor: Reactor
    seconds: Seconds
    random: Random
    failed: Callable[[], None] = lambda: None
    revocations: Revocations = field(factory=Revocations, init=False)
    _store: Store = field(init=False)
    _writer: Writer = field(init=False)
    _backlog: Backlog = field(init=False)
    _pages: DeferredSemaphore = field(factory=lambda: DeferredSemaphore(PAGES), init=False)
    _thread: Thread | None = field(default=None, init=False)
    _started: Deferred[None] | None = field(default=None, init=False)
    _stopped: Deferred[None] | None = field(default=None, init=False)
    _check_limit: IDelayedCall | None = field(default=None, init=False)
    _stop_limit: IDelayedCall | None = field(default=None, init=False)

    @_store.default
    def _new_store(self) -> Store:
        return Store(self.path, self.seconds, self.random, self._from_thread(self._report))

    @_writer.default
    def _new_writer(self) -> Writer:
        return Writer(
            store=self._store,
            monotonic=self.reactor.seconds,
            opened=self._from_thread(self._has_opened),
            deliver=self._from_thread(self._deliver),
            revoked=self._from_thread(self.revocations.replace),
            ended=self._from_thread(self._has_ended),
        )

    @_backlog.default
    def _new_backlog(self) -> Backlog:
        return Backlog(self.reactor, self._writer.put)

    @property
    def log_epoch(self) -> str:
        """Names this incarnation of the journal. Empty until it is open."""
        return self._store.log_epoch

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

    def create(self, record: Record, drafts: Sequence[Draft]) -> Deferred[Sequence[Event]]:
        """See the port."""
        stamped = self._stamp(drafts)
        return self._submit(Job(lambda connection: records.create(connection, record, stamped), True, _size(stamped)))

    def append(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        status: str | None = None,
        patient: bool = False,
        late: Callable[[Sequence[Event]], object] | None = None,
    ) -> Deferred[Sequence[Event]]:
        """See the port."""
        stamped = self._stamp(drafts)
        return self._submit(
            Job(
                lambda connection: events.append(connection, session_id, stamped, status),
                True,
                _size(stamped),
                patient,
                late,
            )
        )

    def session(self, session_id: str) -> Deferred[Record | None]:
        """See the port."""
        return self._submit(Job(lambda connection: records.read(connection, session_id), False))

    def sessions(self, *, archived: bool, limit: int, before: tuple[float, str] | None) -> Deferred[Excerpt[Record]]:
        """See the port."""
        return self._page(lambda connection: records.newest(connection, archived, limit, before))

    def events(
        self, session_id: str, *, after: int, limit: int, types: Collection[str] | None
    ) -> Deferred[Excerpt[Event]]:
        """See the port."""
        return self._page(lambda connection: events.read(connection, session_id, after, limit, types))

    def _page(self, read: Callable[[sqlite3.Connection], Excerpt[T]]) -> Deferred[Excerpt[T]]:
        return self._pages.run(self._submit, Job(read, False))

    def _submit(self, job: Job[Any]) -> Deferred[Any]:
        return self._backlog.submit(job)

    def _stamp(self, drafts: Sequence[Draft]) -> list[Stamped]:
        return [stamp(draft, self.seconds, self.random) for draft in drafts]

    def _from_thread(self, function: Callable[..., None]) -> Callable[..., None]:
        return lambda *args: self.reactor.callFromThread(function, *args)

    def _deliver(self, outcomes: Sequence[Any]) -> None:
        self._backlog.deliver(outcomes)

    def _has_opened(self, listed: list[Revocation]) -> None:
        _cancel(self._check_limit)
        self.revocations.replace(listed)
        if self._stopped is None:
            self._backlog.open()
            started, self._started = self._started, None
            if started is not None:
                started.callback(None)

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


def _size(stamped: Sequence[Stamped]) -> int:
    return sum(len(item.data) for item in stamped)
