"""The journal as the rest of the daemon sees it: the port of `computerd.session.port`. What runs it is the `engine`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredSemaphore

from computerd.api.audit import Entry
from computerd.contract.objects import Event
from computerd.journal import events, keys, records
from computerd.journal.backlog import Job, Reactor
from computerd.journal.decisions import decide
from computerd.journal.engine import Engine
from computerd.journal.revocations import Revocations
from computerd.journal.tally import Tally
from computerd.journal.trimming import Trimmer
from computerd.session.aging import Aging
from computerd.session.drafts import Stamped, Stamper
from computerd.session.port import Decision, Draft, Excerpt, Key, Listener, Outcome, Random, Record, Seconds

AUDIT_KEEP_DAYS: Final = 90.0
"""For how many days audit rows are kept, if nothing else is said."""
DAY: Final = 24 * 3600
DECISION_BYTES: Final = 4096
"""What a decision counts for in the backlog, because nobody knows before what it will write."""
PAGES: Final = 4
"""Pages that are read at a time. The thread would read on while none is taken off its hands, and each can take megabytes."""

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
    """

    path: str
    reactor: Reactor
    seconds: Seconds
    random: Random
    failed: Callable[[], None] = lambda: None
    audit_keep_days: float = AUDIT_KEEP_DAYS
    _engine: Engine = field(init=False)
    _stamper: Stamper = field(init=False)
    _later: Stamper = field(init=False)
    _aging: Aging = field(init=False)
    _trimmer: Trimmer = field(factory=Trimmer, init=False)
    _pages: DeferredSemaphore = field(factory=lambda: DeferredSemaphore(PAGES), init=False)

    @_engine.default
    def _new_engine(self) -> Engine:
        return Engine(self.path, self.reactor, self.seconds, self.random, lambda: self.failed())

    @_stamper.default
    def _for_the_reactor(self) -> Stamper:
        return Stamper(self.seconds, self.random)

    @_later.default
    def _for_the_thread(self) -> Stamper:
        return Stamper(self.seconds, self.random)

    @_aging.default
    def _from_now_on(self) -> Aging:
        return Aging(self.seconds, self.reactor.seconds)

    @property
    def log_epoch(self) -> str:
        """Names this incarnation of the journal. Empty until it is open."""
        return self._engine.log_epoch

    @property
    def revocations(self) -> Revocations:
        """Kept up to date while the journal runs."""
        return self._engine.revocations

    @property
    def tally(self) -> Tally:
        """Counts what is done."""
        return self._engine.tally

    @property
    def stalled(self) -> bool:
        """Whether the disk has not answered for five seconds."""
        return self._engine.stalled

    def start(self) -> Deferred[None]:
        """See `Engine`."""
        return self._engine.start()

    def stop(self) -> Deferred[None]:
        """See `Engine`."""
        return self._engine.stop()

    def listen(self, listener: Listener) -> None:
        """See the port."""
        self._engine.listener = listener

    def note(self, entry: Entry) -> None:
        """See `computerd.api.audit.Audit`. Also before the start."""
        self._engine.note(entry)

    def create(self, record: Record, drafts: Sequence[Draft]) -> Deferred[Sequence[Event]]:
        """See the port."""
        stamped = self._stamp(drafts)
        return self._engine.submit(Job(lambda group: group.create(record, stamped), True, _size(stamped)))

    def append(self, session_id: str, drafts: Sequence[Draft], *, patient: bool = False) -> Deferred[Sequence[Event]]:
        """See the port."""
        stamped = self._stamp(drafts)
        job: Job[Sequence[Event]] = Job(lambda group: group.append(session_id, stamped), True, _size(stamped), patient)
        return self._engine.submit(job)

    def decide(
        self,
        session_id: str,
        decision: Decision,
        *,
        key: Key | None = None,
        late: Callable[[Sequence[Event]], object] | None = None,
    ) -> Deferred[Outcome]:
        """See the port."""
        now = self._now()

        def told(outcome: Outcome) -> None:
            if late is not None and outcome.events:
                late(outcome.events)

        return self._engine.submit(
            Job(
                lambda group: decide(group, session_id, decision, key, self._later, now),
                True,
                DECISION_BYTES,
                late=told,
            )
        )

    def answered(self, member: str, method: str, key: str, digest: str) -> Deferred[bytes | None]:
        """See the port."""
        now = self._now()
        return self._engine.submit(
            Job(lambda connection: keys.find(connection, member, method, key, digest, now), False)
        )

    def session(self, session_id: str) -> Deferred[Record | None]:
        """See the port."""
        return self._engine.submit(Job(lambda connection: records.read(connection, session_id), False))

    def sessions(self, *, archived: bool, limit: int, before: tuple[float, str] | None) -> Deferred[Excerpt[Record]]:
        """See the port."""
        return self._page(lambda connection: records.newest(connection, archived, limit, before))

    def awake(self, *, limit: int, after: str) -> Deferred[Sequence[str]]:
        """See the port."""
        return self._engine.submit(Job(lambda connection: records.awake(connection, limit, after), False))

    def events(
        self, session_id: str, *, after: int, limit: int, types: Collection[str] | None
    ) -> Deferred[Excerpt[Event]]:
        """See the port."""
        return self._page(lambda connection: events.read(connection, session_id, after, limit, types))

    def trim(self, *, keep: int, before: float | None, limit: int) -> Deferred[Mapping[str, int] | None]:
        """See the port. Audit rows go after `audit_keep_days`."""
        now = self._now()
        audit_before = now - _milliseconds(self.audit_keep_days * DAY)
        oldest = None if before is None else _milliseconds(before)
        return self._engine.submit(
            Job(lambda group: self._trimmer.trim(group, keep, oldest, limit, now, audit_before), True)
        )

    def _now(self) -> int:
        """For what expires. A step of the wall clock must not take idempotency keys and the trail away."""
        return _milliseconds(self._aging.now())

    def _page(self, read: Callable[[sqlite3.Connection], Excerpt[T]]) -> Deferred[Excerpt[T]]:
        return self._pages.run(self._engine.submit, Job(read, False))

    def _stamp(self, drafts: Sequence[Draft]) -> list[Stamped]:
        return [self._stamper.stamp(draft) for draft in drafts]


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _size(stamped: Sequence[Stamped]) -> int:
    return sum(len(item.data) for item in stamped)
