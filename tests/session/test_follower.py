"""One client that follows one session: the states of a follower, one by one. The interleavings are in `test_following_states`."""

from __future__ import annotations

import gc
from collections.abc import Sequence

from attrs import define, field
from msgspec import UNSET
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.session import feed, follower
from computerd.session.allowance import ACK_SECONDS
from computerd.session.feed import message
from computerd.session.follower import Follower, State
from computerd.session.sessions import Sessions
from computerd.terminal.outbox import Waiting
from tests.session.fake_journal import seeded
from tests.session.journal_interface import NOW, a_record, beginning, opened, session_id
from tests.session.readers import Reader, SlowJournal

S = session_id(1)


class FollowerCase(SynchronousTestCase):
    """A session with two events, and limits that are a hundredth of the real ones."""

    max_events = limits.MAX_BACKLOG_EVENTS // 100
    max_bytes = limits.MAX_BACKLOG_BYTES

    def setUp(self) -> None:
        self.patch(limits, "MAX_BACKLOG_EVENTS", self.max_events)
        self.patch(limits, "MAX_BACKLOG_BYTES", self.max_bytes)
        self.patch(follower, "PAGE_EVENTS", 10)
        self.patch(feed, "TAIL_BYTES", 2000)
        self.clock = Clock()
        self.journal = SlowJournal(seconds=lambda: NOW)
        self.reader = Reader()
        self.sessions = Sessions(self.journal, lambda: NOW, seeded(), self.clock)
        self.ended: list[Follower] = []
        self.make(1)

    def make(self, number: int) -> None:
        """A session."""
        self.successResultOf(self.journal.create(a_record(number), beginning(a_record(number))))

    def commit(self, count: int = 1, length: int = 0, number: int = 1) -> int:
        """So many events in one commit; returns the newest number."""
        drafts = [opened(1, "x" * length) for _ in range(count)]
        return self.successResultOf(self.journal.append(session_id(number), drafts))[-1].seq

    def attach(self, after: int | None = 0, number: int = 1) -> Follower:
        """Begins to follow, without an answer yet."""
        made = self.sessions.follow(
            self.journal.records[session_id(number)], after, self.reader, lambda: self.ended.append(made)
        )
        return made

    def following(self, after: int | None = 0, number: int = 1) -> Follower:
        """Follows."""
        made = self.attach(after, number)
        made.start()
        return made

    def seqs(self) -> list[int]:
        """What the client got of the session."""
        return self.reader.seqs(S)

    def detached(self, made: Follower, reason: str) -> None:
        """The client was told that it follows no more, once, and nothing is left."""
        self.assertEqual([(said.session_id, said.reason) for said in self.reader.detached], [(made.session_id, reason)])
        self.assertEqual(self.ended, [made])
        self.settled(made)
        self.assertEqual(self.sessions.tally.detached, {reason: 1})

    def settled(self, made: Follower) -> None:
        """Nothing is left of it."""
        self.assertIs(made.state, State.ENDED)
        self.assertEqual(self.sessions.tally.attached, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.sessions._feeds.by_session, {})
        self.assertIn(made, self.reader.forgotten)
        self.assertEqual((len(made._page), len(made._allowance._pages), self.journal.pages), (0, 0, []))
        before = len(self.reader.order)
        self.commit()
        made.resume()
        made.start()
        made.ack(10_000)
        self.assertEqual(len(self.reader.order), before)
        gc.collect()
        self.assertEqual(self.flushLoggedErrors(), [])


