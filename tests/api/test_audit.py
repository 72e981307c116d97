"""The rows of calls: who, on what, how it went, and nothing of what it was about (G1, G4)."""

from __future__ import annotations

from typing import Any, cast

from attrs import define, evolve, field
from msgspec import Struct
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from computerd.api.audit import Entry
from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.api.dispatch import Api
from computerd.api.terminals import Terminals
from computerd.api.trail import Trail
from computerd.contract import objects, results
from computerd.contract.access import RULES
from computerd.contract.errors import ApiError, Code
from computerd.contract.methods import BY_NAME, METHODS
from computerd.contract.params import (
    Attach,
    CreateSession,
    Nothing,
    OfTerminal,
    OpenTerminal,
    ResizeTerminal,
    UpdateSession,
)
from tests.api.callers import a_caller
from tests.net.fakes import SESSION, session
from tests.terminal.recorders import RecordingOutbox

NOW = 1_800_000_000.0
TERMINAL = "tm_0123456789ab"
CONNECTION = "cn_000000000000"


@define(eq=False)
class RecordingAudit:
    """Keeps rows in memory."""

    rows: list[Entry] = field(factory=list)

    def note(self, entry: Entry) -> None:
        """Keeps one."""
        self.rows.append(entry)


@define
class FakeTerminal:
    """What `Channels` needs of one."""

    id: str = TERMINAL
    session_id: str = SESSION
    channel: int = 1


