"""`sessions.attach` and `sessions.detach`: what comes after the answer, who may, and what is left of an attach that can't be."""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import evolve
from msgspec import UNSET
from twisted.internet.defer import Deferred

from computerd.api.connection import Connection
from computerd.api.front import Answer
from computerd.contract import limits, results
from computerd.contract.access import Scope
from computerd.contract.errors import ApiError, Code, Reason
from computerd.contract.objects import Capabilities, Timing
from computerd.contract.params import (
    Ack,
    Attach,
    GetSession,
    ListEvents,
    OfSession,
    OpenTerminal,
    Resume,
    Suspend,
    UpdateSession,
)
from computerd.contract.results import SessionDetached
from tests.api.callers import a_caller
from tests.api.test_dispatch import ApiCase
from tests.session.journal_interface import opened, session_id
from tests.session.test_sessions import ID
from tests.terminal.recorders import RecordingOutbox

UNAVAILABLE = ApiError(Code.UNAVAILABLE, "The disk is full.")


class FollowingCase(ApiCase):
    """A session of alice's with four events."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=ID)
        self.commit(2)

    def restart(self) -> None:
        """Nothing is in memory any more."""
        self.sessions = self.anew()
        self.api = self.make_api()

    def commit(self, count: int = 1, session: str = ID) -> None:
        """Something happens."""
        self.journal.append(session, [opened()] * count)

    def begin_attach(self, session: str = ID, connection: Connection | None = None, **params: Any) -> Deferred[Answer]:
        """Asks to follow."""
        return self.call("sessions.attach", Attach(session_id=session, **params), None, connection)

    def attach(self, session: str = ID, connection: Connection | None = None, **params: Any) -> results.Attached:
        """Follows, with the reactor's next turn still to come."""
        answer = self.successResultOf(self.begin_attach(session, connection, **params))
        assert isinstance(answer.result, results.Attached)
        return answer.result

    def attached(self, session: str = ID, **params: Any) -> results.Attached:
        """Follows."""
        attached = self.attach(session, **params)
        self.clock.advance(0)
        return attached

    def another(self, number: int = 1) -> Connection:
        """Another connection of the same member."""
        return Connection(id=f"cn_{number:012d}", caller=a_caller(), outbox=RecordingOutbox())

    def seqs(self, connection: Connection | None = None, session: str = ID) -> list[int]:
        """The events of a session that a connection was sent."""
        outbox = (connection or self.connection).outbox
        assert isinstance(outbox, RecordingOutbox)
        events = [msgspec.json.decode(text)["params"] for what, text in outbox.sent if what == "message"]  # type: ignore[call-overload]  # bytes
        return [event["seq"] for event in events if event["sessionId"] == session]

    def said(self) -> list[object]:
        """The notifications that the connection was sent."""
        return [params for what, params in self.outbox.sent if what != "message"]

    def nothing_is_left(self) -> None:
        """Nobody follows anything."""
        self.assertEqual((self.sessions._feeds.by_session, self.sessions.tally.attached), ({}, 0))
        self.assertEqual(len(self.connection.attachments), 0)
        self.clock.advance(0)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class AttachTests(FollowingCase):
    """`sessions.attach`."""

    def test_the_answer(self) -> None:
        attached = self.attach(after=0)
        self.assertEqual(attached.session, self.get(self.sessions.get(ID)))
        self.assertEqual((attached.log_epoch, attached.epoch_start_seq), ("le_000000000000", 1))
        self.assertEqual(attached.capabilities, Capabilities(models=[], modes=[], features=["terminal", "workspace"]))
        self.assertEqual((attached.earlier_turns, attached.timing), (None, Timing(server_us=0)))

    def test_the_answer_precedes_the_first_event(self) -> None:
        self.attach(after=0)
        self.commit()
        self.assertEqual(self.outbox.sent, [])
        self.clock.advance(0)
        self.assertEqual(self.seqs(), [1, 2, 3, 4, 5])

    def test_after(self) -> None:
        for after in range(5):
            self.attached(after=after)
            self.commit()
            last = self.journal.records[ID].last_seq
            self.assertEqual(self.seqs(), list(range(after + 1, last + 1)))
            self.outbox.sent.clear()

    def test_neither_after_nor_tail(self) -> None:
        self.assertEqual(self.attached().session.last_seq, 4)
        self.assertEqual(self.seqs(), [])
        self.commit(2)
        self.assertEqual(self.seqs(), [5, 6])

    def test_the_tail_of_turns_is_everything(self) -> None:
        self.assertEqual(self.attached(tail_turns=1).earlier_turns, 0)
        self.assertEqual(self.seqs(), [1, 2, 3, 4])

    def test_after_goes_before_the_tail(self) -> None:
        self.attached(after=3, tail_turns=1)
        self.assertEqual(self.seqs(), [4])

    def test_deltas_are_taken(self) -> None:
        self.attached(after=3, deltas=True)
        self.assertEqual(self.seqs(), [4])

    def test_ahead(self) -> None:
        error = self.error(self.begin_attach(after=5))
        self.assertEqual((error.code, error.status, error.field), (Code.CURSOR_AHEAD, 409, "after"))
        self.nothing_is_left()

    def test_ahead_does_not_touch_an_earlier_attach(self) -> None:
        self.attached()
        self.error(self.begin_attach(after=5))
        self.commit()
        self.assertEqual((self.seqs(), self.said()), ([5], []))

    def test_an_unknown_session(self) -> None:
        for name in (session_id(9), "nonsense", ""):
            error = self.error(self.begin_attach(name, after=0))
            self.assertEqual((error.code, error.status), (Code.SESSION_NOT_FOUND, 404))
        self.nothing_is_left()

    def test_the_journal_can_not_be_read(self) -> None:
        self.restart()
        self.journal.refusing = UNAVAILABLE
        self.assertEqual(self.error(self.begin_attach()).code, Code.UNAVAILABLE)
        self.nothing_is_left()

    def test_any_member_may(self) -> None:
        bob = Connection(id="cn_000000000009", caller=a_caller("bob"), outbox=RecordingOutbox())
        self.attach(connection=bob, after=0)
        self.clock.advance(0)
        self.assertEqual(self.seqs(bob), [1, 2, 3, 4])

    def test_two_connections(self) -> None:
        other = self.another()
        self.attach(after=0)
        self.attach(connection=other, after=2)
        self.clock.advance(0)
        self.connection.gone()
        self.commit()
        self.assertEqual((self.seqs(), self.seqs(other)), ([1, 2, 3, 4], [3, 4, 5]))

    def test_again_takes_the_place_of_the_first(self) -> None:
        self.attached(after=0)
        self.outbox.sent.clear()
        self.attached(after=2)
        self.assertEqual((self.seqs(), self.said()), ([3, 4], []))
        self.commit()
        self.assertEqual((self.seqs(), len(self.connection.attachments)), ([3, 4, 5], 1))
        self.assertEqual(self.sessions.tally.attached, 1)

    def test_again_before_the_first_has_begun(self) -> None:
        self.attach(after=0)
        self.attach(after=0)
        self.clock.advance(0)
        self.assertEqual((self.seqs(), self.said()), ([1, 2, 3, 4], []))

    def test_the_connection_ends_while_the_session_is_looked_up(self) -> None:
        self.restart()
        self.journal.holding = True
        attaching = self.begin_attach(after=0)
        self.connection.gone()
        self.journal.release()
        self.assertEqual(self.error(attaching).code, Code.UNAVAILABLE)
        self.nothing_is_left()

    def test_the_connection_ends_before_the_first_event(self) -> None:
        self.attach(after=0)
        self.connection.gone()
        self.nothing_is_left()
        self.assertEqual(self.outbox.sent, [])

    def test_the_connection_ends(self) -> None:
        self.attached(after=0)
        self.outbox.sent.clear()
        self.connection.gone()
        self.commit()
        self.nothing_is_left()
        self.assertEqual(self.outbox.sent, [])

    def test_detach(self) -> None:
        self.attached(after=0)
        for _ in range(2):
            self.successResultOf(self.call("sessions.detach", OfSession(session_id=ID)))
        self.commit()
        self.assertEqual((self.seqs(), self.said()), ([1, 2, 3, 4], []))
        self.nothing_is_left()

    def test_detach_what_is_not_there(self) -> None:
        for name in (session_id(9), "nonsense"):
            answer = self.successResultOf(self.call("sessions.detach", OfSession(session_id=name)))
            self.assertEqual(answer.result, results.Empty())