class GivingTests(FollowerCase):
    """What comes, and in which order."""

    def test_nothing_before_the_start(self) -> None:
        made = self.attach()
        self.commit()
        self.assertEqual(self.reader.order, [])
        made.start()
        self.assertEqual(self.seqs(), [1, 2, 3])
        made.start()
        self.assertEqual(self.seqs(), [1, 2, 3])

    def test_after_the_newest(self) -> None:
        for after in (None, 2):
            made = self.following(after)
            self.commit()
            self.commit(2)
            self.assertEqual(self.seqs(), [3, 4, 5])
            made.detach()
            self.journal.log[S], self.journal.records[S] = self.journal.log[S][:2], a_record(1)
            self.reader.events.clear()

    def test_an_event_is_the_notification_of_the_contract(self) -> None:
        self.following(1)
        (event,) = self.journal.log[S][1:]
        self.assertEqual(self.reader.sizes, [len(message(event))])
        self.assertIn(b'"method":"event"', message(event))

    def test_what_is_committed_between_the_record_and_the_start(self) -> None:
        made = self.attach(None)
        self.commit(3)
        made.start()
        self.assertEqual(self.seqs(), [3, 4, 5])

    def test_what_is_committed_while_a_page_is_read(self) -> None:
        self.journal.slow = True
        self.following()
        self.journal.look()
        self.commit(2)
        self.journal.turn()
        self.commit()
        self.assertEqual(self.seqs(), [1, 2, 3, 4, 5])
        self.assertEqual(self.journal.pages, [])

    def test_many_pages(self) -> None:
        self.commit(95)
        self.journal.slow = True
        made = self.following()
        turns = 0
        while self.journal.pages:
            self.journal.turn()
            turns += 1
        self.assertEqual(self.seqs(), list(range(1, 98)))
        self.assertEqual(turns, 10)
        self.assertIs(made.state, State.LIVE)
        self.assertEqual(self.sessions.tally.delivered, 97)

    def test_a_page_that_is_ahead_of_what_was_told(self) -> None:
        """The port does not say that a page never has what the listener has not heard of yet."""
        self.journal.slow = True
        self.following()
        self.journal._listener = None
        self.commit(2)
        late = self.journal.log[S][2:]
        self.journal.turn()
        self.assertEqual(self.seqs(), [1, 2, 3, 4])
        told = self.sessions._feeds.by_session[S]
        told.committed(late)
        self.assertEqual(self.seqs(), [1, 2, 3, 4])
        self.journal.listen(self.sessions)
        self.commit()
        self.assertEqual(self.seqs(), [1, 2, 3, 4, 5])

    def test_news_that_nobody_told(self) -> None:
        """A feed that has missed something has it read: nothing is lost, nothing comes twice."""
        self.following()
        self.journal._listener = None
        self.commit(3)
        self.journal.listen(self.sessions)
        self.journal.slow = True
        self.commit(2)
        self.assertEqual(self.seqs(), [1, 2])
        self.commit()
        self.journal.turn()
        self.assertEqual(self.seqs(), list(range(1, 9)))

    def test_two_followers_of_a_session_share_its_feed(self) -> None:
        other = Reader()
        first = self.following()
        second = self.sessions.follow(self.journal.records[S], 2, other, lambda: None)
        second.start()
        self.assertIs(first.feed, second.feed)
        self.commit()
        first.detach()
        self.commit()
        self.assertEqual((self.seqs(), other.seqs(S)), ([1, 2, 3], [3, 4]))
        second.detach()
        self.assertEqual(self.sessions._feeds.by_session, {})

    def test_cursor_ahead(self) -> None:
        error = self.assertRaises(ApiError, self.attach, 3)
        self.assertEqual((error.code, error.field), (Code.CURSOR_AHEAD, "after"))
        self.assertEqual((self.sessions._feeds.by_session, self.sessions.tally.attached), ({}, 0))


@define(eq=False)
class BreakingReader(Reader):
    """A connection that breaks when something is sent."""

    breaks: Follower | None = None

    def messages(self, texts: Sequence[bytes], source: Waiting, *, all_the_same: bool = False) -> bool:
        """See `Outbox`."""
        taken = super().messages(texts, source, all_the_same=all_the_same)
        if self.breaks is not None:
            self.breaks.detach()
        return taken


