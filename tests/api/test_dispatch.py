"""From a method's row to its work: which methods have theirs, who may call them, and how long it took."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve
from twisted.internet.defer import Deferred

from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.api.dispatch import Api
from computerd.api.files import WorkspaceFiles
from computerd.api.following import Following
from computerd.api.front import Answer
from computerd.api.terminals import Terminals
from computerd.contract import results
from computerd.contract.access import Access, Scope
from computerd.contract.errors import ApiError, Code, Reason
from computerd.contract.methods import BY_NAME, METHODS
from computerd.contract.params import (
    Ack,
    Attach,
    GetSession,
    Nothing,
    OfTerminal,
    OpenTerminal,
    Telemetry,
    TelemetryClient,
)
from computerd.session.lifecycle import Lifecycle
from computerd.terminal.slots import Slots
from tests.api.callers import a_caller
from tests.host.fake_process import FakeSpawner
from tests.session.fake_journal import seeded
from tests.session.test_sessions import ID, SessionsCase
from tests.terminal.recorders import RecordingOutbox
from tests.workspace.fake_files import FakeFiles


class ApiCase(SessionsCase):
    """The whole front door, on a fake journal and fake processes."""

    def setUp(self) -> None:
        super().setUp()
        self.spawner = FakeSpawner()
        self.slots = Slots()
        self.files = FakeFiles()
        self.outbox = RecordingOutbox()
        self.connection = Connection(id="cn_000000000000", caller=a_caller(), outbox=self.outbox)
        self.api = self.make_api()

    def make_api(self) -> Api:
        """The front door to `sessions`."""

        def soon(function: Callable[[], None]) -> object:
            return self.clock.callLater(0, function)

        terminals = Terminals(self.sessions, self.spawner, self.slots, self.clock.seconds, seeded(), soon)
        lifecycle = Lifecycle(self.sessions, terminals, self.clock)
        following = Following(self.sessions, lifecycle, soon)
        files = WorkspaceFiles(self.sessions, self.files)
        return Api(self.sessions, lifecycle, following, terminals, files, self.clock.seconds)

    @property
    def exits(self) -> list[object]:
        """The `terminal.exited` that were sent."""
        return [params for method, params in self.outbox.sent if method == "terminal.exited"]

    def call(
        self, method: str, params: object, caller: Caller | None = None, connection: Connection | None = None
    ) -> Deferred[Answer]:
        """One call, on the connection unless another is given, which has just arrived."""
        on = self.connection if connection is None else connection
        return self.begin(
            self.api.call(BY_NAME[method], params, caller or on.caller, on, self.clock.seconds())  # type: ignore[arg-type]  # of any method
        )

    def error(self, answer: Deferred[Answer]) -> ApiError:
        """What it was refused with, at once."""
        error = self.failureResultOf(answer, ApiError).value
        assert isinstance(error, ApiError)
        return error


class DispatchTests(ApiCase):
    """`Api`."""

    def test_every_method_has_its_work_and_only_one(self) -> None:
        self.assertEqual([method.name for method in METHODS if not self.api.serves(method)], [])
        tables = (self.api._work, self.api._socket_work, self.api._gifts, self.api._takers)
        self.assertEqual(sorted(name for table in tables for name in table), sorted(BY_NAME))

    def test_what_has_a_route_needs_no_connection(self) -> None:
        routes = {method.name: method.route for method in METHODS if method.route is not None}
        self.assertEqual(set(self.api._work), {name for name, route in routes.items() if not route.streams})
        self.assertEqual(set(self.api._gifts), {name for name, route in routes.items() if route.gives})
        self.assertEqual(set(self.api._takers), {name for name, route in routes.items() if route.takes})

    def test_the_scope_is_asked_for_before_anything_else(self) -> None:
        """C4, C5: of a session that is not there: who lacks the scope does not learn that."""
        scopes = {
            Access.READ: Scope.SESSIONS_READ,
            Access.WRITE: Scope.SESSIONS_WRITE,
            Access.TERMINALS: Scope.TERMINALS,
            Access.OWN_TERMINAL: Scope.TERMINALS,
        }
        for method in METHODS:
            if method.access not in scopes:
                continue
            caller = evolve(a_caller(), admin=True, scopes=frozenset(Scope) - {scopes[method.access]})
            error = self.error(self.call(method.name, None, caller))
            self.assertEqual((error.code, error.reason), (Code.FORBIDDEN, Reason.MISSING_SCOPE), method.name)

    def test_what_needs_a_connection_is_not_there_over_http(self) -> None:
        for method in METHODS:
            if method.route is None:
                work = self.api.call(method, None, a_caller(), None, 0.0)  # type: ignore[arg-type]  # it is not looked at
                self.assertEqual(self.refused(work, Code.NOT_FOUND).status, 404, method.name)

    def test_ping_says_how_long_it_took_from_its_arrival(self) -> None:
        arrived = self.clock.seconds()
        self.clock.advance(0.25)
        answer = self.get(self.api.call(BY_NAME["ping"], Nothing(), a_caller(), self.connection, arrived))
        assert isinstance(answer.result, results.Pong)
        self.assertEqual(answer.result.timing.server_us, 250_000)

    def test_dropped_input_is_told_to_the_next_request_which_is_not_carried_out(self) -> None:
        self.create(id=ID)
        self.successResultOf(self.call("terminals.open", OpenTerminal(session_id=ID, cols=80, rows=24)))
        (process,) = self.spawner.spawned
        self.connection.channels.input(1, b"x" * (1 << 20))
        self.connection.channels.input(1, b"y")
        terminal = OfTerminal(terminal_id=process.start_data.terminal_id)
        error = self.error(self.call("terminals.eof", terminal))
        self.assertEqual((error.code, error.status), (Code.RATE_LIMITED, 429))
        assert error.retry_after_ms is not None
        self.assertGreater(error.retry_after_ms, 0)
        self.assertFalse(process.input_ended)
        self.successResultOf(self.call("terminals.eof", terminal))
        self.assertTrue(process.input_ended)
        self.assertEqual(len(process.input), 1 << 20)

    def test_no_session_of_another_member_is_hidden(self) -> None:
        self.create(id=ID)
        answer = self.successResultOf(self.call("sessions.get", GetSession(session_id=ID), a_caller("bob")))
        assert isinstance(answer.result, results.OneSession)
        self.assertEqual(answer.result.session.owner.id, "alice")


class NotifiedTests(ApiCase):
    """What clients say without asking. Nothing is answered."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=ID)

    def attach(self, **params: object) -> None:
        """Follows the session."""
        self.successResultOf(self.call("sessions.attach", Attach(session_id=ID, **params)))  # type: ignore[arg-type]
        self.clock.advance(0)

    def test_an_ack_reaches_its_session(self) -> None:
        self.attach(after=0)
        follower = self.connection.attachments._places[ID].follower
        self.assertEqual((follower.sent, follower.acked), (2, 0))
        self.api.notified(Ack(session_id=ID, seq=1), self.connection)
        self.assertEqual(follower.acked, 1)
        self.api.notified(Ack(session_id=ID, seq=2), self.connection)
        self.assertEqual(follower.acked, 2)

    def test_an_ack_of_what_was_not_sent_or_was_acknowledged_before_is_passed_over(self) -> None:
        self.attach(after=0)
        follower = self.connection.attachments._places[ID].follower
        for seq in (3, 2**53 - 1):
            self.api.notified(Ack(session_id=ID, seq=seq), self.connection)
            self.assertEqual(follower.acked, 0, seq)
        self.api.notified(Ack(session_id=ID, seq=2), self.connection)
        for seq in (0, 1, 2):
            self.api.notified(Ack(session_id=ID, seq=seq), self.connection)
            self.assertEqual(follower.acked, 2, seq)

    def test_an_ack_before_the_first_event_or_of_a_session_that_is_not_attached_means_nothing(self) -> None:
        for session in (ID, "cs_00000000000000zz", "nonsense", ""):
            self.api.notified(Ack(session_id=session, seq=1), self.connection)
        self.assertEqual(len(self.connection.attachments), 0)
        self.successResultOf(self.call("sessions.attach", Attach(session_id=ID, after=0)))
        self.api.notified(Ack(session_id=ID, seq=2), self.connection)
        follower = self.connection.attachments._places[ID].follower
        self.clock.advance(0)
        self.assertEqual((follower.sent, follower.acked), (2, 0))

    def test_an_ack_is_its_connections(self) -> None:
        self.attach(after=0)
        other = Connection(id="cn_000000000001", caller=a_caller(), outbox=RecordingOutbox())
        self.api.notified(Ack(session_id=ID, seq=2), other)
        self.assertEqual(self.connection.attachments._places[ID].follower.acked, 0)

    def test_an_ack_after_the_detach_or_the_end_means_nothing(self) -> None:
        self.attach()
        self.connection.attachments.detach(ID)
        self.api.notified(Ack(session_id=ID, seq=2), self.connection)
        self.connection.gone()
        self.api.notified(Ack(session_id=ID, seq=2), self.connection)
        self.assertEqual(len(self.connection.attachments), 0)

    def test_telemetry_changes_nothing(self) -> None:
        self.attach()
        sent, log = list(self.outbox.sent), list(self.journal.log[ID])
        said = Telemetry(v=1, client=TelemetryClient(name="opc", version="0.1"), events=[{"name": "start"}])
        self.api.notified(said, self.connection)
        self.assertEqual((self.outbox.sent, self.journal.log[ID]), (sent, log))
