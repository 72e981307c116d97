"""A journal in memory. It passes the same interface tests as the real one (`tests.session.journal_interface`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import count
from typing import TypeVar

from attrs import define, evolve, field
from twisted.internet.defer import Deferred, fail

from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Event
from computerd.session.drafts import stamp
from computerd.session.port import Draft, Excerpt, Random, Record, Seconds

T = TypeVar("T")


def seeded() -> Random:
    """Bytes that differ from call to call and are the same in every run."""
    numbers = count()

    def random(n: int) -> bytes:
        number = next(numbers)
        return bytes(number // 62 ** (i % 4) % 62 for i in range(n))

    return random


@define(eq=False)
class FakeJournal:
    """Keeps everything in dictionaries and fires at once.

    Attributes:
        seconds: The wall clock, in seconds since the epoch.
        refusing: What every call fails with, patient ones apart, which wait until `heal`.
        holding: Commits are made, but nothing fires until `release`.
        doubtful: Appends that are not patient are made, but their callers are told this; `late` is called at `release`.
    """

    seconds: Seconds = lambda: 1_800_000_000.0
    random: Random = field(factory=seeded)
    log_epoch: str = "le_000000000000"
    refusing: ApiError | None = None
    holding: bool = False
    doubtful: ApiError | None = None
    records: dict[str, Record] = field(factory=dict)
    log: dict[str, list[Event]] = field(factory=dict)
    reads: int = 0
    _held: list[Callable[[], object]] = field(factory=list)
    _waiting: list[Callable[[], None]] = field(factory=list)

    def create(self, record: Record, drafts: Sequence[Draft]) -> Deferred[Sequence[Event]]:
        return self._soon(lambda: self._create(record, drafts))

    def append(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        status: str | None = None,
        patient: bool = False,
        late: Callable[[Sequence[Event]], object] | None = None,
    ) -> Deferred[Sequence[Event]]:
        if self.doubtful is not None and not patient:
            events = self._append(session_id, drafts, status)
            if late is not None:
                self._held.append(partial(late, events))
            return fail(self.doubtful)
        return self._soon(lambda: self._append(session_id, drafts, status), patient)

    def session(self, session_id: str) -> Deferred[Record | None]:
        self.reads += 1
        return self._soon(lambda: self.records.get(session_id))

    def sessions(self, *, archived: bool, limit: int, before: tuple[float, str] | None) -> Deferred[Excerpt[Record]]:
        def find() -> Excerpt[Record]:
            newest = sorted(self.records.values(), key=lambda record: (record.created_at, record.id), reverse=True)
            found = [
                record
                for record in newest
                if record.archived == archived and (before is None or (record.created_at, record.id) < before)
            ]
            return Excerpt(found[:limit], len(found) > limit)

        return self._soon(find)

    def events(
        self, session_id: str, *, after: int, limit: int, types: Collection[str] | None
    ) -> Deferred[Excerpt[Event]]:
        def find() -> Excerpt[Event]:
            log = self.log.get(session_id, [])
            found = [event for event in log if event.seq > after and (types is None or event.type in types)]
            return Excerpt(found[:limit], len(found) > limit)

        return self._soon(find)

    def release(self) -> None:
        """Lets everything fire that was held."""
        self.holding = False
        held, self._held = self._held, []
        for fire in held:
            fire()

    def heal(self) -> None:
        """Takes work again, patient work first."""
        self.refusing = None
        waiting, self._waiting = self._waiting, []
        for run in waiting:
            run()

    def _create(self, record: Record, drafts: Sequence[Draft]) -> Sequence[Event]:
        if record.id in self.records:
            raise ApiError(Code.ID_CONFLICT, "There is a session with this id; choose another.")
        self.records[record.id] = evolve(record, first_seq=1, last_seq=0)
        self.log[record.id] = []
        return self._append(record.id, drafts, None)

    def _append(self, session_id: str, drafts: Sequence[Draft], status: str | None) -> Sequence[Event]:
        record = self.records.get(session_id)
        if record is None:
            raise ApiError(Code.SESSION_NOT_FOUND, "There is no such session.")
        stamped = [stamp(draft, self.seconds, self.random) for draft in drafts]
        events = [item.event(session_id, record.last_seq + place) for place, item in enumerate(stamped, 1)]
        self.log[session_id] += events
        self.records[session_id] = evolve(
            record, last_seq=events[-1].seq, active_at=stamped[-1].at / 1000, status=status or record.status
        )
        return events

    def _soon(self, work: Callable[[], T], patient: bool = False) -> Deferred[T]:
        done: Deferred[T] = Deferred()

        def run() -> None:
            try:
                result = work()
            except ApiError as error:
                self._fire(partial(done.errback, error))
            else:
                self._fire(lambda: done.callback(result))

        if self.refusing is None:
            run()
        elif patient:
            self._waiting.append(run)
        else:
            done.errback(self.refusing)
        return done

    def _fire(self, fire: Callable[[], None]) -> None:
        if self.holding:
            self._held.append(fire)
        else:
            fire()