class ManyTests(FollowingCase):
    """Twenty sessions of a connection."""

    def setUp(self) -> None:
        super().setUp()
        self.others = [self.create().session.id for _ in range(25)]

    def test_twenty_and_no_more(self) -> None:
        self.assertEqual(limits.MAX_ATTACHED, 20)
        for name in self.others[:20]:
            self.attached(name)
        error = self.error(self.begin_attach())
        self.assertEqual((error.code, error.status, error.body()["retryable"]), (Code.TOO_MANY_ATTACHED, 409, True))
        self.attached(self.others[3], after=0)
        self.assertEqual(self.seqs(session=self.others[3]), [1, 2])
        self.attach(connection=self.another())
        self.successResultOf(self.call("sessions.detach", OfSession(session_id=self.others[0])))
        self.attached()
        self.error(self.begin_attach(self.others[21]))
        for name in self.others[1:20]:
            self.commit(1, name)
            self.assertEqual(self.seqs(session=name)[-1], 3)

    def test_all_at_once(self) -> None:
        """None slips through while others are looked up."""
        self.restart()
        self.journal.holding = True
        works = [self.begin_attach(name) for name in self.others]
        self.journal.release()
        codes = [self.error(work).code for work in works[20:]]
        self.assertEqual((codes, len(self.connection.attachments)), ([Code.TOO_MANY_ATTACHED] * 5, 20))
        for work in works[:20]:
            self.successResultOf(work)

    def test_all_at_once_after_a_resume(self) -> None:
        """Nor while they are made ready."""
        self.journal.holding = True
        works = [self.begin_attach(name, resume=True) for name in self.others]
        self.journal.release()
        codes = [self.error(work).code for work in works[20:]]
        self.assertEqual((codes, len(self.connection.attachments)), ([Code.TOO_MANY_ATTACHED] * 5, 20))
        for work in works[:20]:
            self.successResultOf(work)

    def test_one_that_is_too_far_behind_makes_room_and_the_others_go_on(self) -> None:
        self.patch(limits, "MAX_BACKLOG_EVENTS", 10)
        for name in self.others[:20]:
            self.attached(name)
        self.commit(10, self.others[0])
        self.commit(1, self.others[0])
        self.assertEqual(self.said(), [SessionDetached(session_id=self.others[0], reason="too_far_behind")])
        self.attached()
        for name in (self.others[1], ID):
            self.commit(1, name)
            self.assertEqual(len(self.seqs(session=name)), 1)
        self.assertEqual(self.said(), [SessionDetached(session_id=self.others[0], reason="too_far_behind")])

    def test_an_ack_keeps_it(self) -> None:
        self.patch(limits, "MAX_BACKLOG_EVENTS", 10)
        self.attached()
        for _ in range(10):
            self.commit(10)
            self.api.notified(Ack(session_id=ID, seq=self.journal.records[ID].last_seq), self.connection)
        self.assertEqual((self.said(), self.seqs()[-1]), ([], 104))

    def test_a_new_epoch_reaches_every_session(self) -> None:
        for name in self.others[:20]:
            self.attached(name)
        self.journal.renew()
        self.assertEqual(
            self.said(),
            [
                SessionDetached(session_id=name, reason="epoch_changed", log_epoch="le_renewed00000", epoch_start_seq=3)
                for name in self.others[:20]
            ],
        )
        self.nothing_is_left()
        attached = self.attached(self.others[0], after=2)
        self.assertEqual((attached.log_epoch, attached.epoch_start_seq), ("le_renewed00000", 3))