class AuditCase(SynchronousTestCase):
    """A front door whose work a test sets."""

    def setUp(self) -> None:
        self.audit = RecordingAudit()
        self.connection = Connection(id=CONNECTION, caller=a_caller(), outbox=RecordingOutbox())
        nothing: Any = None
        parts: Any = Stub()
        self.api = Api(nothing, nothing, parts, parts, parts, lambda: 0.0, Trail(self.audit, lambda: NOW))
        self.outcome: Struct | Exception = results.Empty()
        works = cast("dict[str, Any]", self.api._work)
        socket_works = cast("dict[str, Any]", self.api._socket_work)
        for name in works:
            works[name] = self.work
        for name in socket_works:
            socket_works[name] = self.work

    async def work(self, *_: object) -> Struct:
        """Every method's."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def call(
        self, method: str, params: Struct, caller: Caller | None = None, *, over_http: bool = False
    ) -> list[Entry]:
        """The rows of one call."""
        self.audit.rows.clear()
        caller = caller or a_caller()
        connection = None if over_http else self.connection
        done: Deferred[Any] = ensureDeferred(self.api.call(BY_NAME[method], params, caller, connection, 0.0))
        done.addErrback(lambda failure: failure.trap(ApiError, ZeroDivisionError))
        self.successResultOf(done)
        return self.audit.rows


class Stub:
    """Has every method."""

    def __getattr__(self, name: str) -> object:
        return name


class CallTests(AuditCase):
    """One row for each call that changes something."""

    def test_which_methods(self) -> None:
        noted = {
            method.name
            for method in METHODS
            if (method.route is None or not method.route.streams) and self.call(method.name, Nothing())
        }
        # an upload is more than one call
        noted.add("files.upload")
        self.assertEqual(
            noted, {method.name for method in METHODS if RULES[method.access].writes} | {"terminals.close"}
        )
        self.assertLess({"sessions.create", "sessions.update", "turns.send", "terminals.open"}, noted)

    def test_what_a_row_says(self) -> None:
        params = UpdateSession(session_id=SESSION, title="CANARY title", metadata={"CANARY": "CANARY"})
        (row,) = self.call("sessions.update", params)
        self.assertEqual(
            row,
            Entry(
                at=NOW, action="sessions.update", result="ok", member="alice", token_id="t", session_id=SESSION,
                subject=CONNECTION,
            ),
        )  # fmt: skip
        self.assertNotIn("CANARY", repr(row))
        (row,) = self.call("sessions.update", params, over_http=True)
        self.assertEqual((row.session_id, row.subject), (SESSION, None))

    def test_a_session_that_is_made(self) -> None:
        self.outcome = results.SessionCreated(session=session(), turn=None, seq=1)
        (row,) = self.call("sessions.create", CreateSession(), over_http=True)
        self.assertEqual((row.session_id, row.result), (SESSION, "ok"))
        self.outcome = ApiError(Code.ID_CONFLICT, "Taken.")
        (row,) = self.call("sessions.create", CreateSession(id=SESSION), over_http=True)
        self.assertEqual((row.session_id, row.result), (SESSION, "id_conflict"))

    def test_a_terminal_that_is_opened(self) -> None:
        self.outcome = results.TerminalOpened(terminal=objects.Terminal(id=TERMINAL, channel=1, stderr_channel=None))
        (row,) = self.call("terminals.open", OpenTerminal(session_id=SESSION, command="echo CANARY", cols=1, rows=1))
        self.assertEqual((row.session_id, row.subject, row.result), (SESSION, TERMINAL, "ok"))
        self.assertNotIn("CANARY", repr(row))

    def test_a_terminal_that_is_closed(self) -> None:
        self.connection.channels._by_id[TERMINAL] = FakeTerminal()  # type: ignore[assignment]  # as far as it is asked
        (row,) = self.call("terminals.close", OfTerminal(terminal_id=TERMINAL))
        self.assertEqual((row.session_id, row.subject), (SESSION, TERMINAL))

    def test_input_is_not_told(self) -> None:
        self.assertEqual(self.call("terminals.resize", ResizeTerminal(terminal_id=TERMINAL, cols=1, rows=1)), [])
        self.assertEqual(self.call("terminals.eof", OfTerminal(terminal_id=TERMINAL)), [])

    def test_an_attach_changes_something_only_when_it_resumes(self) -> None:
        self.assertEqual(self.call("sessions.attach", Attach(session_id=SESSION)), [])
        self.assertEqual(self.call("sessions.attach", Attach(session_id=SESSION, resume=False)), [])
        (row,) = self.call("sessions.attach", Attach(session_id=SESSION, resume=True))
        self.assertEqual((row.action, row.session_id), ("sessions.attach", SESSION))

    def test_refusals_have_their_code(self) -> None:
        params = UpdateSession(session_id=SESSION, title="t")
        (row,) = self.call("sessions.update", params, evolve(a_caller("bob"), scopes=frozenset()))
        self.assertEqual((row.result, row.member), ("forbidden", "bob"))
        self.outcome = ApiError(Code.SESSION_NOT_FOUND, "No such session.")
        self.assertEqual(self.call("sessions.update", params)[0].result, "session_not_found")
        self.outcome = ZeroDivisionError()
        self.assertEqual(self.call("sessions.update", params)[0].result, "internal")

    def test_what_has_not_the_shape_of_an_id_is_left_out(self) -> None:
        for text in ("CANARY", "", SESSION + "x", "x" * 255, "tk_\x1b[2J"):
            (row,) = self.call("sessions.update", UpdateSession(session_id=text, title="t"))
            self.assertEqual((row.session_id, row.subject), (None, CONNECTION))
            (row,) = self.call("terminals.close", OfTerminal(terminal_id=text))
            self.assertEqual((row.session_id, row.subject), (None, CONNECTION))


class EndTests(SynchronousTestCase):
    """`terminal.closed`."""

    def test_who_had_opened_it(self) -> None:
        audit = RecordingAudit()

        async def closed(*_: object) -> None:
            return

        sessions: Any = Stub()
        sessions.terminal_closed = closed
        slots: Any = Stub()
        slots.give_back = lambda session_id: None
        nothing: Any = None
        terminals = Terminals(sessions, nothing, slots, lambda: 0.0, nothing, nothing, Trail(audit, lambda: NOW))
        terminal: Any = Stub()
        terminal.id, terminal.session_id, terminal.channel, terminal.traffic = TERMINAL, SESSION, 1, Stub()
        terminal.traffic.open = 1
        terminals._closed(terminal, 3, Connection(id=CONNECTION, caller=a_caller("bob"), outbox=RecordingOutbox()))
        self.assertEqual(audit.rows, [Entry(NOW, "terminal.closed", "ok", "bob", "t", SESSION, TERMINAL)])


class TrailTests(SynchronousTestCase):
    """`Trail`."""

    def test_a_long_subject_is_cut(self) -> None:
        audit = RecordingAudit()
        Trail(audit, lambda: NOW).note("x", subject="é" * 201, count=3)
        self.assertEqual(audit.rows, [Entry(NOW, "x", subject="é" * 200, count=3)])
