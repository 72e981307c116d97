"""The sessions that one connection follows."""

from __future__ import annotations

from typing import cast

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from computerd.api.attachments import Attachments
from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.session.follower import Follower


@define(eq=False)
class Noted:
    """What a follower was told."""

    acks: list[int] = field(factory=list)
    detached: int = 0

    def ack(self, seq: int) -> None:
        self.acks.append(seq)

    def detach(self) -> None:
        self.detached += 1

    @property
    def follower(self) -> Follower:
        """As what it is taken for."""
        return cast("Follower", self)


class AttachmentsTests(SynchronousTestCase):
    """`Attachments`."""

    def setUp(self) -> None:
        self.attachments = Attachments()

    def put(self, session: str = "s", *, read_only: bool = False) -> Noted:
        """One more."""
        noted = Noted()
        self.attachments.put(session, noted.follower, read_only=read_only)
        return noted

    def test_an_ack_reaches_the_newest(self) -> None:
        first, other = self.put(), self.put("t")
        second = self.put()
        self.attachments.ack("s", 5)
        self.attachments.ack("u", 6)
        self.assertEqual((first.acks, second.acks, other.acks), ([], [5], []))
        self.assertEqual((first.detached, second.detached, len(self.attachments)), (1, 0, 2))

    def test_the_end_of_an_earlier_one_leaves_the_newest(self) -> None:
        first, second = self.put(), self.put(read_only=True)
        self.attachments.gone("s", first.follower)
        self.assertTrue(self.attachments.read_only("s"))
        self.attachments.gone("s", second.follower)
        self.attachments.gone("s", second.follower)
        self.assertEqual((len(self.attachments), self.attachments.read_only("s")), (0, False))

    def test_room(self) -> None:
        for number in range(limits.MAX_ATTACHED):
            self.attachments.check_room(str(number))
            self.put(str(number))
        self.attachments.check_room("0")
        error = self.assertRaises(ApiError, self.attachments.check_room, "x")
        self.assertEqual(error.code, Code.TOO_MANY_ATTACHED)
        self.attachments.detach("0")
        self.attachments.check_room("x")

    def test_close(self) -> None:
        all_of_them = [self.put(name) for name in "stu"]
        self.attachments.close()
        self.attachments.close()
        self.assertEqual([noted.detached for noted in all_of_them], [1, 1, 1])
        self.assertEqual((len(self.attachments), self.attachments.closed), (0, True))
