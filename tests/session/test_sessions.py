"""Sessions, on the fake journal."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
from attrs import evolve
from msgspec import UNSET
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Origin, Person, Session
from computerd.contract.params import CreateSession
from computerd.session.sessions import Created, Sessions
from tests.session.fake_journal import FakeJournal, seeded
from tests.session.journal_interface import ACTOR, ALICE, BOB, NOW, session_id, terminal_id

T = TypeVar("T")
ORIGIN = Origin(type="opc", client="opc/0.1", slack=None)
ID = "cs_0123456789abcdef"


class SessionsCase(SynchronousTestCase):
    """Sessions on a fake journal, with a clock that stands still."""

    def setUp(self) -> None:
        self.now = NOW
        self.journal = FakeJournal(seconds=lambda: self.now)
        self.clock = Clock()
        self.sessions = self.anew()

    def anew(self) -> Sessions:
        """The same journal after a restart."""
        return Sessions(self.journal, lambda: self.now, seeded(), self.clock)

    def begin(self, work: Coroutine[Deferred[Any], Any, T]) -> Deferred[T]:
        """Begins the work."""
        return Deferred.fromCoroutine(work)

    def get(self, work: Coroutine[Deferred[Any], Any, T]) -> T:
        """What the work comes to, at once."""
        return self.successResultOf(self.begin(work))

    def refused(self, work: Coroutine[Deferred[Any], Any, object], code: Code) -> ApiError:
        """The error that the work fails with, at once."""
        error = self.failureResultOf(self.begin(work), ApiError).value
        assert isinstance(error, ApiError)
        self.assertEqual(error.code, code)
        return error

    def create(self, owner: Person = ALICE, **body: Any) -> Created:
        """A session."""
        return self.get(self.sessions.create(CreateSession(**body), owner, ORIGIN, ACTOR))

    def types(self, session: str) -> list[str]:
        """The types of the session's events."""
        return [event.type for event in self.journal.log[session]]


