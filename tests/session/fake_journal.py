"""A journal in memory. It passes the same interface tests as the real one (`tests.session.journal_interface`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import count
from typing import TypeVar

from attrs import asdict, define, evolve, field
from twisted.internet.defer import Deferred, fail

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Event
from computerd.session.drafts import Stamped, stamp
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
        holding: Commits are made and told, but nothing fires until `release`.
        doubtful: Decisions, and appends that are not patient, are made, but their callers are told this; `late` is called at `release`.
        keys: What is kept with idempotency keys: the digest, the answer, and until when.
    """

    seconds: Seconds = lambda: 1_800_000_000.0
    random: Random = field(factory=seeded)
    log_epoch: str = "le_000000000000"
    refusing: ApiError | None = None
    holding: bool = False
    doubtful: ApiError | None = None
    records: dict[str, Record] = field(factory=dict)
    log: dict[str, list[Event]] = field(factory=dict)
    keys: dict[tuple[str, str, str], tuple[str, bytes, float]] = field(factory=dict)
    reads: int = 0
    _listener: Listener | None = None
    _held: list[Callable[[], object]] = field(factory=list)
    _waiting: list[Callable[[], None]] = field(factory=list)

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    def create(self, record: Record, drafts: Sequence[Draft]) -> Deferred[Sequence[Event]]:
        return self._soon(lambda: self._create(record, drafts))

    def append(self, session_id: str, drafts: Sequence[Draft], *, patient: bool = False) -> Deferred[Sequence[Event]]:
        if self.doubtful is not None and not patient:
            self._append(session_id, drafts)
            return fail(self.doubtful)
        return self._soon(lambda: self._append(session_id, drafts), patient)

    def decide(
        self,
        session_id: str,
        decision: Decision,
        *,
        key: Key | None = None,
        late: Callable[[Sequence[Event]], object] | None = None,
    ) -> Deferred[Outcome]:
        if self.doubtful is not None:
            outcome = self._decide(session_id, decision, key)
            if late is not None and outcome.events:
                self._held.append(partial(late, outcome.events))
            return fail(self.doubtful)
        return self._soon(lambda: self._decide(session_id, decision, key))

    def answered(self, member: str, method: str, key: str, digest: str) -> Deferred[bytes | None]:
        return self._soon(lambda: self._answered((member, method, key), digest))

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

    def awake(self, *, limit: int, after: str) -> Deferred[Sequence[str]]:
        def find() -> Sequence[str]:
            return sorted(
                record.id
                for record in self.records.values()
                if record.id > after and not record.archived and record.status != "suspended"
            )[:limit]

        return self._soon(find)

    def events(
        self, session_id: str, *, after: int, limit: int, types: Collection[str] | None
    ) -> Deferred[Excerpt[Event]]:
        def find() -> Excerpt[Event]:
            log = self.log.get(session_id, [])
            found = [event for event in log if event.seq > after and (types is None or event.type in types)]
            return Excerpt(found[:limit], len(found) > limit)

        return self._soon(find)

    def trim(self, *, keep: int, before: float | None, limit: int) -> Deferred[Mapping[str, int] | None]:
        return self._soon(lambda: self._trim(keep, before, limit))

    def renew(self, log_epoch: str = "le_renewed00000") -> None:
        """Begins a new epoch, as after damage: sessions stay, their events are gone."""
        self.log_epoch = log_epoch
        for record in self.records.values():
            self.records[record.id] = evolve(record, first_seq=record.last_seq + 1)
            self.log[record.id] = []
        if self._listener is not None:
            self._listener.renewed()

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
        self.log[record.id] = []
        return self._write(evolve(record, first_seq=1, last_seq=0), drafts, True)

    def _append(self, session_id: str, drafts: Sequence[Draft]) -> Sequence[Event]:
        return self._write(self._record(session_id), drafts, False)

    def _decide(self, session_id: str, decision: Decision, key: Key | None) -> Outcome:
        if key is not None:
            known = self._answered((key.member, key.method, key.key), key.digest)
            if known is not None:
                return Outcome(self._record(session_id), (), known, True)
        before = self._record(session_id)
        decided = decision(before)
        given = {name: value for name, value in asdict(decided.change, recurse=False).items() if value is not None}
        stamped = [stamp(draft, self.seconds, self.random) for draft in decided.drafts]
        record = evolve(before, **given)
        if stamped:
            record = evolve(record, last_seq=before.last_seq + len(stamped), active_at=stamped[-1].at / 1000)
        answer = None if key is None else key.answer(record)
        self.records[session_id] = record
        if key is not None and answer is not None:
            until = self.seconds() + limits.IDEMPOTENCY_KEY_SECONDS
            self.keys[key.member, key.method, key.key] = key.digest, answer, until
        events = self._keep(before, stamped)
        if events:
            self._tell(Commit(session_id, events, record))
        return Outcome(record, events, answer)

    def _answered(self, key: tuple[str, str, str], digest: str) -> bytes | None:
        known, answer, until = self.keys.get(key, ("", b"", 0.0))
        if until <= self.seconds():
            return None
        if known != digest:
            raise ApiError(Code.IDEMPOTENCY_CONFLICT, "Use another key.", field="idempotencyKey")
        return answer

    def _trim(self, keep: int, before: float | None, limit: int) -> Mapping[str, int] | None:
        self.keys = {key: kept for key, kept in self.keys.items() if kept[2] > self.seconds()}
        moved: dict[str, int] = {}
        for session_id, log in self.log.items():
            record = self.records[session_id]
            while log and limit > 0 and (log[0].seq <= record.last_seq - keep or _older(log[0], before)):
                moved[session_id] = max(record.first_seq, log.pop(0).seq + 1)
                limit -= 1
        for session_id, first_seq in moved.items():
            self.records[session_id] = evolve(self.records[session_id], first_seq=first_seq)
        return moved or None

    def _record(self, session_id: str) -> Record:
        record = self.records.get(session_id)
        if record is None:
            raise ApiError(Code.SESSION_NOT_FOUND, "There is no such session.")
        return record

    def _write(self, record: Record, drafts: Sequence[Draft], whole: bool) -> Sequence[Event]:
        stamped = [stamp(draft, self.seconds, self.random) for draft in drafts]
        events = self._keep(record, stamped)
        after = evolve(record, last_seq=events[-1].seq, active_at=stamped[-1].at / 1000)
        self.records[record.id] = after
        self._tell(Commit(record.id, events, after if whole else None))
        return events

    def _keep(self, record: Record, stamped: Sequence[Stamped]) -> Sequence[Event]:
        events = [item.event(record.id, record.last_seq + place) for place, item in enumerate(stamped, 1)]
        self.log[record.id] += events
        return events

    def _tell(self, commit: Commit) -> None:
        if self._listener is not None:
            self._listener.committed(commit)

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


def _older(event: Event, before: float | None) -> bool:
    return before is not None and datetime.fromisoformat(event.created_at).timestamp() < before
