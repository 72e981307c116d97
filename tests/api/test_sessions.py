"""The methods about sessions."""

from __future__ import annotations

from typing import Any, cast

from computerd.api import sessions
from computerd.contract.errors import Code
from computerd.contract.objects import Origin, Person
from computerd.contract.params import CreateSession, GetSession, ListSessions, Resume, Suspend, UpdateSession
from computerd.contract.results import OneSession, SessionChanged, SessionCreated, SessionList
from computerd.session.lifecycle import Lifecycle
from tests.api.callers import a_caller
from tests.session.processes import FakeProcesses
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


class ChangeMethodTests(SessionsCase):
    """The methods that change a session."""

    def setUp(self) -> None:
        super().setUp()
        self.processes = FakeProcesses()
        self.lifecycle = Lifecycle(self.sessions, self.processes, self.clock)
        self.create(id=ID, title="T")

    def update(self, **params: Any) -> SessionChanged:
        """What `sessions.update` answers."""
        return self.get(sessions.update(self.lifecycle, UpdateSession(session_id=ID, **params), a_caller("bob")))

    def shows(self, changed: SessionChanged) -> None:
        """The answer is the session as anybody sees it, and where its journal is."""
        self.assertEqual(changed.session, self.get(self.sessions.get(ID)))
        self.assertEqual(changed.seq, changed.session.last_seq)
        self.assertEqual(changed.seq, self.journal.log[ID][-1].seq)

    def test_update(self) -> None:
        changed = self.update(title="U", speed="standard", metadata={"a": "b"})
        self.shows(changed)
        self.assertEqual((changed.session.title, changed.session.settings.speed), ("U", "standard"))
        self.assertEqual((changed.session.metadata, changed.seq), ({"a": "b"}, 3))
        self.assertEqual(self.journal.log[ID][-1].actor, a_caller("bob").actor)

    def test_update_nothing(self) -> None:
        changed = self.update()
        self.shows(changed)
        self.assertEqual(changed.seq, 2)

    def test_what_needs_an_agent(self) -> None:
        for name, code in (
            ("model", Code.UNSUPPORTED_MODEL),
            ("effort", Code.UNSUPPORTED_EFFORT),
            ("mode", Code.UNSUPPORTED_MODE),
        ):
            changes: dict[str, Any] = {name: "x", "title": "U"}
            params = UpdateSession(session_id=ID, **changes)
            error = self.refused(sessions.update(self.lifecycle, params, a_caller()), code)
            self.assertEqual((error.field, error.status), (name, 400))
        self.assertEqual(len(self.types(ID)), 2)

    def test_archive_and_back(self) -> None:
        changed = self.update(archived=True)
        self.shows(changed)
        self.assertEqual((changed.session.archived, changed.session.status, changed.seq), (True, "suspended", 5))
        changed = self.update(archived=False)
        self.shows(changed)
        self.assertEqual((changed.session.archived, changed.session.status, changed.seq), (False, "suspended", 6))

    def test_suspend_and_resume(self) -> None:
        for seq in (4, 4):
            params = Suspend(session_id=ID, if_idle=True)
            changed = self.get(sessions.suspend(self.lifecycle, params, a_caller("bob")))
            self.shows(changed)
            self.assertEqual((changed.session.status, changed.seq), ("suspended", seq))
        for seq in (5, 5):
            changed = self.get(sessions.resume(self.lifecycle, Resume(session_id=ID), a_caller("bob")))
            self.shows(changed)
            self.assertEqual((changed.session.status, changed.seq), ("idle", seq))
        self.assertEqual(self.journal.log[ID][-1].actor, a_caller("bob").actor)

    def test_suspend_if_idle(self) -> None:
        self.processes.open.add(ID)
        error = self.refused(
            sessions.suspend(self.lifecycle, Suspend(session_id=ID, if_idle=True), a_caller()), Code.SESSION_BUSY
        )
        self.assertEqual(error.status, 409)
        for params in (Suspend(session_id=ID, if_idle=False), Suspend(session_id=ID)):
            self.processes.open.add(ID)
            self.get(sessions.suspend(self.lifecycle, params, a_caller()))
            self.assertEqual(self.journal.records[ID].status, "suspended")
            self.get(sessions.resume(self.lifecycle, Resume(session_id=ID), a_caller()))
