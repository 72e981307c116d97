"""What downloads share."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from computerd.host.room import RESERVE_BYTES, SMALL_BYTES, Reserve
from computerd.host.worker.frames import WINDOW
from tests.host.taken import Taken
from tests.host.worker_bench import PACKED, PLACE, BenchCase

PIECE = b"x" * 65536


def _nothing() -> None:
    pass


class ReserveTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.freed = 0
        self.granted: list[str] = []
        self.reserve = Reserve(self._freed)

    def _freed(self) -> None:
        self.freed += 1

    def test_first_come_first_served(self) -> None:
        first = self.reserve.take(RESERVE_BYTES, lambda: self.granted.append("first"))
        large = self.reserve.take(10, lambda: self.granted.append("large"))
        self.reserve.take(1, lambda: self.granted.append("small"))
        self.assertEqual(["first"], self.granted)
        self.assertFalse(self.reserve.has(1))
        self.assertTrue(self.reserve.has(0))
        first.give_back(5)
        self.assertEqual(["first"], self.granted, "the small one waits for its turn")
        large.give_back()
        self.assertEqual(["first", "small"], self.granted)
        first.give_back()
        self.assertEqual((RESERVE_BYTES - 1, 3), (self.reserve.left, self.freed))

    def test_scarcity(self) -> None:
        self.assertFalse(self.reserve.scarce)
        shares = [self.reserve.take(WINDOW, _nothing) for _ in range(3)]
        self.assertTrue(self.reserve.scarce)
        for share in shares:
            share.give_back(WINDOW - SMALL_BYTES)
        self.assertFalse(self.reserve.scarce)


class YieldingTests(BenchCase):
    """Slow readers leave room to others."""

    def test_a_dozen_slow_ones_at_once(self) -> None:
        began: list[tuple[int, Taken]] = []
        for _ in range(12):
            number, packed = self.packed()
            began.append((number, Taken()))
            packed.source.start(began[-1][1])
            for one, _ in began:  # each is slow, but none stands still
                for _ in range(3):
                    self.end.say(one, b"D", PIECE)
        (worker,) = self.workers._current.values()
        self.assertLess(worker._reserve.left, WINDOW + SMALL_BYTES)
        self.end.heard()
        for number, taken in began:  # they go on, in smaller steps
            before = len(taken.text)
            for _ in range(9):
                self.end.say(number, b"D", PIECE)
            self.end.say(number, b"E", PACKED)
            self.assertEqual((before + 9 * 65536, [None]), (len(taken.text), taken.ends))
        self.assertEqual((RESERVE_BYTES, 0), (worker._reserve.left, self.end.killed))

    def test_one_that_has_given_room_back_may_send_less(self) -> None:
        """I9."""
        for _ in range(3):
            self.packed()
        number, packed = self.packed()
        taken = Taken(full_after=4 * 65536)
        packed.source.start(taken)
        for _ in range(4):
            self.end.say(number, b"D", PIECE)
        self.assertEqual(
            [(number, b"W", (65536).to_bytes(4, "big"))], [one for one in self.end.heard() if one[1] == b"W"]
        )
        self.end.say(number, b"D", PIECE)
        self.assertEqual(0, self.end.killed)
        self.end.say(number, b"D", b"a")
        self.assertEqual((1, PLACE.session_id), (self.end.killed, self.employer.starts[0].session_id))
