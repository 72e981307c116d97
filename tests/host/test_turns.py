"""One piece of work a turn."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.host.turns import Turns


class _Turning(Clock):
    """A clock that does in one turn only what was due at its beginning, as the reactor."""

    def turn(self) -> None:
        due = [call for call in self.calls if call.getTime() <= self.seconds()]
        self.calls = [call for call in self.calls if call not in due]
        for call in due:
            call.called = 1
            call.func(*call.args, **call.kw)


class TurnsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = _Turning()
        self.turns = Turns(self.clock)
        self.done: list[int] = []

    def work(self, number: int) -> Callable[[], Deferred[int]]:
        def do() -> Deferred[int]:
            self.done.append(number)
            return succeed(number)

        return do

    def test_the_first_at_once_and_the_others_one_a_turn(self) -> None:
        results = [self.turns.take(self.work(number)) for number in range(4)]
        for turn in range(4):
            self.assertEqual(self.done, list(range(turn + 1)))
            self.clock.turn()
        self.assertEqual([self.successResultOf(result) for result in results], [0, 1, 2, 3])
        self.clock.turn()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.turns.take(self.work(9))
        self.assertEqual(self.done[-1], 9)

    def test_cancelled_before_its_turn(self) -> None:
        self.turns.take(self.work(0))
        gone, kept = self.turns.take(self.work(1)), self.turns.take(self.work(2))
        gone.cancel()
        self.failureResultOf(gone, CancelledError)
        self.clock.turn()
        self.assertEqual(self.successResultOf(kept), 2)
        self.assertEqual(self.done, [0, 2])

    def test_an_end(self) -> None:
        results = [self.turns.take(self.work(number)) for number in range(3)]
        self.turns.end()
        self.assertEqual([self.successResultOf(result) for result in results], [0, 1, 2])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_work_that_fails(self) -> None:
        def broken() -> Deferred[int]:
            raise ZeroDivisionError

        self.failureResultOf(self.turns.take(broken), ZeroDivisionError)
        self.clock.turn()
        self.failureResultOf(self.turns.take(broken), ZeroDivisionError)
