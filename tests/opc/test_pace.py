from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.opc.pace import BURST, MARK_EVERY, RATE, WINDOW, Pace

MIB = limits.MIB


class Server:
    """Counts input as the daemon does: 1 MiB/s, burst 1 MiB."""

    def __init__(self) -> None:
        self.level = float(MIB)
        self.time = 0.0

    def take(self, count: int, now: float) -> bool:
        self.level = min(float(MIB), self.level + (now - self.time) * MIB)
        self.time = now
        self.level -= count
        return self.level >= 0


class PaceTests(SynchronousTestCase):
    def test_the_first_burst(self) -> None:
        pace = Pace(0.0)
        self.assertEqual(pace.room(0.0), BURST)
        pace.sent(BURST)
        self.assertEqual(pace.room(0.0), 0)

    def test_unconfirmed_input_stops_it(self) -> None:
        pace = Pace(0.0)
        pace.sent(WINDOW)
        pace.mark()
        self.assertEqual(pace.room(100.0), 0)
        self.assertIsNone(pace.wait(100.0, 1))
        pace.confirmed()
        self.assertEqual(pace.room(100.0), BURST)

    def test_it_says_how_long_to_wait(self) -> None:
        pace = Pace(0.0)
        pace.sent(BURST)
        pace.mark()
        pace.confirmed()
        wait = pace.wait(0.0, 16384)
        assert wait is not None
        self.assertAlmostEqual(wait, 16384 / RATE)
        self.assertGreaterEqual(pace.room(wait + 1e-9), 16384)

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 3), st.integers(1, BURST)), max_size=200))
    def test_the_daemon_never_drops(self, steps: list[tuple[float, float, int]]) -> None:
        """However long each frame is under way, and each confirmation back."""
        pace, server = Pace(0.0), Server()
        now = arrival = 0.0
        answers: list[float] = []
        for pause, delay, want in steps:
            now += pause
            while answers and answers[0] <= now:
                answers.pop(0)
                pace.confirmed()
            count = min(want, pace.room(now))
            if count == 0:
                continue
            pace.sent(count)
            # a connection keeps the order
            arrival = max(arrival, now + delay)
            self.assertTrue(server.take(count, arrival))
            if pace.unmarked >= MARK_EVERY:
                pace.mark()
                answers.append(max(arrival + delay, answers[-1] if answers else 0.0))

    def test_the_whole_rate_is_used(self) -> None:
        pace, server, now, total = Pace(0.0), Server(), 0.0, 0
        while total < 20 * MIB:
            count = min(pace.room(now), 65532)
            if count < 16384:
                now += (pace.wait(now, 16384) or 0.0) + 1e-4
                continue
            self.assertTrue(server.take(count, now))
            pace.sent(count)
            total += count
            if pace.unmarked >= MARK_EVERY:
                pace.mark()
                pace.confirmed()
        self.assertLess(now, 20.5)