class ResumeTests(FollowingCase):
    """`resume`."""

    def suspend(self) -> None:
        """The session sleeps."""
        self.successResultOf(self.call("sessions.suspend", Suspend(session_id=ID), None, self.another()))

    def test_a_suspended_session_is_ready(self) -> None:
        self.suspend()
        attached = self.attached(after=5, resume=True)
        self.assertEqual((attached.session.status, attached.session.last_seq), ("idle", 7))
        self.assertEqual(self.seqs(), [6, 7])
        self.assertEqual(self.types(ID)[-1], "session.status_changed")

    def test_without_after_it_is_not_told_again(self) -> None:
        self.suspend()
        self.attached(resume=True)
        self.commit()
        self.assertEqual(self.seqs(), [8])

    def test_one_that_is_awake(self) -> None:
        self.assertEqual(self.attached(resume=True).session.last_seq, 4)

    def test_without_resume_it_sleeps_on(self) -> None:
        self.suspend()
        for attached in (self.attached(), self.attached(resume=False)):
            self.assertEqual(attached.session.status, "suspended")

    def test_it_needs_the_scope(self) -> None:
        self.suspend()
        reader = evolve(a_caller(), scopes=frozenset({Scope.SESSIONS_READ}))
        for session in (ID, session_id(9)):
            error = self.error(
                self.call("sessions.attach", Attach(session_id=session, resume=True), reader, self.connection)
            )
            self.assertEqual((error.code, error.reason), (Code.FORBIDDEN, Reason.MISSING_SCOPE))
        self.successResultOf(self.call("sessions.attach", Attach(session_id=ID), reader))
        self.assertEqual(self.journal.records[ID].status, "suspended")

    def test_not_with_read_only(self) -> None:
        self.suspend()
        error = self.error(self.begin_attach(resume=True, read_only=True))
        self.assertEqual((error.code, error.field), (Code.INVALID_REQUEST, "resume"))
        self.assertEqual(self.journal.records[ID].status, "suspended")
        self.nothing_is_left()

    def test_an_archived_session(self) -> None:
        self.successResultOf(self.call("sessions.update", UpdateSession(session_id=ID, archived=True)))
        error = self.error(self.begin_attach(resume=True))
        self.assertEqual((error.code, error.status), (Code.FEATURE_UNAVAILABLE, 409))
        self.nothing_is_left()
        self.assertTrue(self.attached().session.archived)

    def test_what_is_committed_together_with_it(self) -> None:
        """Nothing is lost between the resume and the first event, and nothing comes twice."""
        for after in (None, 4):
            self.suspend()
            last = self.journal.records[ID].last_seq
            self.journal.holding = True
            attaching = self.begin_attach(resume=True, after=UNSET if after is None else last)
            self.commit(2)
            self.journal.release()
            answer = self.successResultOf(attaching).result
            assert isinstance(answer, results.Attached)
            self.clock.advance(0)
            begin = answer.session.last_seq if after is None else last
            for _ in range(2):
                self.assertEqual(self.seqs(), list(range(begin + 1, self.journal.records[ID].last_seq + 1)))
                self.commit()
            self.successResultOf(self.call("sessions.detach", OfSession(session_id=ID)))
            self.outbox.sent.clear()

    def test_the_connection_ends_meanwhile(self) -> None:
        self.suspend()
        self.journal.holding = True
        attaching = self.begin_attach(resume=True)
        self.connection.gone()
        self.journal.release()
        self.assertEqual(self.error(attaching).code, Code.UNAVAILABLE)
        self.nothing_is_left()

    def test_the_journal_takes_nothing(self) -> None:
        self.suspend()
        self.journal.refusing = UNAVAILABLE
        self.assertEqual(self.error(self.begin_attach(resume=True)).code, Code.UNAVAILABLE)
        self.nothing_is_left()


