"""When something happened in each session last."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.session.idleness import Idleness


class IdlenessTests(SynchronousTestCase):
    """`Idleness`."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.idleness = Idleness(self.clock, watched=True)

    def test_the_quietest_first_and_once(self) -> None:
        for session in ("a", "b", "c"):
            self.idleness.touch(session)
            self.clock.advance(1)
        self.idleness.touch("a")
        self.clock.advance(9)
        self.assertEqual(self.idleness.quiet(10, 1), ["b"])
        self.assertEqual(self.idleness.quiet(10, 9), ["c"])
        self.assertEqual(self.idleness.quiet(10, 9), [])
        self.clock.advance(1)
        self.assertEqual(self.idleness.quiet(10, 9), ["a"])
        self.clock.advance(100)
        self.assertEqual(self.idleness.quiet(10, 9), [])

    def test_exactly_so_long(self) -> None:
        self.idleness.touch("a")
        self.clock.advance(9.999)
        self.assertEqual(self.idleness.quiet(10, 9), [])
        self.clock.advance(0.001)
        self.assertEqual(self.idleness.quiet(10, 9), ["a"])

    def test_found_counts_from_now_but_moves_nothing(self) -> None:
        self.idleness.touch("a")
        self.clock.advance(5)
        self.idleness.found(["a", "b"])
        self.clock.advance(5)
        self.assertEqual(self.idleness.quiet(10, 9), ["a"])
        self.clock.advance(5)
        self.assertEqual(self.idleness.quiet(10, 9), ["b"])

    def test_nothing_is_kept_when_nobody_asks(self) -> None:
        self.idleness.watched = False
        self.idleness.touch("a")
        self.idleness.found(["b"])
        self.assertEqual(len(self.idleness._since), 0)