class CreateTests(SessionsCase):
    """`create`."""

    def test_the_object(self) -> None:
        created = self.create(title="T", speed="fast", metadata={"a": "b"})
        self.assertEqual((created.new, created.seq), (True, 2))
        self.assertRegex(created.session.id, r"^cs_[0-9A-Za-z]{16}$")
        expected = {
            "id": created.session.id,
            "title": "T",
            "status": "idle",
            "archived": False,
            "owner": {"id": "alice", "name": "Alice", "email": "alice@example.com"},
            "origin": {"type": "opc", "client": "opc/0.1", "slack": None},
            "settings": {"model": None, "effort": None, "mode": None, "speed": "fast"},
            "metadata": {"a": "b"},
            "activeTurnId": None,
            "queued": [],
            "asks": [],
            "subagents": [],
            "lastTurn": None,
            "lastText": None,
            "context": {"usedTokens": None, "windowTokens": None},
            "lastSeq": 2,
            "logEpoch": "le_000000000000",
            "epochStartSeq": 1,
            "createdAt": "2027-01-15T08:00:00.000Z",
            "lastActiveAt": "2027-01-15T08:00:00.000Z",
            "syncedAt": "2027-01-15T08:00:00.000Z",
            "urls": {"dashboard": None},
        }
        self.assertEqual(msgspec.to_builtins(created.session), expected)
        # and it is valid by its own schema
        msgspec.convert(expected, Session)

    def test_the_events_are_one_commit(self) -> None:
        session = self.create(title="T").session
        self.assertEqual(self.types(session.id), ["session.created", "session.status_changed"])
        created, status = self.journal.log[session.id]
        self.assertEqual(set(created.data), {"title", "origin", "settings"})
        self.assertEqual(status.data, {"from": None, "to": "idle"})
        self.assertEqual((created.actor, created.turn_id), (ACTOR, None))

    def test_nothing_is_answered_before_the_commit(self) -> None:
        self.journal.holding = True
        work = self.begin(self.sessions.create(CreateSession(), ALICE, ORIGIN, ACTOR))
        self.assertNoResult(work)
        self.journal.release()
        self.assertTrue(self.successResultOf(work).new)

    def test_the_same_call_gets_the_same_session(self) -> None:
        first = self.create(id=ID, title="T", metadata={"a": "1", "b": "2"})
        self.get(self.sessions.terminal_opened(ID, terminal_id(1), None, ACTOR))
        for sessions in (self.sessions, self.anew()):
            self.sessions = sessions
            again = self.create(id=ID, title="T", metadata={"b": "2", "a": "1"})
            self.assertEqual((again.new, again.seq, again.session.id), (False, first.seq, ID))
            self.assertEqual(again.session.last_seq, 3)
        self.assertEqual(self.types(ID).count("session.created"), 1)

    def test_another_body_or_owner_is_a_conflict(self) -> None:
        self.create(id=ID, title="T")
        for owner, body in ((ALICE, {"title": "U"}), (ALICE, {}), (BOB, {"title": "T"})):
            work = self.sessions.create(CreateSession(id=ID, **body), owner, ORIGIN, ACTOR)  # type: ignore[arg-type]
            self.assertEqual(self.refused(work, Code.ID_CONFLICT).field, "id")

    def test_the_id_of_a_session_that_chose_none_is_a_conflict(self) -> None:
        chosen = self.create().session.id
        self.refused(self.sessions.create(CreateSession(id=chosen), ALICE, ORIGIN, ACTOR), Code.ID_CONFLICT)

    def test_two_at_once(self) -> None:
        self.journal.holding = True
        works = [
            self.begin(self.sessions.create(CreateSession(id=ID, title=title), ALICE, ORIGIN, ACTOR))
            for title in ("T", "T", "U")
        ]
        while self.journal.holding or any(not work.called for work in works):
            self.journal.release()
        self.assertEqual([self.successResultOf(work).new for work in works[:2]], [True, False])
        self.failureResultOf(works[2], ApiError)

    def test_what_needs_an_agent(self) -> None:
        for field, value, code in (
            ("model", "m", Code.UNSUPPORTED_MODEL),
            ("effort", "high", Code.UNSUPPORTED_EFFORT),
            ("mode", "plan", Code.UNSUPPORTED_MODE),
            ("input", "hello", Code.FEATURE_UNAVAILABLE),
        ):
            work = self.sessions.create(CreateSession(**{field: value}), ALICE, ORIGIN, ACTOR)  # type: ignore[arg-type]
            self.assertEqual(self.refused(work, code).field, field)
        self.assertEqual(self.journal.records, {})

    def test_the_journal_refuses(self) -> None:
        self.journal.refusing = ApiError(Code.UNAVAILABLE, "full")
        self.refused(self.sessions.create(CreateSession(), ALICE, ORIGIN, ACTOR), Code.UNAVAILABLE)


