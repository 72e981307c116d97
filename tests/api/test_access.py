"""Every cell of the access table over WebSocket: who may call which method on what, against what `access_table` has typed in from the pages."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen

from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.contract.access import Scope
from computerd.contract.decoding import decode
from computerd.contract.errors import ApiError, Code
from computerd.contract.methods import BY_NAME, METHODS
from computerd.contract.objects import Person
from computerd.contract.params import Attach, OpenTerminal
from tests.api.access_table import (
    HTTP_ONLY,
    LINES,
    RANKS,
    REASONS,
    SCOPE_SETS,
    SCOPES,
    STATUSES,
    THERE,
    WITHOUT_REASON,
    Line,
)
from tests.api.test_dispatch import ApiCase
from tests.session.journal_interface import session_id
from tests.terminal.recorders import RecordingOutbox

OVER_WEBSOCKET = tuple(line for line in LINES if line.method not in HTTP_ONLY)
MODES = {"plain": False, "readOnly": True}
SHOWN = 20
"""Wrong cells that a failure lists."""
MINE = session_id(1)
"""A session of the caller's own, for terminals of its own."""


@frozen
class Cell:
    """One call by one credential on one kind of connection."""

    line: Line
    scopes: frozenset[str]
    rank: str
    mode: str

    def __str__(self) -> str:
        scopes = ", ".join(scope for scope in SCOPES if scope in self.scopes) or "no scope"
        return f"{self.line.call} on {self.line.on}, {self.mode}, by {self.rank} with {scopes}"

    @property
    def expected(self) -> str:
        """In a word of the table."""
        return self.line.expected(self.scopes, self.rank, read_only=MODES[self.mode])

    @property
    def caller(self) -> Caller:
        """Whose credential it is."""
        return a_caller(self.rank, self.scopes)


CELLS = tuple(
    Cell(line, scopes, rank, mode)
    for line in OVER_WEBSOCKET
    for scopes in SCOPE_SETS
    for rank in RANKS
    for mode in MODES
)


def a_caller(rank: str, scopes: frozenset[str] = frozenset(SCOPES)) -> Caller:
    """A caller of that rank."""
    member, admin = RANKS[rank]
    return Caller(
        member=Person(id=member, name=None, email=None),
        admin=admin,
        scopes=frozenset(map(Scope, scopes)),
        via="api",
        client=None,
        token_id="t",
        issued_at=0.0,
        expires_at=None,
    )


def word(outcome: ApiError | None) -> str:
    """What a call came to, in a word of the table; what the table has no word for, with all that it says."""
    if outcome is None:
        return "ok"
    known = str((outcome.reason or WITHOUT_REASON) if outcome.code is Code.FORBIDDEN else outcome.code)
    if STATUSES.get(known) != outcome.status:
        return f"{outcome.code.value} {outcome.reason} {outcome.status}"
    return known


class TableTests(ApiCase):
    """The table of the tests itself."""

    def test_it_has_every_method_and_no_other(self) -> None:
        """C4: a method that nobody has decided about fails here."""
        self.assertEqual({line.method for line in LINES}, set(BY_NAME))
        self.assertEqual({method.name for method in METHODS if not method.socket}, set(HTTP_ONLY))

    def test_it_has_every_scope(self) -> None:
        self.assertEqual({scope.value for scope in Scope}, set(SCOPES))
        self.assertEqual(len(set(SCOPE_SETS)), 32)

    def test_every_session_is_there_and_absent_and_every_terminal_foreign_too(self) -> None:
        for method in METHODS:
            on = {line.on for line in LINES if line.method == method.name}
            fields = method.params.__struct_fields__
            if "session_id" in fields:
                self.assertEqual(on, {"there", "absent"}, method.name)
            elif "terminal_id" in fields:
                self.assertEqual(on, {"own", "foreign", "absent"}, method.name)
            else:
                self.assertIn(on, ({"all"}, {"free", "taken"}), method.name)