class ReadOnlyTests(FollowingCase):
    """`readOnly`."""

    WRITES = (
        ("sessions.update", UpdateSession(session_id=ID, title="U")),
        ("sessions.suspend", Suspend(session_id=ID)),
        ("sessions.resume", Resume(session_id=ID)),
        ("terminals.open", OpenTerminal(session_id=ID, cols=80, rows=24)),
    )

    def refusals(self) -> list[tuple[Code, Reason | None] | None]:
        """What each write on the connection comes to."""
        found: list[tuple[Code, Reason | None] | None] = []
        for method, params in self.WRITES:
            outcome: list[Any] = []
            self.call(method, params).addBoth(outcome.append)
            error = getattr(outcome[0], "value", None)
            found.append((error.code, error.reason) if isinstance(error, ApiError) else None)
        return found

    def test_what_would_change_the_session_is_refused(self) -> None:
        self.attached(after=0, read_only=True)
        self.assertEqual(self.refusals(), [(Code.FORBIDDEN, Reason.READ_ONLY)] * 4)
        self.assertEqual((self.types(ID)[4:], self.spawner.spawned), ([], []))
        self.assertEqual(self.seqs(), [1, 2, 3, 4])

    def test_reading_goes_on(self) -> None:
        self.attached(read_only=True)
        for method, params in (
            ("sessions.get", GetSession(session_id=ID)),
            ("events.list", ListEvents(session_id=ID)),
            ("sessions.attach", Attach(session_id=ID, read_only=True)),
            ("sessions.detach", OfSession(session_id=ID)),
        ):
            self.successResultOf(self.call(method, params))

    def test_other_sessions_and_connections_go_on(self) -> None:
        self.attached(read_only=True)
        other = self.create().session.id
        self.successResultOf(self.call("sessions.update", UpdateSession(session_id=other, title="U")))
        self.successResultOf(
            self.call("sessions.update", UpdateSession(session_id=ID, title="U"), None, self.another())
        )

    def test_until_it_is_attached_without_or_detached(self) -> None:
        for lift in (Attach(session_id=ID), Attach(session_id=ID, read_only=False), OfSession(session_id=ID)):
            self.attached(read_only=True)
            self.assertIsNotNone(self.refusals()[0])
            method = "sessions.attach" if isinstance(lift, Attach) else "sessions.detach"
            self.successResultOf(self.call(method, lift))
            self.assertEqual(self.refusals(), [None] * 4)

    def test_an_attach_that_fails_changes_nothing(self) -> None:
        self.attached(read_only=True)
        self.error(self.begin_attach(after=99))
        self.assertEqual(self.refusals(), [(Code.FORBIDDEN, Reason.READ_ONLY)] * 4)