@define(eq=False)
class StallingReader(Reader):
    """Once something was sent, the journal's disk is slow."""

    journal: SlowJournal = field(factory=SlowJournal)

    def messages(self, texts: Sequence[bytes], source: Waiting, *, all_the_same: bool = False) -> bool:
        """See `Outbox`."""
        self.journal.slow = True
        return super().messages(texts, source, all_the_same=all_the_same)


class HeldTests(FollowerCase):
    """A connection that is full."""

    def test_nothing_is_given_until_there_is_room(self) -> None:
        made = self.following()
        self.reader.room = 1
        self.commit()
        self.assertIs(made.state, State.LIVE)
        self.commit(2)
        self.assertIs(made.state, State.HELD)
        self.commit(2)
        self.assertEqual(self.seqs(), [1, 2, 3])
        self.journal.slow = True
        self.reader.make_room()
        self.assertEqual(self.seqs(), list(range(1, 8)))
        # the newest few come from memory
        self.assertEqual((self.journal.pages, made.state), ([], State.LIVE))

    def test_what_is_no_longer_in_memory_is_read(self) -> None:
        made = self.following()
        self.reader.room = 1
        self.commit()
        self.commit(30)
        self.journal.slow = True
        self.reader.make_room()
        self.assertEqual((self.seqs(), made.state), ([1, 2, 3], State.REPLAY))
        while self.journal.pages:
            self.journal.turn()
        self.assertEqual(self.seqs(), list(range(1, 34)))

    def test_a_frozen_client_costs_next_to_nothing(self) -> None:
        """R10. Whatever is committed, what is kept for it does not grow."""
        self.commit(50)
        self.reader.room = 1
        self.following()
        self.commit(20, 500)
        kept = self.sessions._feeds.by_session[S]
        (made,) = kept._subscribers
        assert isinstance(made, Follower)
        self.assertLessEqual(len(made._page), 10)
        self.assertLessEqual(sum(map(len, kept._tail)), 2000)

    def test_a_piece_is_kept_of_a_page_that_finds_no_room(self) -> None:
        """So that a connection that is never free when a page comes gets on all the same, and costs no more than that."""
        self.patch(follower, "GIVE_BYTES", 600)
        self.commit(50)
        self.journal.slow = True
        made = self.following()
        self.reader.room = 0
        self.journal.turn()
        self.assertEqual((self.seqs(), made.state, len(made._page), len(made._piece)), ([], State.HELD, 0, 2))
        self.reader.make_room(1)
        self.assertEqual((self.seqs(), made.state, len(self.journal.pages)), ([1, 2], State.REPLAY, 1))

    def test_what_is_too_large_to_be_kept_counts_as_unread(self) -> None:
        self.patch(follower, "GIVE_BYTES", 600)
        self.commit(1, 2500)
        self.commit(20)
        self.journal.slow = True
        made = self.following(2)
        self.reader.room = 0
        self.journal.turn()
        self.assertEqual((self.seqs(), self.reader.forced, made.state), ([3], 1, State.HELD))
        self.assertEqual((list(made._piece), len(made._page)), ([], 0))

    def test_one_piece_that_is_too_large_is_unread_at_a_time(self) -> None:
        """Or a client that reads a history of them as fast as it can would be cut off for what it has not read yet."""
        self.patch(follower, "GIVE_BYTES", 600)
        for _ in range(5):
            self.commit(1, 2500)
        made = self.following(2)
        self.assertEqual(self.seqs(), [3, 4, 5, 6, 7])
        self.reader.events.clear()
        made.detach()
        self.reader.room = 0
        made = self.following(2)
        for last in range(3, 8):
            self.assertEqual((self.seqs(), made.state), (list(range(3, last + 1)), State.HELD))
            self.reader.make_room(0)
            self.assertEqual(self.seqs()[-1], last, "not before there is room")
            for source in tuple(self.reader.waiting):
                del self.reader.waiting[source]
                source.resume()
        self.assertIs(made.state, State.LIVE)

    def test_history_is_given_in_pieces(self) -> None:
        """What one session holds the others of its connection up by."""
        self.patch(follower, "GIVE_BYTES", 600)
        self.commit(50)
        self.following()
        self.assertEqual(self.seqs(), list(range(1, 53)))
        self.assertLess(max(self.reader.sizes), 2001)
        self.assertGreater(len(self.reader.sizes), 10)

    def test_a_large_commit_is_given_in_pieces_too(self) -> None:
        self.patch(follower, "GIVE_BYTES", 3000)
        self.following()
        self.commit(20, 500)
        self.assertEqual(self.seqs(), list(range(1, 23)))
        self.assertLess(max(self.reader.sizes), 4000)

    def test_others_go_on(self) -> None:
        self.make(2)
        self.following()
        self.following(0, 2)
        self.commit(self.max_events + 1)
        self.assertEqual([said.session_id for said in self.reader.detached], [S])
        self.commit(1, 0, 2)
        self.assertEqual(self.reader.seqs(session_id(2)), [1, 2, 3])

    def test_a_detach_in_the_middle_of_a_piece(self) -> None:
        """A connection that ends while it is given something asks for no more."""
        self.commit(50)
        for room in (1_000_000, 1):
            self.reader = BreakingReader(room)
            self.journal.slow = True
            made = self.reader.breaks = self.following()
            self.journal.turn()
            self.assertEqual((self.seqs(), self.journal.pages), (list(range(1, 11)), []))
            self.assertEqual(self.clock.getDelayedCalls(), [])
            self.assertIs(made.state, State.ENDED)


