"""Reads wait in a line of each member's own."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from computerd.session.lanes import AT_ONCE, Lanes


@define(eq=False)
class Reads:
    """A journal that answers when it is told to."""

    begun: list[Deferred[int]] = field(factory=list)

    async def read(self) -> int:
        """One read."""
        answer: Deferred[int] = Deferred()
        self.begun.append(answer)
        return await answer


class LanesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.lanes = Lanes()
        self.reads = Reads()

    def ask(self, member: str) -> Deferred[int]:
        """A read of a member."""
        return ensureDeferred(self.lanes.run(member, self.reads.read))

    def test_one_member_does_not_hold_up_the_others(self) -> None:
        for _ in range(1000):
            self.ask("mallory").addErrback(lambda _: None)
        self.assertEqual(len(self.reads.begun), AT_ONCE)
        alice = self.ask("alice")
        self.assertEqual(len(self.reads.begun), AT_ONCE + 1)
        self.reads.begun[-1].callback(7)
        self.assertEqual(self.successResultOf(alice), 7)

    def test_in_order(self) -> None:
        asked = [self.ask("alice") for _ in range(5)]
        for number in range(5):
            self.reads.begun[number].callback(number)
        self.assertEqual([self.successResultOf(one) for one in asked], list(range(5)))
        self.assertEqual(len(self.lanes), 0)

    def test_who_leaves_gives_up_the_place(self) -> None:
        asked = [self.ask("alice") for _ in range(AT_ONCE + 2)]
        asked[AT_ONCE].cancel()
        self.failureResultOf(asked[AT_ONCE], CancelledError)
        asked[0].cancel()
        self.failureResultOf(asked[0], CancelledError)
        self.assertEqual(len(self.reads.begun), AT_ONCE + 1)
        for answer in self.reads.begun[1:]:
            answer.callback(1)
        self.assertEqual(self.successResultOf(asked[-1]), 1)
        self.assertEqual(len(self.lanes), 0)

    def test_thousands_are_refused_at_once(self) -> None:
        """As when the disk does not answer: each refusal lets the next go, and none of them stands on the other."""

        async def refuse() -> int:
            raise ValueError("not now")

        first = [self.ask("alice") for _ in range(AT_ONCE)]
        refused = [ensureDeferred(self.lanes.run("alice", refuse)) for _ in range(5000)]
        self.reads.begun[0].callback(1)
        for one in refused:
            self.failureResultOf(one, ValueError)
        self.successResultOf(first[0])
        self.reads.begun[1].callback(1)
        self.assertEqual(len(self.lanes), 0)
