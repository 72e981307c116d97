"""Those who wait."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.session.tally import Tally
from computerd.session.waiting import MAX_WAITING, Waiting


class WaitingTests(SynchronousTestCase):
    """Woken, timed out, cancelled, refused."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.tally = Tally()
        self.waiting = Waiting(self.clock, self.tally)

    def wait(self, session: str = "s", member: str = "m", seconds: float = 60) -> Deferred[bool]:
        """Begins to wait."""
        return Deferred.fromCoroutine(self.waiting.wait(session, member, seconds))

    def test_news(self) -> None:
        first, second, other = self.wait(), self.wait(), self.wait("t")
        self.waiting.wake("s")
        self.assertEqual([self.successResultOf(first), self.successResultOf(second)], [True, True])
        self.assertNoResult(other)
        self.clock.advance(60)
        self.assertFalse(self.successResultOf(other))

    def test_time_is_up(self) -> None:
        wait = self.wait(seconds=3)
        self.clock.advance(2.9)
        self.assertNoResult(wait)
        self.clock.advance(0.1)
        self.assertFalse(self.successResultOf(wait))
        self.waiting.wake("s")

    def test_who_goes_away_leaves_nothing(self) -> None:
        for _ in range(3 * MAX_WAITING):
            wait = self.wait()
            self.assertEqual(self.tally.waiting, 1)
            wait.cancel()
            self.failureResultOf(wait, CancelledError)
        self.settled()

    def settled(self) -> None:
        """Nothing is kept of anybody."""
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual((self.tally.waiting, self.waiting._waits, self.waiting._members), (0, {}, {}))

    def test_what_everybody_waits_for_may_never_come(self) -> None:
        waits = [self.wait(), self.wait(), self.wait("t", "n")]
        self.waiting.wake_all()
        self.assertEqual([self.successResultOf(wait) for wait in waits], [True] * 3)
        self.settled()

    def test_one_who_wakes_another_wakes_nobody_twice(self) -> None:
        first, second = self.wait(), self.wait()
        woken: list[object] = []
        first.addCallback(lambda _: second.cancel()).addBoth(woken.append)
        second.addCallback(lambda _: first.cancel()).addBoth(woken.append)
        self.waiting.wake("s")
        self.assertEqual(len(woken), 2)
        self.settled()

    def test_a_member_waits_only_so_often(self) -> None:
        waits = [self.wait() for _ in range(MAX_WAITING)]
        error = self.failureResultOf(self.wait(), ApiError).value
        assert isinstance(error, ApiError)
        self.assertEqual((error.code, error.retry_after_ms), (Code.RATE_LIMITED, 1000))
        self.assertEqual((self.tally.refused, self.tally.waiting), (1, MAX_WAITING))
        other = self.wait(member="n")
        self.assertNoResult(other)
        self.waiting.wake("s")
        for wait in (*waits, other, self.wait(seconds=0)):
            self.clock.advance(0)
            self.successResultOf(wait)

    def test_who_waits_again_when_woken_waits_on(self) -> None:
        again: list[Deferred[bool]] = []
        wait = self.wait()
        wait.addCallback(lambda _: again.append(self.wait()))
        self.waiting.wake("s")
        self.successResultOf(wait)
        self.assertNoResult(again[0])
        self.waiting.wake("s")
        self.successResultOf(again[0])