class TooFarTests(FollowerCase):
    """`too_far_behind`."""

    def test_so_many_events_exactly(self) -> None:
        for count in (1, self.max_events):
            made = self.following(2)
            for _ in range(self.max_events // count):
                self.commit(count)
            self.assertIs(made.state, State.LIVE)
            made.detach()
            self.journal.log[S], self.journal.records[S] = self.journal.log[S][:2], a_record(1)
        made = self.following(2)
        self.commit(self.max_events)
        self.commit()
        self.detached(made, "too_far_behind")

    def test_what_is_acknowledged_does_not_count(self) -> None:
        made = self.following(2)
        for _ in range(5):
            newest = self.commit(self.max_events)
            made.ack(newest)
        made.ack(newest - 1)
        made.ack(newest + 1)
        self.commit(self.max_events)
        self.assertIs(made.state, State.LIVE)
        self.commit()
        self.detached(made, "too_far_behind")

    def test_an_acknowledgement_of_what_was_not_sent_means_nothing(self) -> None:
        made = self.following(2)
        made.ack(self.max_events)
        self.commit(self.max_events)
        self.commit()
        self.detached(made, "too_far_behind")

    def test_a_frozen_client(self) -> None:
        self.reader.room = 1
        made = self.following()
        self.commit(self.max_events - 2)
        self.assertIs(made.state, State.HELD)
        self.commit(3)
        self.detached(made, "too_far_behind")

    def test_even_before_the_start(self) -> None:
        made = self.attach(2)
        self.commit(self.max_events + 1)
        self.detached(made, "too_far_behind")

    def test_history_does_not_count_while_it_is_replayed(self) -> None:
        self.commit(10 * self.max_events)
        made = self.following()
        self.assertIs(made.state, State.FULL)
        self.assertGreaterEqual(self.seqs()[-1], self.max_events)
        self.assertLess(self.seqs()[-1], self.max_events + 20)
        while made.state is State.FULL:
            made.ack(self.seqs()[-1])
        self.assertEqual(self.seqs(), list(range(1, 10 * self.max_events + 3)))
        self.assertEqual((made.state, self.reader.detached), (State.LIVE, []))

    def test_a_client_that_acknowledges_now_and_then_is_never_too_far_behind(self) -> None:
        """The whole window may be on its way when the history has come to its end, and something is committed then."""
        self.commit(3 * self.max_events)
        made = self.following()
        while made.state is State.FULL:
            made.ack(made.acked + 10)
        self.assertGreater(made.sent - made.acked, self.max_events - 20)
        for _ in range(30):
            self.commit()
        self.assertEqual((made.state, self.reader.detached), (State.LIVE, []))
        made.ack(made.sent)
        self.commit(self.max_events)
        self.assertIs(made.state, State.LIVE)
        self.commit()
        self.detached(made, "too_far_behind")

    def test_history_counts_in_the_end(self) -> None:
        self.commit(self.max_events - 10)
        made = self.following()
        self.commit(50)
        self.clock.advance(ACK_SECONDS - 1)
        self.commit()
        self.assertIs(made.state, State.LIVE)
        self.clock.advance(1)
        self.commit()
        self.detached(made, "too_far_behind")

    def test_half_of_the_history_counts_at_once(self) -> None:
        self.commit(self.max_events // 2 - 2)
        made = self.following()
        self.commit(self.max_events // 2)
        self.assertIs(made.state, State.LIVE)
        self.commit()
        self.detached(made, "too_far_behind")

    def test_full_for_too_long(self) -> None:
        self.commit(2 * self.max_events)
        made = self.following()
        self.clock.advance(ACK_SECONDS - 1)
        self.assertIs(made.state, State.FULL)
        self.clock.advance(1)
        self.detached(made, "too_far_behind")

    def test_full_and_slow_but_there(self) -> None:
        self.commit(4 * self.max_events)
        made = self.following()
        ahead = set()
        for _ in range(2 * self.max_events):
            self.clock.advance(ACK_SECONDS - 1)
            made.ack(made.acked + 1)
            self.assertIs(made.state, State.FULL)
            ahead.add(made.sent - made.acked)
        # a piece is given whole, and then one acknowledgement is not enough
        self.assertEqual((min(ahead), max(ahead)), (self.max_events, self.max_events + 9))
        self.clock.advance(ACK_SECONDS)
        self.detached(made, "too_far_behind")

    def test_a_detach_while_full_ends_the_wait(self) -> None:
        self.commit(2 * self.max_events)
        made = self.following()
        made.detach()
        self.settled(made)


class TooLargeTests(FollowerCase):
    """The same by bytes."""

    max_events = limits.MAX_BACKLOG_EVENTS
    max_bytes = 100_000

    def size(self, length: int) -> int:
        """Of the message of an event of that length."""
        self.commit(1, length)
        return len(message(self.journal.log[S][-1]))

    def test_so_many_bytes_exactly(self) -> None:
        self.commit(10)
        rest = self.max_bytes - 9 * self.size(10_000) - self.size(0)
        for more in (0, 1):
            newest = self.journal.records[S].last_seq
            made = self.following(newest)
            for _ in range(9):
                self.commit(1, 10_000)
            # the number has as many digits as that of the event that was weighed
            self.assertEqual(len(str(newest + 1)), len(str(newest + 10)))
            self.commit(1, rest + more)
            if not more:
                self.assertEqual(sum(self.reader.sizes), self.max_bytes)
                self.assertIs(made.state, State.LIVE)
                made.detach()
                self.reader.forgotten.clear()
        self.detached(made, "too_far_behind")

    def test_acknowledged_bytes_do_not_count(self) -> None:
        made = self.following(2)
        for _ in range(100):
            made.ack(self.commit(4, 20_000))
        self.assertIs(made.state, State.LIVE)
        self.commit(5, 20_000)
        self.detached(made, "too_far_behind")

    def test_history_by_bytes(self) -> None:
        for _ in range(30):
            self.commit(1, 10_000)
        made = self.following()
        self.assertIs(made.state, State.FULL)
        self.assertGreaterEqual(sum(self.reader.sizes), self.max_bytes)
        self.assertLess(sum(self.reader.sizes), self.max_bytes + 11_000 + follower.GIVE_BYTES)
        while made.state is State.FULL:
            made.ack(self.seqs()[-1])
        self.assertEqual(self.seqs(), list(range(1, 33)))
        self.assertIs(made.state, State.LIVE)

    def test_full_for_too_long(self) -> None:
        for _ in range(30):
            self.commit(1, 10_000)
        made = self.following()
        self.clock.advance(ACK_SECONDS)
        self.detached(made, "too_far_behind")

    def test_history_counts_in_the_end(self) -> None:
        for _ in range(8):
            self.commit(1, 10_000)
        made = self.following()
        self.commit(1, 30_000)
        self.assertIs(made.state, State.LIVE)
        self.clock.advance(ACK_SECONDS)
        self.commit()
        self.detached(made, "too_far_behind")


class RealLimitTests(SynchronousTestCase):
    """The limits that are published, unpatched."""

    def test_what_is_published(self) -> None:
        self.assertEqual((limits.MAX_BACKLOG_EVENTS, limits.MAX_BACKLOG_BYTES), (10_000, 8 * 1024 * 1024))

    def test_ten_thousand_events(self) -> None:
        clock, reader = Clock(), Reader()
        journal = SlowJournal(seconds=lambda: NOW)
        sessions = Sessions(journal, lambda: NOW, seeded(), clock)
        self.successResultOf(journal.create(a_record(), beginning(a_record())))
        made = sessions.follow(journal.records[S], None, reader, lambda: None)
        made.start()
        self.successResultOf(journal.append(S, [opened()] * 10_000))
        self.assertEqual((len(reader.events), reader.detached), (10_000, []))
        self.successResultOf(journal.append(S, [opened()]))
        self.assertEqual((len(reader.events), [said.reason for said in reader.detached]), (10_000, ["too_far_behind"]))


class EndTests(FollowerCase):
    """Other ends."""

    def test_detach(self) -> None:
        made = self.following()
        made.detach()
        made.detach()
        self.assertEqual((self.reader.detached, self.ended), ([], []))
        self.settled(made)

    def test_detach_while_held(self) -> None:
        self.reader.room = 0
        made = self.following()
        self.assertIn(made, self.reader.waiting)
        made.detach()
        self.settled(made)

    def test_detach_gives_up_the_page(self) -> None:
        self.journal.slow = True
        made = self.following()
        made.detach()
        self.assertEqual(self.journal.cancelled, 1)
        self.settled(made)

    def test_detach_gives_up_a_later_page(self) -> None:
        """Also when the first was there at once."""
        self.commit(50)
        self.reader = StallingReader(journal=self.journal)
        made = self.following()
        self.assertEqual((self.seqs(), len(self.journal.pages)), (list(range(1, 11)), 1))
        made.detach()
        self.assertEqual(self.journal.cancelled, 1)
        self.settled(made)

    def test_the_journal_can_not_be_read(self) -> None:
        self.journal.slow = True
        made = self.following()
        self.journal.fail(ApiError(Code.UNAVAILABLE, "no"))
        self.detached(made, "unavailable")
        (said,) = self.reader.detached
        self.assertEqual((said.log_epoch, said.epoch_start_seq), (UNSET, UNSET))

    def test_the_journal_refuses_at_once(self) -> None:
        made = self.attach()
        self.journal.refusing = ApiError(Code.UNAVAILABLE, "no")
        made.start()
        self.journal.heal()
        self.detached(made, "unavailable")

    def test_a_page_that_fails_for_no_known_reason_is_logged(self) -> None:
        self.journal.slow = True
        made = self.following()
        self.journal.fail(ValueError("a fault of ours"))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.detached(made, "unavailable")

    def test_a_new_epoch(self) -> None:
        made = self.following()
        self.journal.renew()
        self.detached(made, "epoch_changed")
        (said,) = self.reader.detached
        self.assertEqual((said.log_epoch, said.epoch_start_seq), ("le_renewed00000", 3))

    def test_a_new_epoch_in_every_state(self) -> None:
        self.commit(3 * self.max_events)
        full = self.following()
        self.assertIs(full.state, State.FULL)
        self.journal.slow = True
        replay, ready = self.following(), self.attach()
        self.assertEqual((replay.state, ready.state), (State.REPLAY, State.READY))
        self.journal.renew()
        self.assertEqual([said.reason for said in self.reader.detached], ["epoch_changed"] * 3)
        self.assertEqual(self.ended, [full, replay, ready])
        self.settled(full)

    def test_after_a_new_epoch_it_can_be_attached_anew(self) -> None:
        self.following()
        self.journal.renew()
        self.commit(2)
        made = self.following(2)
        self.assertEqual(self.seqs(), [1, 2, 3, 4])
        self.assertIs(made.state, State.LIVE)


class RemovedTests(FollowerCase):
    """What is read has been removed for its age."""

    def trim(self, keep: int) -> None:
        """Removes all but the newest."""
        moved = self.successResultOf(self.journal.trim(keep=keep, before=None, limit=10_000))
        if moved is not None:
            self.sessions.trimmed(moved)

    def test_the_history_begins_later(self) -> None:
        self.commit(50)
        self.trim(20)
        self.following(5)
        self.assertEqual(self.seqs(), list(range(33, 53)))

    def test_what_was_removed_is_not_waited_for(self) -> None:
        """It counts as acknowledged."""
        self.commit(5 * self.max_events)
        self.trim(self.max_events - 20)
        made = self.following()
        self.assertEqual((len(self.seqs()), made.state), (self.max_events - 20, State.LIVE))
        self.commit(self.max_events)
        self.assertEqual(self.reader.detached, [])

    def test_nothing_is_left_of_the_history(self) -> None:
        self.commit(50)
        self.trim(0)
        made = self.following(5)
        self.assertEqual((self.seqs(), made.state, self.reader.detached), ([], State.LIVE, []))
        self.commit()
        self.assertEqual(self.seqs(), [53])

    def test_all_is_removed_and_something_comes_while_the_page_is_read(self) -> None:
        self.commit(50)
        self.trim(0)
        self.journal.slow = True
        self.following(5)
        self.journal.look()
        self.commit(2)
        self.journal.turn()
        self.assertEqual(self.seqs(), [53, 54])

    def test_a_gap_ends_it(self) -> None:
        self.commit(50)
        self.journal.slow = True
        made = self.following()
        self.journal.turn()
        self.trim(20)
        self.journal.turn()
        self.assertEqual(self.seqs(), list(range(1, 11)))
        self.detached(made, "too_far_behind")

    def test_a_gap_after_what_came_from_memory(self) -> None:
        """It is one too when no page was read before."""
        made = self.following(2)
        self.reader.room = 1
        self.commit()
        self.commit(50)
        self.trim(20)
        self.reader.make_room()
        self.assertEqual(self.seqs(), [3])
        self.detached(made, "too_far_behind")

    def test_a_gap_after_the_first_came_from_memory(self) -> None:
        made = self.attach(2)
        self.commit()
        self.reader.room = 1
        made.start()
        self.assertEqual((self.seqs(), made.state), ([3], State.LIVE))
        self.commit(50)
        self.trim(20)
        self.reader.make_room()
        self.detached(made, "too_far_behind")

    def test_nothing_left_in_the_middle_ends_it_too(self) -> None:
        self.commit(50)
        self.journal.slow = True
        made = self.following()
        self.journal.turn()
        self.trim(0)
        self.journal.turn()
        self.detached(made, "too_far_behind")
