"""The methods about events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred

from computerd.api import events
from computerd.contract.errors import ApiError, Code
from computerd.contract.params import ListEvents
from computerd.contract.results import EventList
from computerd.session.waiting import MAX_WAITING
from tests.api.callers import a_caller
from tests.session.fake_journal import FakeJournal
from tests.session.journal_interface import ACTOR, terminal_id
from tests.session.readers import SlowJournal
from tests.session.test_sessions import ID, SessionsCase


class EventMethodTests(SessionsCase):
    """`events.list`."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=ID)

    def ask(self, session: str = ID, **params: object) -> Deferred[EventList]:
        """Asks for events."""
        wanted = ListEvents(session_id=session, **params)  # type: ignore[arg-type]
        return self.begin(events.events_list(self.sessions, wanted, a_caller()))

    def open(self, number: int = 1) -> None:
        """Something happens."""
        self.get(self.sessions.terminal_opened(ID, terminal_id(number), None, ACTOR))

    def test_all(self) -> None:
        self.open()
        page = self.successResultOf(self.ask())
        self.assertEqual([event.seq for event in page.events], [1, 2, 3])
        self.assertEqual((page.earlier_turns, page.last_seq, page.has_more), (None, 3, False))

    def test_a_page_is_100_events(self) -> None:
        for number in range(100):
            self.open(number)
        page = self.successResultOf(self.ask())
        self.assertEqual((len(page.events), page.has_more, page.last_seq), (100, True, 102))

    def test_after_limit_and_types(self) -> None:
        self.open(1)
        self.open(2)
        page = self.successResultOf(self.ask(after=1, limit=1, types=["terminal.opened"]))
        self.assertEqual(([event.seq for event in page.events], page.has_more), ([3], True))

    def test_ahead(self) -> None:
        self.refused(
            events.events_list(self.sessions, ListEvents(session_id=ID, after=3), a_caller()), Code.CURSOR_AHEAD
        )

    def test_unknown_session(self) -> None:
        params = (ListEvents(session_id="x"), ListEvents(session_id="x", turn_id="tn_000000000000"))
        for wanted in params:
            self.refused(events.events_list(self.sessions, wanted, a_caller()), Code.SESSION_NOT_FOUND)

    def test_there_are_no_turns(self) -> None:
        page = self.successResultOf(self.ask(tail_turns=3))
        self.assertEqual((page.earlier_turns, len(page.events)), (0, 2))
        wanted = ListEvents(session_id=ID, turn_id="tn_000000000000")
        self.refused(events.events_list(self.sessions, wanted, a_caller()), Code.TURN_NOT_FOUND)

    def test_wait_when_there_is_something(self) -> None:
        self.assertEqual(len(self.successResultOf(self.ask(wait_ms=60_000)).events), 2)

    def test_wait_until_something_comes(self) -> None:
        ask = self.ask(after=2, wait_ms=60_000)
        self.clock.advance(59)
        self.assertNoResult(ask)
        self.open()
        page = self.successResultOf(ask)
        self.assertEqual(([event.seq for event in page.events], page.last_seq), ([3], 3))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_wait_for_a_type(self) -> None:
        ask = self.ask(after=2, wait_ms=60_000, types=["terminal.closed"])
        self.clock.advance(30)
        self.open()
        self.assertNoResult(ask)
        self.get(self.sessions.terminal_closed(ID, terminal_id(1), 0))
        self.assertEqual([event.seq for event in self.successResultOf(ask).events], [4])

    def test_what_is_not_wanted_is_not_looked_through_again(self) -> None:
        """Or a filter on a long history would cost the journal all of it for each event that comes."""
        asked: list[int] = []
        read: Callable[..., Any] = FakeJournal.events

        def events_after(journal: FakeJournal, session_id: str, *, after: int, **rest: Any) -> Any:
            asked.append(after)
            return read(journal, session_id, after=after, **rest)

        self.patch(FakeJournal, "events", events_after)
        ask = self.ask(wait_ms=60_000, types=["terminal.closed"])
        self.open()
        self.journal.renew()
        self.assertEqual(asked, [0, 2, 0])
        ask.cancel()
        self.failureResultOf(ask, CancelledError)

    def test_wait_in_vain(self) -> None:
        ask = self.ask(after=2, wait_ms=60_000, types=["terminal.closed"])
        self.clock.advance(59)
        self.open()
        # the wait goes on, but not from the beginning
        self.clock.advance(1)
        page = self.successResultOf(ask)
        self.assertEqual((page.events, page.last_seq, page.has_more), ([], 3, False))

    def test_who_goes_away_frees_the_wait(self) -> None:
        ask = self.ask(after=2, wait_ms=60_000)
        ask.cancel()
        self.failureResultOf(ask, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class LongPollTests(SessionsCase):
    """BR-105. What is committed at any moment of a poll is in its answer or in the next one."""

    def setUp(self) -> None:
        super().setUp()
        self.slow = self.journal = SlowJournal(seconds=lambda: self.now)
        self.sessions = self.anew()
        self.create(id=ID)

    def ask(self, after: int = 2, **params: object) -> Deferred[EventList]:
        """A poll of a minute."""
        wanted = ListEvents(session_id=ID, after=after, wait_ms=60_000, **params)  # type: ignore[arg-type]
        return self.begin(events.events_list(self.sessions, wanted, a_caller()))

    def open(self, count: int = 1) -> None:
        """Something happens."""
        for number in range(count):
            self.get(self.sessions.terminal_opened(ID, terminal_id(number), None, ACTOR))

    def settled(self) -> None:
        """Nobody waits."""
        self.assertEqual(self.clock.getDelayedCalls(), [])
        waiting = self.sessions._waiting
        self.assertEqual((waiting._waits, waiting._members, self.sessions.tally.waiting), ({}, {}, 0))
        self.assertEqual(self.slow.pages, [])

    def test_a_commit_between_the_read_and_the_wait(self) -> None:
        self.slow.slow = True
        ask = self.ask()
        self.slow.look()
        self.open(2)
        self.slow.turn()
        # it does not wait for what is there, but reads again
        self.slow.turn()
        self.assertEqual([event.seq for event in self.successResultOf(ask).events], [3, 4])
        self.settled()

    def test_a_commit_before_the_read_and_after_the_question(self) -> None:
        self.slow.slow = True
        ask = self.ask()
        self.open()
        self.slow.turn()
        page = self.successResultOf(ask)
        self.assertEqual(([event.seq for event in page.events], page.last_seq), ([3], 3))
        self.settled()

    def test_two_commits_at_once(self) -> None:
        ask = self.ask()
        self.slow.slow = True
        self.open()
        self.open()
        self.slow.turn()
        page = self.successResultOf(ask)
        self.assertEqual(([event.seq for event in page.events], page.last_seq, page.has_more), ([3, 4], 4, False))

    def test_a_commit_of_another_type_in_the_gap(self) -> None:
        self.slow.slow = True
        ask = self.ask(types=["terminal.closed"])
        self.slow.look()
        self.open()
        self.slow.turn()
        self.slow.turn()
        self.assertNoResult(ask)
        self.assertEqual(self.sessions.tally.waiting, 1)
        self.get(self.sessions.terminal_closed(ID, terminal_id(0), 0))
        self.slow.turn()
        self.assertEqual([event.seq for event in self.successResultOf(ask).events], [4])
        self.settled()

    def test_the_session_is_no_longer_in_memory(self) -> None:
        ask = self.ask()
        self.sessions.forget()
        self.open()
        self.assertEqual([event.seq for event in self.successResultOf(ask).events], [3])

    def test_the_client_leaves_at_any_moment(self) -> None:
        self.slow.slow = True
        for turns in range(2):
            ask = self.ask()
            for _ in range(turns):
                self.slow.turn()
            ask.cancel()
            self.failureResultOf(ask, CancelledError)
            self.settled()
        self.assertEqual(self.slow.cancelled, 1)

    def test_a_new_epoch_wakes_who_waits(self) -> None:
        ahead, fits = self.ask(), self.ask(types=["terminal.closed"])
        self.journal.renew()
        # no event is there: both have read again, and wait on for the new history
        for ask in (ahead, fits):
            self.assertNoResult(ask)
        self.open()
        page = self.successResultOf(ahead)
        self.assertEqual(([event.seq for event in page.events], page.last_seq), ([3], 3))
        fits.cancel()
        self.failureResultOf(fits, CancelledError)
        self.settled()

    def test_a_new_epoch_in_which_less_is_known(self) -> None:
        """Who waits for what is no longer there is told at once, not after a minute."""
        self.open()
        ask = self.ask(after=3)
        self.journal.records[ID] = evolve(self.journal.records[ID], last_seq=2)
        self.journal.renew()
        error = self.failureResultOf(ask, ApiError).value
        assert isinstance(error, ApiError)
        self.assertEqual(error.code, Code.CURSOR_AHEAD)
        self.settled()

    def test_the_session_is_gone(self) -> None:
        ask = self.ask()
        del self.journal.records[ID]
        self.journal.renew()
        error = self.failureResultOf(ask, ApiError).value
        assert isinstance(error, ApiError)
        self.assertEqual(error.code, Code.SESSION_NOT_FOUND)
        self.settled()

    def test_the_journal_can_not_be_read_when_it_is_woken(self) -> None:
        ask = self.ask()
        self.slow.slow = True
        self.open()
        self.slow.fail(ApiError(Code.UNAVAILABLE, "no"))
        self.failureResultOf(ask, ApiError)
        self.settled()

    def test_a_member_polls_only_so_often(self) -> None:
        asks = [self.ask() for _ in range(MAX_WAITING)]
        error = self.failureResultOf(self.ask(), ApiError).value
        assert isinstance(error, ApiError)
        self.assertEqual((error.code, error.status), (Code.RATE_LIMITED, 429))
        self.open()
        for ask in asks:
            self.successResultOf(ask)
        self.settled()

    @given(st.lists(st.sampled_from(("ask", "look", "turn", "commit", "time")), max_size=40))
    def test_a_poller_misses_nothing(self, moments: list[str]) -> None:
        """Whatever happens when, the answers in a row are all events, once each."""
        LongPollTests.setUp(self)
        self.slow.slow = True
        seen: list[int] = [1, 2]
        polls: list[Deferred[EventList]] = []

        def take(page: EventList) -> None:
            polls.clear()
            seen.extend(event.seq for event in page.events)

        def poll() -> None:
            if not polls:
                polls.append(self.ask(seen[-1]))
                polls[0].addCallback(take)

        for moment in moments:
            if moment == "ask":
                poll()
            elif moment == "commit":
                self.open()
            elif moment == "time":
                self.clock.advance(31)
            elif moment in ("look", "turn") and self.slow.pages:
                getattr(self.slow, moment)()
        last = self.journal.records[ID].last_seq
        while seen[-1] < last:
            poll()
            self.assertNotEqual(self.slow.pages, [], "it waits for what is there")
            self.slow.turn()
        self.assertEqual(seen, list(range(1, last + 1)))