class CellTests(ApiCase):
    """Each cell, through the real front door."""

    COUNT: ClassVar = 10_368
    """Cells: 54 lines of the table that are for WebSocket, times 32 sets of scopes, 3 ranks, and 2 kinds of connection."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=THERE)
        for rank in RANKS:
            self.create(a_caller(rank).member, id=self.mine(rank))

    def mine(self, rank: str) -> str:
        """The session in which a caller of that rank has terminals of its own."""
        return THERE if rank == "owner" else session_id(list(RANKS).index(rank))

    def connect(self, caller: Caller) -> Connection:
        """A connection."""
        return Connection(id="cn_000000000000", caller=caller, outbox=RecordingOutbox())

    def terminal(self, session: str, connection: Connection, caller: Caller) -> str:
        """Opens one."""
        answer = self.call("terminals.open", OpenTerminal(session_id=session, cols=80, rows=24), caller, connection)
        result: Any = self.successResultOf(answer).result
        return str(result.terminal.id)

    def named(self, cell: Cell, connection: Connection, others: Connection) -> str | None:
        """The terminal that a cell names."""
        if not cell.line.names_terminal:
            return None
        if cell.line.on == "own":
            return self.terminal(self.mine(cell.rank), connection, a_caller(cell.rank))
        if cell.line.on == "foreign":
            return self.terminal(THERE, others, others.caller)
        return "tm_00000000000z"

    def ask(self, cell: Cell) -> ApiError | None:
        """Does what a cell says, on connections of its own: the refusal, or None. A refusal has no effect."""
        connection, others = self.connect(cell.caller), self.connect(a_caller("owner"))
        terminal = self.named(cell, connection, others)
        if MODES[cell.mode]:
            attach = Attach(session_id=THERE, read_only=True)
            self.successResultOf(self.call("sessions.attach", attach, a_caller(cell.rank), connection))
        before = self.effects(connection)
        method = BY_NAME[cell.line.method]
        outcome: list[Any] = []
        self.call(method.name, decode(method.params, cell.line.params(terminal)), cell.caller, connection).addBoth(
            outcome.append
        )
        refusal = getattr(outcome[0], "value", None)
        if isinstance(refusal, ApiError):
            self.assertEqual(self.effects(connection), before, f"{cell} was refused and had an effect")
        elif refusal is not None:
            raise refusal
        self.clock.advance(0)
        connection.gone()
        others.gone()
        self.spawner.spawned.clear()
        return refusal if isinstance(refusal, ApiError) else None

    def effects(self, connection: Connection) -> tuple[object, ...]:
        """What a call could have changed."""
        return (
            sum(map(len, self.journal.log.values())),
            len(self.spawner.spawned),
            len(self.spawner.sessions_ended),
            [process.hung_up or process.input_ended or process.sizes for process in self.spawner.spawned],
            len(connection.attachments),
            connection.attachments.read_only(THERE),
        )

    def test_every_cell(self) -> None:
        """C4, C5."""
        wrong = []
        for cell in CELLS:
            came = word(self.ask(cell))
            if came != cell.expected:
                wrong.append(f"{cell}: {came}, not {cell.expected}")
        if wrong:
            self.fail(f"{len(wrong)} of {len(CELLS)} cells are wrong, such as\n" + "\n".join(wrong[:SHOWN]))

    def test_how_many_there_are(self) -> None:
        self.assertEqual(len(set(CELLS)), self.COUNT)
        self.assertEqual(len(OVER_WEBSOCKET) * 2**5 * 3 * 2, self.COUNT)

    def test_who_may_not_call_learns_nothing_about_what_exists(self) -> None:
        """C5: the whole body is the same, to the letter."""
        told: dict[tuple[object, ...], set[str]] = {}
        for cell in CELLS:
            if cell.expected == "missing_scope":
                refusal = self.ask(cell)
                assert refusal is not None
                told.setdefault((cell.line.call, cell.scopes, cell.rank), set()).add(str(refusal.body()))
        self.assertEqual([key for key, bodies in told.items() if len(bodies) > 1], [])
        self.assertGreater(len(told), 1000)

    def test_a_foreign_terminal_and_none_are_alike(self) -> None:
        """C5."""
        for line in OVER_WEBSOCKET:
            if line.on == "foreign":
                (absent,) = [other for other in LINES if other.call == line.call and other.on == "absent"]
                for rank in RANKS:
                    answers = [self.ask(Cell(one, frozenset(SCOPES), rank, "plain")) for one in (line, absent)]
                    bodies = [answer.body() for answer in answers if answer is not None]
                    self.assertEqual(len(bodies), 2)
                    self.assertEqual(bodies[0], bodies[1], line.call)

    def test_every_reason_of_forbidden_is_in_the_table(self) -> None:
        self.assertLessEqual(set(REASONS), {cell.expected for cell in CELLS})


class ReadOnlyTests(ApiCase):
    """A connection that has attached a session readOnly."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=THERE)
        self.create(id=MINE)
        self.attach(read_only=True)

    def attach(self, **params: Any) -> None:
        """Attaches the session."""
        self.successResultOf(self.call("sessions.attach", Attach(session_id=THERE, **params)))

    def update(self, session: str = THERE, connection: Connection | None = None) -> str:
        """What a write comes to."""
        outcome: list[Any] = []
        params = decode(BY_NAME["sessions.update"].params, {"sessionId": session, "title": "T"})
        self.call("sessions.update", params, None, connection).addBoth(outcome.append)
        return word(getattr(outcome[0], "value", None))

    def test_it_is_about_that_session_only(self) -> None:
        self.assertEqual((self.update(), self.update(MINE)), ("read_only", "ok"))

    def test_it_is_about_that_connection_only(self) -> None:
        other = Connection(id="cn_000000000001", caller=self.connection.caller, outbox=RecordingOutbox())
        self.assertEqual((self.update(), self.update(THERE, other)), ("read_only", "ok"))

    def test_attaching_it_again_without_ends_it(self) -> None:
        self.attach()
        self.assertEqual(self.update(), "ok")
        self.attach(read_only=True)
        self.assertEqual(self.update(), "read_only")
        self.attach(resume=True)
        self.assertEqual(self.update(), "ok")

    def test_so_does_detaching_it(self) -> None:
        params = decode(BY_NAME["sessions.detach"].params, {"sessionId": THERE})
        self.successResultOf(self.call("sessions.detach", params))
        self.assertEqual(self.update(), "ok")

    def test_it_can_not_resume_the_session(self) -> None:
        error = self.error(self.call("sessions.attach", Attach(session_id=THERE, read_only=True, resume=True)))
        self.assertEqual((error.code, error.field, error.status), (Code.INVALID_REQUEST, "resume", 400))

    def test_an_attach_that_is_refused_changes_nothing(self) -> None:
        error = self.error(self.call("sessions.attach", Attach(session_id=THERE, after=1000)))
        self.assertEqual(error.code, Code.CURSOR_AHEAD)
        self.assertEqual(self.update(), "read_only")