class ReadTests(SessionsCase):
    """`get`, `list`, `events`."""

    def test_unknown(self) -> None:
        for name in (session_id(5), "", "cs_", "x" * 255, "'; --", "cs_0123456789abcde\n"):
            self.refused(self.sessions.get(name), Code.SESSION_NOT_FOUND)
            self.refused(self.sessions.events(name, after=0, limit=1, types=None), Code.SESSION_NOT_FOUND)

    def test_synced_at_is_now(self) -> None:
        created = self.create().session
        self.now += 61.5
        session = self.get(self.sessions.get(created.id))
        self.assertEqual((session.synced_at, session.created_at), ("2027-01-15T08:01:01.500Z", created.created_at))

    def test_min_seq(self) -> None:
        session = self.create().session.id
        self.assertEqual(self.get(self.sessions.get(session, 2)).last_seq, 2)
        self.assertEqual(self.refused(self.sessions.get(session, 3), Code.CURSOR_AHEAD).field, "minSeq")

    def test_a_known_session_needs_no_disk(self) -> None:
        session = self.create().session.id
        self.journal.reads = 0
        self.get(self.sessions.record(session))
        self.get(self.sessions.terminal_opened(session, terminal_id(1), None, ACTOR))
        self.assertEqual(self.get(self.sessions.record(session)).last_seq, 3)
        self.assertEqual(self.journal.reads, 0)

    def test_list_in_pages(self) -> None:
        made = []
        for _ in range(5):
            self.now += 1
            made.append(self.create().session.id)
        seen: list[str] = []
        cursor: str | None = None
        for size in (2, 2, 1):
            page, cursor = self.get(self.sessions.list(archived=False, limit=2, cursor=cursor))
            self.assertEqual(len(page), size)
            seen += [session.id for session in page]
        self.assertIsNone(cursor)
        self.assertEqual(seen, made[::-1])
        self.assertEqual(self.get(self.sessions.list(archived=True, limit=2, cursor=None)), ([], None))

    def test_a_full_last_page_has_no_cursor(self) -> None:
        self.create()
        self.assertIsNone(self.get(self.sessions.list(archived=False, limit=1, cursor=None))[1])

    def test_list_with_a_bad_cursor(self) -> None:
        self.refused(self.sessions.list(archived=False, limit=2, cursor="x"), Code.INVALID_CURSOR)

    def test_events_in_pages(self) -> None:
        session = self.create().session.id
        for number in range(3):
            self.get(self.sessions.terminal_opened(session, terminal_id(number), None, ACTOR))
        page = self.get(self.sessions.events(session, after=1, limit=2, types=None))
        self.assertEqual([event.seq for event in page.events], [2, 3])
        self.assertEqual((page.last_seq, page.has_more), (5, True))
        page = self.get(self.sessions.events(session, after=3, limit=2, types=None))
        self.assertEqual(([event.seq for event in page.events], page.has_more), ([4, 5], False))
        page = self.get(self.sessions.events(session, after=5, limit=2, types=None))
        self.assertEqual((list(page.events), page.last_seq, page.has_more), ([], 5, False))

    def test_events_of_types(self) -> None:
        session = self.create().session.id
        self.get(self.sessions.terminal_opened(session, terminal_id(1), None, ACTOR))
        page = self.get(self.sessions.events(session, after=0, limit=1, types=["terminal.opened", "no.such"]))
        self.assertEqual(([event.seq for event in page.events], page.has_more, page.last_seq), ([3], False, 3))
        page = self.get(self.sessions.events(session, after=0, limit=9, types=["no.such"]))
        self.assertEqual((list(page.events), page.has_more), ([], False))

    def test_events_ahead(self) -> None:
        session = self.create().session.id
        work = self.sessions.events(session, after=3, limit=1, types=None)
        self.assertEqual(self.refused(work, Code.CURSOR_AHEAD).field, "after")


