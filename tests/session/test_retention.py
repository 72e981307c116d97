"""Old events go, and what is known says so."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field
from twisted.internet.defer import Deferred, fail

from computerd.contract.errors import ApiError, Code
from computerd.session.port import Excerpt
from computerd.session.retention import FIRST_SECONDS, PAUSE_SECONDS, PERIOD_SECONDS, STEP_ROWS, Retention
from tests.session.fake_journal import FakeJournal
from tests.session.journal_interface import opened
from tests.session.test_sessions import ID, SessionsCase

DAY = 86_400.0
UNAVAILABLE = ApiError(Code.UNAVAILABLE, "The disk is full.")


@define(eq=False)
class SteppingJournal(FakeJournal):
    """Removes three events at a time, and writes down what it was asked for.

    Attributes:
        asked: What was to be kept, and from when on.
        fails: What the next step fails with, although it is done.
    """

    asked: list[tuple[int, float | None, int]] = field(factory=list)
    fails: Exception | None = None

    def trim(self, *, keep: int, before: float | None, limit: int) -> Deferred[Mapping[str, int] | None]:
        """See `Journal`."""
        self.asked.append((keep, before, limit))
        done = super().trim(keep=keep, before=before, limit=3)
        if self.fails is None:
            return done
        error, self.fails = self.fails, None
        return fail(error)


class RetentionTests(SessionsCase):
    """`Retention`."""

    keep = 4
    days = 0.0

    def setUp(self) -> None:
        super().setUp()
        self.stepping = self.journal = SteppingJournal(seconds=lambda: self.now)
        self.sessions = self.anew()
        self.create(id=ID)
        self.retention = self.make()

    def make(self, keep: int = 4, days: float = 0.0) -> Retention:
        """One that was started."""
        made = Retention(self.sessions, self.clock, keep, days)
        made.start()
        return made

    def commit(self, count: int) -> None:
        """Something happens."""
        self.successResultOf(self.journal.append(ID, [opened()] * count))

    def first(self) -> tuple[int, int]:
        """Where the journal begins, for a client and in truth."""
        events = self.successResultOf(self.journal.events(ID, after=0, limit=1, types=None))
        assert isinstance(events, Excerpt)
        return self.get(self.sessions.get(ID)).epoch_start_seq, events.found[0].seq

    def sweep(self) -> None:
        """One look, with its pauses."""
        self.clock.advance(PERIOD_SECONDS)
        for _ in range(100):
            self.clock.advance(PAUSE_SECONDS)

    def test_step_by_step_with_pauses(self) -> None:
        self.commit(12)
        self.clock.advance(FIRST_SECONDS - 1)
        self.assertEqual(self.stepping.asked, [])
        self.clock.advance(1)
        for step in range(1, 4):
            self.assertEqual(self.first(), (1 + 3 * step, 1 + 3 * step))
            self.assertEqual(len(self.stepping.asked), step)
            self.clock.advance(PAUSE_SECONDS / 2)
            self.assertEqual(len(self.stepping.asked), step)
            self.clock.advance(PAUSE_SECONDS / 2)
        self.clock.advance(PAUSE_SECONDS)
        self.assertEqual(self.first(), (11, 11))
        self.assertEqual(set(self.stepping.asked), {(4, None, STEP_ROWS)})

    def test_again_and_again(self) -> None:
        self.sweep()
        for _ in range(3):
            self.commit(5)
            self.sweep()
            last = self.journal.records[ID].last_seq
            self.assertEqual(self.first(), (last - 3, last - 3))

    def test_what_is_kept_can_be_read(self) -> None:
        self.commit(12)
        self.sweep()
        page = self.get(self.sessions.events(ID, after=0, limit=100, types=None))
        self.assertEqual([event.seq for event in page.events], [11, 12, 13, 14])

    def test_by_age(self) -> None:
        self.retention.stop()
        self.make(1000, 2.0)
        self.commit(3)
        self.now += 1.5 * DAY
        self.clock.advance(1.5 * DAY)
        self.commit(2)
        self.now += 1.0 * DAY
        self.clock.advance(1.0 * DAY)
        self.sweep()
        self.assertEqual(self.first(), (6, 6))

    def test_a_wall_clock_that_is_set_forward_makes_nothing_old(self) -> None:
        """L5. A year in a moment: the daemon has been up for a day."""
        self.retention.stop()
        self.make(1000, 30.0)
        self.commit(3)
        self.now += 365 * DAY
        self.clock.advance(DAY)
        self.sweep()
        self.assertEqual(self.first(), (1, 1))

    def test_a_wall_clock_that_is_set_back_makes_nothing_old(self) -> None:
        self.retention.stop()
        self.make(1000, 30.0)
        self.now -= 365 * DAY
        self.clock.advance(365 * DAY)
        self.sweep()
        self.assertEqual(self.first(), (1, 1))

    def test_the_journal_takes_nothing_for_a_while(self) -> None:
        self.commit(12)
        self.journal.refusing = UNAVAILABLE
        self.sweep()
        self.sweep()
        self.journal.heal()
        self.assertEqual(self.first(), (1, 1))
        self.sweep()
        self.assertEqual(self.first(), (11, 11))
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_step_that_was_done_although_it_was_said_to_have_failed(self) -> None:
        """What a client is told is where the journal begins in truth."""
        self.commit(12)
        self.stepping.fails = UNAVAILABLE
        self.clock.advance(FIRST_SECONDS)
        self.assertEqual(self.first(), (4, 4))

    def test_a_fault_is_logged_and_does_not_end_it(self) -> None:
        self.commit(12)
        self.stepping.fails = ValueError("a fault of ours")
        self.clock.advance(FIRST_SECONDS)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.sweep()
        self.assertEqual(self.first(), (11, 11))

    def test_stop_leaves_nothing(self) -> None:
        self.retention.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.sweep()
        self.assertEqual(self.stepping.asked, [])

    def test_stop_in_a_pause(self) -> None:
        self.commit(12)
        self.clock.advance(FIRST_SECONDS)
        self.retention.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.sweep()
        self.assertEqual(len(self.stepping.asked), 1)
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_stop_while_the_journal_works(self) -> None:
        self.commit(12)
        self.journal.holding = True
        self.clock.advance(FIRST_SECONDS)
        self.retention.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.flushLoggedErrors(), [])
