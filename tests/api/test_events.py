"""The methods about events."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred

from computerd.api import events
from computerd.contract.errors import Code
from computerd.contract.params import ListEvents
from computerd.contract.results import EventList
from tests.api.callers import a_caller
from tests.session.journal_interface import ACTOR, terminal_id
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
