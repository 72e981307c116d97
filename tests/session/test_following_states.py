"""Following, whatever happens when: a machine that tries interleavings of commits, pages, full connections, acknowledgements and detaches."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.api.attachments import Attachments
from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.session import feed, follower
from computerd.session.allowance import ACK_SECONDS
from computerd.session.feed import message
from computerd.session.follower import Follower, State
from computerd.session.sessions import Sessions
from tests.session.fake_journal import seeded
from tests.session.journal_interface import NOW, a_record, beginning, opened, session_id
from tests.session.readers import Reader, SlowJournal

MAX_EVENTS = 20
MAX_BYTES = 9000
PAGE = 4
TAIL_BYTES = 1200
GIVE_BYTES = 700
NUMBERS = st.sampled_from((1, 2))


@define(eq=False)
class Model:
    """What one attached session must have given.

    Attributes:
        follower: What does it.
        after: The event after which it wants all.
        floor: The newest event when it was attached.
        begun: How many of the reader's events of this session came before this attach.
        acked: The last event that was acknowledged.
        silent_since: When that was, or the attach.
    """

    follower: Follower
    after: int
    floor: int
    begun: int
    acked: int
    silent_since: float


@define(eq=False)
class Bench:
    """Two sessions and a connection."""

    clock: Clock = field(factory=Clock)
    journal: SlowJournal = field(factory=lambda: SlowJournal(seconds=lambda: NOW))
    reader: Reader = field(factory=Reader)
    attachments: Attachments = field(factory=Attachments)
    models: dict[int, Model] = field(factory=dict)
    sessions: Sessions = field(init=False)
    sizes: dict[int, list[int]] = field(factory=lambda: {1: [0], 2: [0]})

    @sessions.default
    def _make(self) -> Sessions:
        return Sessions(self.journal, lambda: NOW, seeded(), self.clock)

    def last(self, number: int) -> int:
        """The newest event."""
        return self.journal.records[session_id(number)].last_seq

    def bytes_after(self, number: int, seq: int) -> int:
        """Of the messages of all events that follow."""
        return sum(self.sizes[number][seq + 1 :])

    def weigh(self, number: int) -> None:
        """Remembers how large the new events are."""
        for event in self.journal.log[session_id(number)]:
            if event.seq == len(self.sizes[number]):
                self.sizes[number].append(len(message(event)))


class Following(RuleBasedStateMachine):
    """The machine."""

    @initialize()
    def begin(self) -> None:
        """Two sessions with a short history."""
        self.bench = Bench()
        for number in (1, 2):
            record = a_record(number)
            self.bench.journal.create(record, beginning(record))
            self.bench.weigh(number)
        self.bench.journal.slow = True

    @rule(number=NUMBERS, count=st.integers(1, 6), length=st.sampled_from((0, 0, 0, 100, 1000)))
    def commit(self, number: int, count: int, length: int) -> None:
        """Something happens."""
        drafts = [opened(1, "x" * length) for _ in range(count)]
        done = self.bench.journal.append(session_id(number), drafts)
        assert done.called
        self.bench.weigh(number)
        model = self.bench.models.get(number)
        if model is not None:
            self._ends(number, model)

    @rule(number=NUMBERS, back=st.integers(0, 60))
    def attach(self, number: int, back: int) -> None:
        """The client wants a session, for the first time or again."""
        bench = self.bench
        record = bench.journal.records[session_id(number)]
        after = max(0, record.last_seq - back)
        begun = len(bench.reader.seqs(record.id))
        told = len(bench.reader.detached)

        def gone() -> None:
            bench.attachments.gone(record.id, made)

        made = bench.sessions.follow(record, after, bench.reader, gone)
        bench.attachments.put(record.id, made, read_only=False)
        assert len(bench.reader.detached) == told, "an attach that is replaced is not said to be detached"
        bench.models[number] = Model(made, after, record.last_seq, begun, after, bench.clock.seconds())

    @precondition(lambda self: self.bench.models)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """The attach has been answered."""
        number = data.draw(st.sampled_from(sorted(self.bench.models)))
        self.bench.models[number].follower.start()
        self._settle()

    @precondition(lambda self: self.bench.journal.pages)
    @rule()
    def look(self) -> None:
        """The journal reads a page, and tells it later."""
        self.bench.journal.look()

    @precondition(lambda self: self.bench.journal.pages)
    @rule()
    def turn(self) -> None:
        """A page comes."""
        self.bench.journal.turn()
        self._settle()

    @precondition(lambda self: self.bench.journal.pages)
    @rule()
    def fail(self) -> None:
        """A page can't be read."""
        told = len(self.bench.reader.detached)
        self.bench.journal.fail(ApiError(Code.UNAVAILABLE, "no"))
        (said,) = self.bench.reader.detached[told:]
        assert said.reason == "unavailable"
        number = 1 if said.session_id == session_id(1) else 2
        self.bench.models.pop(number)

    @rule(room=st.integers(1, 3))
    def room(self, room: int) -> None:
        """The client reads some."""
        self.bench.reader.make_room(room)
        self._settle()

    @rule()
    def freeze(self) -> None:
        """The client reads no more: the next message fills the connection."""
        self.bench.reader.room = min(self.bench.reader.room, 1)

    @rule(number=NUMBERS, share=st.floats(0, 1.2))
    def ack(self, number: int, share: float) -> None:
        """The client acknowledges some of what it has, or nonsense."""
        bench = self.bench
        model = bench.models.get(number)
        if model is None:
            bench.attachments.ack(session_id(number), 7)
            return
        got = bench.reader.seqs(session_id(number))[model.begun :]
        newest = got[-1] if got else model.after
        seq = round(model.acked + (newest - model.acked) * share)
        if model.acked < seq <= newest:
            model.acked = seq
            model.silent_since = bench.clock.seconds()
        bench.attachments.ack(session_id(number), seq)
        self._settle()

    @rule(number=NUMBERS)
    def detach(self, number: int) -> None:
        """The client does not want it any longer."""
        bench = self.bench
        told = len(bench.reader.detached)
        model = bench.models.pop(number, None)
        bench.attachments.detach(session_id(number))
        assert len(bench.reader.detached) == told
        if model is not None:
            assert model.follower not in bench.reader.waiting

    @rule(number=NUMBERS, keep=st.integers(0, 30))
    def trim(self, number: int, keep: int) -> None:
        """Old events are removed, of both sessions."""
        moved: list[Any] = []
        self.bench.journal.trim(keep=keep, before=None, limit=1000).addCallback(moved.append)
        if moved[0] is not None:
            self.bench.sessions.trimmed(moved[0])

    @rule(seconds=st.sampled_from((1.0, ACK_SECONDS)))
    def wait(self, seconds: float) -> None:
        """Time goes by."""
        self.bench.clock.advance(seconds)
        for number, model in list(self.bench.models.items()):
            self._ends(number, model, waited=True)

    def _settle(self) -> None:
        for number, model in list(self.bench.models.items()):
            self._ends(number, model)

    def _ends(self, number: int, model: Model, *, waited: bool = False) -> None:
        """A session is detached when it has to be, and at no other time."""
        bench = self.bench
        if model.follower.state is not State.ENDED:
            return
        del bench.models[number]
        said = bench.reader.detached[-1]
        assert (said.session_id, said.reason) == (session_id(number), "too_far_behind")
        got = bench.reader.seqs(session_id(number))[model.begun :]
        last, since = bench.last(number), max(model.acked, model.floor)
        first = bench.journal.records[session_id(number)].first_seq
        follows = got[-1] if got else model.after
        behind = last - model.acked > MAX_EVENTS or bench.bytes_after(number, model.acked) > MAX_BYTES
        new_behind = last - since > MAX_EVENTS or bench.bytes_after(number, since) > MAX_BYTES
        removed = follows + 1 < first
        silent = (
            waited
            and bench.clock.seconds() - model.silent_since >= ACK_SECONDS
            and (
                follows - model.acked >= MAX_EVENTS
                or sum(bench.sizes[number][model.acked + 1 : follows + 1]) > MAX_BYTES / 2
            )
        )
        assert removed or silent or new_behind or (behind and follows >= model.floor), (
            "too far behind without being it",
            number,
            model,
            got,
        )

    @invariant()
    def _what_came(self) -> None:
        if not hasattr(self, "bench"):
            return
        for number, model in self.bench.models.items():
            got = self.bench.reader.seqs(session_id(number))[model.begun :]
            if got:
                first = self.bench.journal.records[session_id(number)].first_seq
                assert got == list(range(got[0], got[0] + len(got))), got
                assert got[0] == model.after + 1 or model.after + 1 < got[0] <= first, (got, model.after, first)
                assert got[-1] <= self.bench.last(number)

    @invariant()
    def _not_too_far(self) -> None:
        if not hasattr(self, "bench"):
            return
        for number, model in self.bench.models.items():
            since = max(model.acked, model.floor)
            assert self.bench.last(number) - since <= MAX_EVENTS
            assert self.bench.bytes_after(number, since) <= MAX_BYTES
            kept = model.follower
            if kept._allowance._live_since is None:
                assert kept.sent - kept.acked < MAX_EVENTS + 10
                assert kept._allowance._page_bytes < MAX_BYTES + TAIL_BYTES + 1500

    @invariant()
    def _what_is_kept(self) -> None:
        if not hasattr(self, "bench"):
            return
        bench = self.bench
        followed = {session_id(number) for number in bench.models}
        assert set(bench.sessions._feeds.by_session) == followed
        assert len(bench.attachments) == bench.sessions.tally.attached == len(followed)
        assert len(bench.journal.pages) <= len(followed)
        for model in bench.models.values():
            kept = model.follower
            assert len(kept._page) <= PAGE
            assert kept.feed._tail_bytes == sum(map(len, kept.feed._tail)) <= TAIL_BYTES
            assert len(kept.feed._sums) <= 2 * MAX_EVENTS + 1
            assert kept._allowance._page_bytes == sum(size for _, size in kept._allowance._pages)
            assert (kept._timer is not None) == (kept.state is State.FULL)
        assert max(bench.reader.sizes, default=0) < GIVE_BYTES + 1300
        assert len(bench.clock.getDelayedCalls()) <= len(followed)

    def teardown(self) -> None:
        """Once the client reads and acknowledges again, all comes that is there."""
        if not hasattr(self, "bench"):
            return
        bench = self.bench
        for model in bench.models.values():
            model.follower.start()
        for _ in range(1000):
            if not bench.models:
                break
            bench.reader.make_room()
            self._settle()
            for number, model in bench.models.items():
                bench.attachments.ack(session_id(number), model.follower.sent)
            while bench.journal.pages:
                bench.journal.turn()
            for number, model in list(bench.models.items()):
                got = bench.reader.seqs(session_id(number))[model.begun :]
                model.acked = max(model.acked, model.follower.acked)
                self._ends(number, model)
            if all(model.follower.state is State.LIVE for model in bench.models.values()):
                break
        for number, model in bench.models.items():
            got = bench.reader.seqs(session_id(number))[model.begun :]
            assert model.follower.state is State.LIVE
            assert (
                got[-1] if got else max(model.after, bench.journal.records[session_id(number)].first_seq - 1)
            ) == bench.last(number)
        bench.attachments.close()
        assert bench.sessions._feeds.by_session == {}
        assert bench.clock.getDelayedCalls() == []
        assert bench.sessions.tally.attached == 0


class FollowingStateTests(SynchronousTestCase):
    """BR-105."""

    def test_any_order(self) -> None:
        self.patch(limits, "MAX_BACKLOG_EVENTS", MAX_EVENTS)
        self.patch(limits, "MAX_BACKLOG_BYTES", MAX_BYTES)
        self.patch(follower, "PAGE_EVENTS", PAGE)
        self.patch(follower, "GIVE_BYTES", GIVE_BYTES)
        self.patch(feed, "TAIL_BYTES", TAIL_BYTES)
        run_state_machine_as_test(
            Following,
            settings=settings(
                max_examples=150,
                stateful_step_count=60,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
