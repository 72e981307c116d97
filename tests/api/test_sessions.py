"""The methods about sessions."""

from __future__ import annotations

from typing import cast

from computerd.api import sessions
from computerd.contract.errors import Code
from computerd.contract.objects import Origin, Person
from computerd.contract.params import CreateSession, GetSession, ListSessions
from computerd.contract.results import OneSession, SessionCreated, SessionList
from tests.api.callers import a_caller
from tests.session.test_sessions import ID, SessionsCase


class SessionMethodTests(SessionsCase):
    """From params to result."""

    def made(self, member: str = "alice", **body: object) -> tuple[SessionCreated, int | None]:
        """What `sessions.create` answers, and its own status."""
        params = CreateSession(**body)  # type: ignore[arg-type]
        answer = self.get(sessions.create(self.sessions, params, a_caller(member)))
        return cast("SessionCreated", answer.result), answer.status

    def test_create(self) -> None:
        result, status = self.made(title="T")
        self.assertIsNone(status)
        self.assertEqual((result.session.title, result.turn, result.seq), ("T", None, 2))
        self.assertEqual(result.session.owner, Person(id="alice", name="Alice", email=None))
        self.assertEqual(result.session.origin, Origin(type="opc", client="opc/0.1", slack=None))
        actor = self.journal.log[result.session.id][0].actor
        self.assertEqual(actor, a_caller().actor)

    def test_create_again(self) -> None:
        first, _ = self.made(id=ID)
        again, status = self.made(id=ID)
        self.assertEqual(status, 200)
        self.assertEqual(again, first)

    def test_create_with_the_id_of_another(self) -> None:
        self.made(id=ID)
        self.refused(sessions.create(self.sessions, CreateSession(id=ID), a_caller("bob")), Code.ID_CONFLICT)

    def test_get(self) -> None:
        made, _ = self.made()
        found = self.get(sessions.get(self.sessions, GetSession(session_id=made.session.id), a_caller("bob")))
        self.assertEqual(found, OneSession(session=made.session))

    def test_get_what_is_not_there(self) -> None:
        for session_id in (ID, "", "nonsense"):
            work = sessions.get(self.sessions, GetSession(session_id=session_id), a_caller())
            self.refused(work, Code.SESSION_NOT_FOUND)

    def test_get_with_min_seq(self) -> None:
        made, _ = self.made()
        self.get(sessions.get(self.sessions, GetSession(session_id=made.session.id, min_seq=2), a_caller()))
        ahead = GetSession(session_id=made.session.id, min_seq=3)
        self.refused(sessions.get(self.sessions, ahead, a_caller()), Code.CURSOR_AHEAD)

    def test_list_nothing(self) -> None:
        page = self.get(sessions.list_sessions(self.sessions, ListSessions(), a_caller()))
        self.assertEqual(page, SessionList(sessions=[], next_cursor=None))

    def test_list_shows_every_members_sessions(self) -> None:
        ids = []
        for member in ("alice", "bob", "alice"):
            self.now += 1
            ids.append(self.made(member)[0].session.id)
        first = self.get(sessions.list_sessions(self.sessions, ListSessions(limit=2), a_caller()))
        assert first.next_cursor is not None
        rest = self.get(
            sessions.list_sessions(self.sessions, ListSessions(limit=2, cursor=first.next_cursor), a_caller())
        )
        self.assertEqual([session.id for session in (*first.sessions, *rest.sessions)], ids[::-1])
        self.assertIsNone(rest.next_cursor)

    def test_list_the_archive(self) -> None:
        self.made()
        page = self.get(sessions.list_sessions(self.sessions, ListSessions(archived=True), a_caller()))
        self.assertEqual(page.sessions, [])
