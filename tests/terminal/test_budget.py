"""The token bucket."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.terminal.budget import Budget

STEPS = st.lists(st.tuples(st.floats(0, 3), st.integers(0, 1500)), max_size=60)


class BudgetTests(SynchronousTestCase):
    """`Budget`."""

    def test_a_burst_passes_at_once(self) -> None:
        budget = Budget(100, 100, Clock().seconds)
        self.assertTrue(all(budget.take(1) for _ in range(100)))
        self.assertFalse(budget.take(1))

    def test_it_fills_with_time_up_to_the_burst(self) -> None:
        clock = Clock()
        budget = Budget(100, 100, clock.seconds)
        budget.take(100)
        clock.advance(0.5)
        self.assertTrue(budget.take(50))
        self.assertFalse(budget.take(1))
        clock.advance(1000)
        self.assertTrue(budget.take(100))
        self.assertFalse(budget.take(1))

    def test_a_refusal_takes_nothing(self) -> None:
        budget = Budget(10, 10, Clock().seconds)
        self.assertFalse(budget.take(11))
        self.assertTrue(budget.take(10))

    def test_the_wait_is_long_enough(self) -> None:
        clock = Clock()
        budget = Budget(10, 10, clock.seconds)
        budget.take(10)
        self.assertEqual(budget.wait_ms(1), 100)
        clock.advance(budget.wait_ms(1) / 1000)
        self.assertTrue(budget.take(1))

    def test_a_clock_that_steps_back_takes_nothing_away(self) -> None:
        now = [1000.0]
        budget = Budget(10, 10, lambda: now[0])
        budget.take(5)
        now[0] = 0.0
        self.assertTrue(budget.take(5))

    @given(STEPS)
    def test_never_more_than_burst_and_rate(self, steps: list[tuple[float, int]]) -> None:
        clock = Clock()
        budget = Budget(1000, 1000, clock.seconds)
        taken = 0
        for wait, units in steps:
            clock.advance(wait)
            if budget.take(units):
                taken += units
            self.assertLessEqual(taken, 1000 + 1000 * clock.seconds() + 1e-6)