class TerminalTests(SessionsCase):
    """`terminal_opened` and `terminal_closed`."""

    def setUp(self) -> None:
        super().setUp()
        self.session = self.create().session.id

    def change(self, **changes: Any) -> None:
        """Changes the session behind its back, as the methods of a later release will."""
        self.journal.records[self.session] = evolve(self.journal.records[self.session], **changes)
        self.sessions = self.anew()

    def open(self, number: int = 1) -> Deferred[None]:
        """Begins to open a terminal."""
        return self.begin(self.sessions.terminal_opened(self.session, terminal_id(number), "ls", ACTOR))

    def test_opened_and_closed(self) -> None:
        self.successResultOf(self.open())
        self.now += 2
        self.get(self.sessions.terminal_closed(self.session, terminal_id(1), 7))
        opened, closed = self.journal.log[self.session][2:]
        self.assertEqual(
            (opened.type, opened.data), ("terminal.opened", {"terminalId": terminal_id(1), "command": "ls"})
        )
        self.assertEqual((closed.type, closed.data), ("terminal.closed", {"terminalId": terminal_id(1), "exitCode": 7}))
        self.assertEqual((opened.actor, closed.actor), (ACTOR, None))
        session = self.get(self.sessions.get(self.session))
        self.assertEqual((session.status, session.last_seq), ("idle", 4))
        self.assertEqual(session.last_active_at, "2027-01-15T08:00:02.000Z")

    def test_a_suspended_session_wakes_in_the_same_commit(self) -> None:
        self.change(status="suspended")
        self.successResultOf(self.open())
        woken, opened = self.journal.log[self.session][2:]
        self.assertEqual((woken.type, woken.data), ("session.status_changed", {"from": "suspended", "to": "idle"}))
        self.assertEqual(opened.type, "terminal.opened")
        self.assertEqual(self.get(self.sessions.get(self.session)).status, "idle")
        self.assertEqual(self.journal.records[self.session].status, "idle")

    def test_two_terminals_wake_it_once(self) -> None:
        self.change(status="suspended")
        self.get(self.sessions.record(self.session))
        self.journal.holding = True
        works = [self.open(number) for number in range(3)]
        while any(not work.called for work in works):
            self.journal.release()
        self.assertEqual(self.types(self.session)[2:], ["session.status_changed", *["terminal.opened"] * 3])

    def test_a_wake_that_fails_can_be_tried_again(self) -> None:
        self.change(status="suspended")
        self.get(self.sessions.record(self.session))
        self.journal.refusing = ApiError(Code.UNAVAILABLE, "full")
        self.failureResultOf(self.open(), ApiError)
        self.journal.heal()
        self.successResultOf(self.open())
        self.assertEqual(self.types(self.session)[2:], ["session.status_changed", "terminal.opened"])

    def test_an_archived_session(self) -> None:
        self.change(archived=True)
        self.assertEqual(self.failureResultOf(self.open(), ApiError).value.args[0][:23], "The session is archived")
        self.assertEqual(len(self.types(self.session)), 2)

    def test_an_unknown_session(self) -> None:
        self.refused(self.sessions.terminal_opened(session_id(9), terminal_id(1), None, ACTOR), Code.SESSION_NOT_FOUND)

    def test_opening_fails_but_closing_waits_for_the_journal(self) -> None:
        self.successResultOf(self.open())
        self.journal.refusing = ApiError(Code.UNAVAILABLE, "full")
        closing = self.begin(self.sessions.terminal_closed(self.session, terminal_id(1), None))
        self.failureResultOf(self.open(2), ApiError)
        self.assertNoResult(closing)
        self.journal.heal()
        self.successResultOf(closing)
        self.assertEqual(self.types(self.session)[2:], ["terminal.opened", "terminal.closed"])

    def test_an_opening_that_was_committed_after_all_is_closed(self) -> None:
        self.journal.doubtful = ApiError(Code.UNAVAILABLE, "slow")
        self.failureResultOf(self.open(), ApiError)
        self.assertEqual(self.types(self.session)[2:], ["terminal.opened"])
        self.journal.release()
        self.assertEqual(self.types(self.session)[2:], ["terminal.opened", "terminal.closed"])
        self.assertEqual(self.get(self.sessions.get(self.session)).last_seq, 4)


class NewsTests(SessionsCase):
    """`news`."""

    def setUp(self) -> None:
        super().setUp()
        self.session = self.create().session.id

    def news(self, seen: int) -> Deferred[bool]:
        """Begins to wait."""
        return self.begin(self.sessions.news(self.session, seen=seen, member="m", seconds=30))

    def test_there_is_news_already(self) -> None:
        self.assertTrue(self.successResultOf(self.news(1)))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_news_come_with_the_commit_whatever_becomes_of_its_caller(self) -> None:
        for doubtful in (None, ApiError(Code.UNAVAILABLE, "slow")):
            news = self.news(self.journal.records[self.session].last_seq)
            self.journal.holding = True
            self.journal.doubtful = doubtful
            work = self.begin(self.sessions.terminal_opened(self.session, terminal_id(1), None, ACTOR))
            work.addErrback(lambda _: None)
            self.assertTrue(self.successResultOf(news))
            self.journal.doubtful = None
            self.journal.release()
            self.successResultOf(work)

    def test_a_new_epoch_is_news(self) -> None:
        news = self.news(2)
        self.journal.renew()
        self.assertTrue(self.successResultOf(news))
        session = self.get(self.sessions.get(self.session))
        self.assertEqual((session.log_epoch, session.epoch_start_seq), (self.journal.log_epoch, 3))

    def test_news_of_another_session(self) -> None:
        news = self.news(2)
        self.get(self.sessions.terminal_opened(self.create().session.id, terminal_id(1), None, ACTOR))
        self.assertNoResult(news)
        self.clock.advance(30)
        self.assertFalse(self.successResultOf(news))

    def test_no_fields_are_unset(self) -> None:
        self.assertNotIn(UNSET, msgspec.structs.asdict(self.get(self.sessions.get(self.session))).values())
