"""What waits for the journal's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.journal.backlog import MAX_BYTES, MAX_JOBS, Answer, Backlog, Job


class ClockReactor:
    """A reactor whose time stands still; calls from threads are made at once."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def callFromThread(self, function: Callable[..., Any], /, *args: object) -> None:
        function(*args)

    def callLater(self, delay: float, function: Callable[..., Any], /, *args: object) -> IDelayedCall:
        return self.clock.callLater(delay, function, *args)

    def seconds(self) -> float:
        return float(self.clock.seconds())


class BacklogTests(SynchronousTestCase):
    """Bounds, stalls, and what comes late."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.put: list[Job[Any]] = []
        self.backlog = Backlog(ClockReactor(self.clock), self.put.append)
        self.backlog.open()
        self.late: list[str] = []

    def job(self, **how: Any) -> Job[str]:
        """Something to do."""
        return Job(lambda connection: "done", True, late=self.late.append, **how)

    def submit(self, **how: Any) -> Deferred[str]:
        """Submits it."""
        return self.backlog.submit(self.job(**how))

    def refused(self, done: Deferred[str]) -> str:
        """The message of the refusal."""
        error = self.failureResultOf(done, ApiError).value
        assert isinstance(error, ApiError)
        self.assertEqual(error.code, Code.UNAVAILABLE)
        self.assertIsNotNone(error.retry_after_ms)
        return error.message

    def answer(self, *jobs: Job[Any], **outcome: Any) -> None:
        """What the thread answers."""
        self.backlog.deliver([Answer(job, "done", **outcome) for job in jobs])

    def test_a_result(self) -> None:
        done = self.submit()
        self.assertNoResult(done)
        self.answer(self.put[0])
        self.assertEqual(self.successResultOf(done), "done")
        self.assertEqual(self.late, [])

    def test_an_error(self) -> None:
        done = self.submit()
        self.answer(self.put[0], error=KeyError("x"))
        self.failureResultOf(done, KeyError)

    def test_closed(self) -> None:
        self.backlog.close()
        self.refused(self.submit())
        self.refused(self.submit(patient=True))
        self.assertEqual(self.put, [])

    def test_too_many(self) -> None:
        waiting = [self.submit() for _ in range(MAX_JOBS)]
        self.refused(self.submit())
        patient = self.submit(patient=True)
        self.assertNoResult(patient)
        self.answer(*self.put[:2])
        waiting.append(self.submit())
        self.assertNoResult(waiting[-1])
        self.refused(self.submit())
        self.backlog.abandon("closed")
        for done in (*waiting[2:], patient):
            self.refused(done)

    def test_too_large(self) -> None:
        self.assertNoResult(self.submit(size=MAX_BYTES - 10))
        self.refused(self.submit(size=11))
        self.assertNoResult(self.submit(size=10))
        self.answer(*self.put)
        self.assertNoResult(self.submit(size=MAX_BYTES))

    def test_a_stall(self) -> None:
        first, patient = self.submit(), self.submit(patient=True)
        self.clock.advance(3)
        second = self.submit()
        self.clock.advance(2)
        self.refused(first)
        self.assertTrue(self.backlog.stalled)
        # who came later has a while yet, who comes now has not
        self.assertNoResult(second)
        self.refused(self.submit())
        self.clock.advance(3)
        self.refused(second)
        self.clock.advance(100)
        self.assertNoResult(patient)
        self.assertEqual([job.expired for job in self.put], [True, False, True])

    def test_it_recovers_by_itself(self) -> None:
        """And says both, once each."""
        first, second = self.submit(), self.submit()
        with capturedLogs() as logged:
            self.clock.advance(5)
            self.refused(first)
            self.refused(second)
            self.answer(*self.put)
        self.assertFalse(self.backlog.stalled)
        self.assertEqual([record["log_level"].name for record in logged], ["critical", "warn"])
        done = self.submit()
        self.answer(self.put[2])
        self.successResultOf(done)

    def test_what_was_carried_out_late_is_told(self) -> None:
        done = self.submit()
        self.clock.advance(5)
        self.refused(done)
        self.answer(self.put[0])
        self.assertEqual(self.late, ["done"])

    def test_what_was_not_carried_out_is_not(self) -> None:
        for outcome in ({"dropped": True}, {"error": KeyError("x")}):
            done = self.submit()
            self.clock.advance(5)
            self.refused(done)
            self.answer(self.put[-1], **outcome)
        self.assertEqual(self.late, [])

    def test_who_goes_away(self) -> None:
        done = self.submit()
        done.cancel()
        self.failureResultOf(done, CancelledError)
        self.assertTrue(self.put[0].expired)
        self.answer(self.put[0])
        self.assertEqual(self.late, ["done"])
        self.assertFalse(self.backlog.stalled)

    def test_who_goes_away_from_patient_work(self) -> None:
        done = self.submit(patient=True)
        done.cancel()
        self.failureResultOf(done, CancelledError)
        self.assertFalse(self.put[0].expired)
        self.answer(self.put[0])
        self.assertEqual(self.late, [])

    def test_it_is_counted(self) -> None:
        """What was written, also late, and how long it took; not what was refused or dropped."""
        tally = self.backlog.tally
        waiting = [self.submit() for _ in range(4)]
        self.assertEqual(tally.waiting, 4)
        self.clock.advance(0.2)
        self.answer(self.put[0])
        self.answer(self.put[1], error=ZeroDivisionError())
        self.clock.advance(5)
        self.answer(self.put[2], dropped=True)
        self.answer(self.put[3])
        self.assertEqual((tally.waiting, sum(tally.commits.counts)), (0, 2))
        self.assertAlmostEqual(tally.commits.total, 5.4)
        self.failureResultOf(waiting[1], ZeroDivisionError)
        for done in waiting[2:]:
            self.refused(done)

    def test_many_quick_answers_cost_one_timer(self) -> None:
        for _ in range(100):
            self.submit()
            self.answer(self.put[-1])
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.clock.advance(5)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_abandon(self) -> None:
        waits = [self.submit(), self.submit(patient=True)]
        self.backlog.abandon("The end.")
        self.assertEqual([self.refused(done) for done in waits], ["The end.", "The end."])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        # an answer that comes after all is for nobody
        self.answer(*self.put)
