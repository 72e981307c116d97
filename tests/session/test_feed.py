"""What is new in a session."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.contract.objects import Event
from computerd.session import feed
from computerd.session.drafts import stamp
from computerd.session.feed import Feed, message
from tests.session.fake_journal import seeded
from tests.session.journal_interface import NOW, opened, session_id


def events(first: int, count: int, length: int = 0) -> list[Event]:
    """So many in a row."""
    random = seeded()
    return [
        stamp(opened(1, "x" * length), lambda: NOW, random).event(session_id(1), seq)
        for seq in range(first, first + count)
    ]


@define(eq=False)
class Ear:
    """A subscriber that writes down what it hears."""

    heard: list[object] = field(factory=list)

    def news(self, messages: Sequence[bytes]) -> None:
        self.heard.append(list(messages))

    def lost(self) -> None:
        self.heard.append("lost")

    def freeze(self) -> None:
        self.heard.append("frozen")

    def renewed(self, log_epoch: str, first_seq: int | None) -> None:
        self.heard.append((log_epoch, first_seq))


class FeedTests(SynchronousTestCase):
    """`Feed`."""

    def setUp(self) -> None:
        self.ends = 0
        self.feed = Feed(session_id(1), 2, self.end)
        self.ear = Ear()
        self.feed.join(self.ear)

    def end(self, ended: Feed) -> None:
        """Nobody follows."""
        self.assertIs(ended, self.feed)
        self.ends += 1

    def test_news(self) -> None:
        new = events(3, 2)
        self.feed.committed(new)
        self.assertEqual(self.ear.heard, [[message(event) for event in new]])
        self.assertEqual((self.feed.last_seq, self.feed.total), (4, sum(len(message(event)) for event in new)))

    def test_what_is_known_already(self) -> None:
        self.feed.committed(events(1, 2))
        self.assertEqual((self.ear.heard, self.feed.last_seq), ([], 2))

    def test_what_does_not_follow(self) -> None:
        self.feed.committed(events(3, 3))
        for new in (events(7, 2), events(8, 2)):
            before = self.feed.total
            self.feed.committed(new)
            self.assertEqual((self.ear.heard[-1], self.feed.last_seq), ("lost", new[-1].seq))
            self.assertEqual((self.feed.tail(new[-1].seq, 9999), self.feed.tail(new[-1].seq - 1, 9999)), (None, None))
            self.assertEqual((self.feed.total, self.feed.total_at(1)), (before, before))
        self.feed.committed(events(10, 1))
        self.assertEqual(len(self.feed.tail(9, 1) or ()), 1)

    def test_it_ends_with_the_last_one(self) -> None:
        other = Ear()
        self.feed.join(other)
        self.assertEqual(len(self.feed), 2)
        self.feed.leave(self.ear)
        self.feed.leave(self.ear)
        self.assertEqual(self.ends, 0)
        self.feed.leave(other)
        self.feed.leave(other)
        self.assertEqual((self.ends, len(self.feed)), (1, 0))

    def test_who_leaves_while_it_is_told(self) -> None:
        class Leaver(Ear):
            def news(leaver, messages: Sequence[bytes]) -> None:  # noqa: N805
                self.feed.leave(leaver)

        self.feed.leave(self.ear)
        leavers = [Leaver() for _ in range(3)]
        for leaver in leavers:
            self.feed.join(leaver)
        self.feed.join(self.ear)
        self.feed.committed(events(3, 1))
        self.assertEqual((len(self.feed), len(self.ear.heard)), (1, 1))

    def test_a_new_epoch(self) -> None:
        self.feed.renewed("le_1", 9)
        self.assertEqual(self.ear.heard, [("le_1", 9)])

    @given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 300)), max_size=40))
    def test_sums_and_tail(self, commits: list[tuple[int, int]]) -> None:
        """Whatever is committed: the sums are those of the messages, the tail is the newest of them, and both are bounded."""
        self.patch(limits, "MAX_BACKLOG_EVENTS", 30)
        self.patch(feed, "TAIL_BYTES", 3000)
        made = Feed(session_id(1), 2, lambda _: None)
        texts: list[bytes] = []
        for count, length in commits:
            new = events(made.last_seq + 1, count, length)
            texts += map(message, new)
            made.committed(new)
        self.assertEqual(made.total, sum(map(len, texts)))
        for back in range(min(30, len(texts)) + 1):
            seq = made.last_seq - back
            self.assertEqual(made.total - made.total_at(seq), sum(map(len, texts[len(texts) - back :])))
            tail = made.tail(seq, 10**9)
            if tail is not None:
                self.assertEqual(tail, texts[len(texts) - back :])
                self.assertEqual(made.tail(seq, 1), tail[:1])
            elif 0 < back <= len(texts):
                self.assertGreater(sum(map(len, texts[len(texts) - back :])), 3000)
        self.assertIsNone(made.tail(made.last_seq - len(texts) - 1, 1))
        self.assertIsNone(made.tail(made.last_seq + 1, 1))
        self.assertEqual(made.total_at(made.last_seq + 1), made.total)
        self.assertLessEqual(len(made._sums), 61)
        self.assertLessEqual(sum(map(len, made._tail)), 3000)
