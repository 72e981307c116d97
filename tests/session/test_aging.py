"""The clock of those who remove what is too old."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.session.aging import Aging

DAY = 86_400.0


class AgingTests(SynchronousTestCase):
    """L5. Two clocks, which a test sets."""

    def setUp(self) -> None:
        self.wall, self.monotonic = 1_800_000_000.0, 500.0
        self.aging = Aging(lambda: self.wall, lambda: self.monotonic)

    def test_time_passes(self) -> None:
        self.wall += 2 * DAY
        self.monotonic += 2 * DAY
        self.assertEqual(self.aging.now(), 1_800_000_000.0 + 2 * DAY)

    def test_a_step_forward_is_not_time(self) -> None:
        self.wall += 1000 * DAY
        self.monotonic += DAY
        self.assertEqual(self.aging.now(), 1_800_000_000.0 + DAY)

    def test_after_a_step_back_it_is_as_early_as_the_clock_says(self) -> None:
        self.wall -= DAY
        self.assertEqual(self.aging.now(), 1_800_000_000.0 - DAY)

    @given(st.lists(st.tuples(st.integers(-100, 100), st.integers(0, 100))))
    def test_never_later_than_either_clock(self, steps: list[tuple[int, int]]) -> None:
        self.setUp()
        for wall, monotonic in steps:
            self.wall += wall
            self.monotonic += monotonic
            self.assertLessEqual(self.aging.now(), self.wall)
            self.assertLessEqual(self.aging.now(), 1_800_000_000.0 + self.monotonic - 500.0)
