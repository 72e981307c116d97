"""Work that is done again and again."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.session.rounds import Rounds


class RoundsTests(SynchronousTestCase):
    """Every ten seconds, the first time after three."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.works: list[Deferred[None]] = []
        self.cancelled: list[int] = []
        self.rounds = Rounds(self.clock, self.work, "it did not work")
        self.rounds.start(3, 10)

    async def work(self) -> None:
        """One round, which a test ends."""
        number = len(self.works)
        self.works.append(Deferred(lambda _: self.cancelled.append(number)))
        await self.works[-1]

    def test_the_pause_begins_with_the_end(self) -> None:
        self.clock.advance(2)
        self.assertEqual(self.works, [])
        self.clock.advance(1)
        self.clock.advance(100)
        self.assertEqual(len(self.works), 1)
        self.works[0].callback(None)
        self.clock.advance(9)
        self.assertEqual(len(self.works), 1)
        self.clock.advance(1)
        self.assertEqual(len(self.works), 2)

    def test_a_round_that_fails(self) -> None:
        self.clock.advance(3)
        self.works[0].errback(ValueError("no"))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.clock.advance(10)
        self.assertEqual(len(self.works), 2)

    def test_stop_between_two(self) -> None:
        self.rounds.stop()
        self.assertEqual((self.clock.getDelayedCalls(), self.works), ([], []))
        self.rounds.stop()

    def test_stop_in_the_middle_of_one(self) -> None:
        self.clock.advance(3)
        self.rounds.stop()
        self.assertEqual((self.cancelled, self.clock.getDelayedCalls()), ([0], []))
        self.assertEqual(self.flushLoggedErrors(), [])
