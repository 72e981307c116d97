"""Idempotency keys, from the request to the answer: the same bytes, whatever has happened since."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET
from twisted.internet.defer import Deferred

from computerd.api.front import Answer
from computerd.api.idempotency import digest, session_key
from computerd.contract.errors import ApiError, Code
from computerd.contract.params import Resume, Suspend, UpdateSession
from computerd.contract.results import SessionChanged
from tests.api.callers import a_caller
from tests.api.test_dispatch import ApiCase
from tests.session.test_sessions import ID


class KeyCase(ApiCase):
    """A session of alice's."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=ID)

    def begin_update(self, member: str = "alice", **params: Any) -> Deferred[Answer]:
        """Asks for changes."""
        return self.call("sessions.update", UpdateSession(session_id=ID, **params), a_caller(member))

    def sent(self, answer: Deferred[Answer]) -> bytes:
        """What goes over the wire."""
        return msgspec.json.encode(self.successResultOf(answer).result)

    def update(self, member: str = "alice", **params: Any) -> bytes:
        """Changes the session."""
        return self.sent(self.begin_update(member, **params))


class AnswerTests(KeyCase):
    """The answer of the first time."""

    def test_byte_for_byte(self) -> None:
        first = self.update(idempotency_key="k", title="U")
        self.now += 100
        self.update(title="V")
        self.assertEqual(self.update(idempotency_key="k", title="U"), first)
        found = msgspec.json.decode(first, type=SessionChanged)
        self.assertEqual((found.seq, found.session.title, found.session.last_seq), (3, "U", 3))
        self.assertEqual(found.session.synced_at, "2027-01-15T08:00:00.000Z")
        self.assertEqual((self.journal.records[ID].title, self.types(ID).count("session.updated")), ("V", 2))

    def test_also_after_a_restart(self) -> None:
        first = self.update(idempotency_key="k", title="U")
        self.now += 3600
        self.sessions = self.anew()
        self.api = self.make_api()
        self.assertEqual(self.update(idempotency_key="k", title="U"), first)

    def test_the_first_answer_is_as_without_a_key(self) -> None:
        with_key = self.update(idempotency_key="k", title="U")
        without = self.update(title="U")
        self.assertEqual(with_key, without)

    def test_without_a_key_it_is_done_again(self) -> None:
        for _ in range(2):
            self.update(title="U")
            self.update(title="V")
        self.assertEqual(self.types(ID).count("session.updated"), 4)

    def test_two_at_once(self) -> None:
        self.journal.holding = True
        works = [self.begin_update(idempotency_key="k", title="U") for _ in range(2)]
        self.journal.release()
        self.assertEqual(self.sent(works[0]), self.sent(works[1]))
        self.assertEqual(self.types(ID).count("session.updated"), 1)

    def test_a_suspension_is_not_repeated(self) -> None:
        params = Suspend(session_id=ID, idempotency_key="k")
        first = self.sent(self.call("sessions.suspend", params))
        self.successResultOf(self.call("sessions.resume", Resume(session_id=ID, idempotency_key="k")))
        self.now += 5
        self.assertEqual(self.sent(self.call("sessions.suspend", params)), first)
        self.assertEqual((self.journal.records[ID].status, self.spawner.sessions_ended), ("idle", [ID]))

    def test_the_answer_of_an_answer_that_was_lost(self) -> None:
        """The caller was told `unavailable`, and it was committed all the same."""
        self.journal.doubtful = ApiError(Code.UNAVAILABLE, "slow")
        self.assertEqual(self.error(self.begin_update(idempotency_key="k", title="U")).code, Code.UNAVAILABLE)
        self.journal.doubtful = None
        found = msgspec.json.decode(self.update(idempotency_key="k", title="U"), type=SessionChanged)
        self.assertEqual((found.seq, self.types(ID).count("session.updated")), (3, 1))


class ConflictTests(KeyCase):
    """The same key for something else."""

    def test_other_params(self) -> None:
        self.update(idempotency_key="k", title="U")
        for params in ({"title": "V"}, {}, {"title": "U", "speed": "fast"}, {"title": "U", "archived": False}):
            error = self.error(self.begin_update(idempotency_key="k", **params))
            self.assertEqual(
                (error.code, error.status, error.field), (Code.IDEMPOTENCY_CONFLICT, 409, "idempotencyKey")
            )
        self.assertEqual(self.types(ID).count("session.updated"), 1)

    def test_another_session(self) -> None:
        other = self.create().session.id
        self.update(idempotency_key="k", title="U")
        work = self.call("sessions.update", UpdateSession(session_id=other, idempotency_key="k", title="U"))
        self.assertEqual(self.error(work).code, Code.IDEMPOTENCY_CONFLICT)

    def test_another_member(self) -> None:
        self.update(idempotency_key="k", title="U")
        self.update("bob", idempotency_key="k", title="V")
        self.assertEqual(self.journal.records[ID].title, "V")

    def test_another_method(self) -> None:
        for method, params in (
            ("sessions.suspend", Suspend(session_id=ID, idempotency_key="k")),
            ("sessions.resume", Resume(session_id=ID, idempotency_key="k")),
            ("sessions.update", UpdateSession(session_id=ID, idempotency_key="k", title="U")),
        ):
            self.successResultOf(self.call(method, params))
        self.assertEqual(self.types(ID)[2:], ["runtime.suspended", *["session.status_changed"] * 2, "session.updated"])


class DigestTests(KeyCase):
    """What of a request is compared."""

    def test_the_order_of_metadata_does_not_count(self) -> None:
        first, second = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
        self.assertEqual(self.of(metadata=first), self.of(metadata=second))
        self.assertNotEqual(self.of(metadata=first), self.of(metadata={"a": "2", "b": "1"}))

    def test_everything_else_does(self) -> None:
        params: tuple[dict[str, Any], ...] = (
            {},
            {"title": "U"},
            {"title": "u"},
            {"speed": "fast"},
            {"archived": True},
            {"archived": False},
            {"metadata": {}},
            {"metadata": {"a": ""}},
        )
        self.assertEqual(len({self.of(**some) for some in params}), len(params))

    def of(self, **params: Any) -> str:
        """The digest."""
        return digest(UpdateSession(session_id=ID, idempotency_key="k", **params))

    def test_no_key(self) -> None:
        self.assertIsNone(session_key(self.sessions, "m", Resume(session_id=ID), UNSET, a_caller()))
