"""The methods about turns, asks and subagents, on a server without an agent."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from msgspec import Struct, to_builtins

from computerd.contract.decoding import decode
from computerd.contract.errors import ApiError, Code
from computerd.contract.methods import BY_NAME
from tests.api.access_table import ABSENT, ASK, SUBAGENT, TURN
from tests.api.test_dispatch import ApiCase
from tests.session.test_sessions import ID

KEY = {"idempotencyKey": "k"}
NOT_FOUND: tuple[tuple[str, dict[str, Any], Code, str], ...] = (
    ("turns.get", {"turnId": TURN}, Code.TURN_NOT_FOUND, "turnId"),
    (
        "turns.get",
        {"turnId": TURN, "waitMs": 60_000, "status": "completed", "minSeq": 9},
        Code.TURN_NOT_FOUND,
        "turnId",
    ),
    ("turns.get", {"turnId": "nonsense"}, Code.TURN_NOT_FOUND, "turnId"),
    ("turns.cancel", {"turnId": TURN, **KEY}, Code.TURN_NOT_FOUND, "turnId"),
    ("asks.get", {"askId": ASK}, Code.ASK_NOT_FOUND, "askId"),
    ("asks.answer", {"askId": ASK, "answer": {"decision": "allow"}, **KEY}, Code.ASK_NOT_FOUND, "askId"),
    ("asks.answer", {"askId": ASK, "answer": {"no": "answer at all"}}, Code.ASK_NOT_FOUND, "askId"),
    ("asks.dismiss", {"askId": ASK, "message": "No.", **KEY}, Code.ASK_NOT_FOUND, "askId"),
    ("subagents.get", {"subagentId": SUBAGENT}, Code.SUBAGENT_NOT_FOUND, "subagentId"),
    ("subagents.stop", {"subagentId": SUBAGENT, **KEY}, Code.SUBAGENT_NOT_FOUND, "subagentId"),
)
NEEDS_AGENT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("turns.send", {"input": "Hello"}),
    ("turns.send", {"input": "Hello", "ifBusy": "interrupt", **KEY}),
    ("sessions.compact", {}),
    ("sessions.compact", {"instructions": "Short.", **KEY}),
)
LISTS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("asks.list", {}, "asks"),
    ("asks.list", {"status": "open", "limit": 100}, "asks"),
    ("subagents.list", {}, "subagents"),
    ("subagents.list", {"status": "all", "limit": 1}, "subagents"),
    ("subagents.list", {"status": "running"}, "subagents"),
)
INTERRUPTS: tuple[dict[str, Any], ...] = (
    {},
    {"turnId": TURN},
    {"turnId": "nonsense"},
    KEY,
    KEY,
    {"turnId": TURN, "idempotencyKey": "l"},
)


class AgentlessTests(ApiCase):
    """Nothing of it leaves a trace."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=ID)
        self.before = (list(self.journal.log[ID]), self.journal.records[ID])

    def tearDown(self) -> None:
        self.assertEqual((self.journal.log[ID], self.journal.records[ID]), self.before)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def ask(self, method: str, params: dict[str, Any], session: str = ID) -> Struct | ApiError:
        """What a call comes to, at once."""
        outcome: list[Any] = []
        wanted = decode(BY_NAME[method].params, {"sessionId": session, **params})
        self.call(method, wanted).addCallbacks(
            lambda answer: outcome.append(answer.result), lambda failure: outcome.append(failure.value)
        )
        (found,) = outcome
        assert isinstance(found, (Struct, ApiError)), found
        return found

    def refusal(self, method: str, params: dict[str, Any], session: str = ID) -> ApiError:
        """What it is refused with."""
        found = self.ask(method, params, session)
        assert isinstance(found, ApiError), (method, params, found)
        return found

    def test_nothing_is_found_by_an_id(self) -> None:
        for method, params, code, name in NOT_FOUND:
            error = self.refusal(method, params)
            self.assertEqual((error.code, error.field, error.status), (code, name, 404), (method, params))

    def test_what_needs_an_agent(self) -> None:
        for method, params in NEEDS_AGENT:
            error = self.refusal(method, params)
            self.assertEqual((error.code, error.status), (Code.FEATURE_UNAVAILABLE, 409), (method, params))
            self.assertFalse(error.body()["retryable"])

    def test_lists_are_empty(self) -> None:
        for method, params, name in LISTS:
            self.assertEqual(to_builtins(self.ask(method, params)), {name: [], "nextCursor": None}, (method, params))

    def test_no_cursor_is_one_of_ours(self) -> None:
        for method, params, _ in LISTS:
            for cursor in ("", "x", "MTgwMDAwMDAwMDAwMC5jc18wMTIzNDU2Nzg5YWJjZGVm"):
                error = self.refusal(method, {**params, "cursor": cursor})
                self.assertEqual((error.code, error.field, error.status), (Code.INVALID_CURSOR, "cursor", 400))

    def test_an_interrupt_changes_nothing(self) -> None:
        for params in INTERRUPTS:
            result: Any = self.ask("sessions.interrupt", params)
            self.assertEqual((result.session, result.seq), (self.get(self.sessions.get(ID)), 2), params)
            self.assertEqual((result.session.last_seq, result.session.status), (2, "idle"))

    def test_the_session_is_looked_for_first(self) -> None:
        for session in (ABSENT, "nonsense", ""):
            for method, params, _, _ in NOT_FOUND:
                self.assertEqual(self.refusal(method, params, session).code, Code.SESSION_NOT_FOUND, method)
            for method, params in NEEDS_AGENT:
                self.assertEqual(self.refusal(method, params, session).code, Code.SESSION_NOT_FOUND, method)
            for method, params, _ in LISTS:
                wanted = {**params, "cursor": "x"}
                self.assertEqual(self.refusal(method, wanted, session).code, Code.SESSION_NOT_FOUND, method)
            for params in INTERRUPTS:
                self.assertEqual(self.refusal("sessions.interrupt", params, session).code, Code.SESSION_NOT_FOUND)

    def test_the_key_of_an_interrupt(self) -> None:
        """It is answered, so its answer is kept."""
        first = self.ask("sessions.interrupt", KEY)
        self.now += 100
        self.assertEqual(self.ask("sessions.interrupt", KEY), first)
        error = self.refusal("sessions.interrupt", {"turnId": TURN, **KEY})
        self.assertEqual((error.code, error.field), (Code.IDEMPOTENCY_CONFLICT, "idempotencyKey"))

    def test_the_key_of_what_is_refused_binds_nobody(self) -> None:
        """There is no answer to keep: the same key with other params is refused as they deserve."""
        for method, params in (
            ("turns.send", {"input": "A"}),
            ("turns.send", {"input": "B"}),
            ("sessions.compact", {}),
            ("sessions.compact", {"instructions": "B"}),
        ):
            self.assertEqual(self.refusal(method, {**params, **KEY}).code, Code.FEATURE_UNAVAILABLE)
        for turn in (TURN, "tn_00000000000z"):
            self.assertEqual(self.refusal("turns.cancel", {"turnId": turn, **KEY}).code, Code.TURN_NOT_FOUND)

    def test_it_is_the_same_on_a_session_that_sleeps_or_is_archived(self) -> None:
        changes: tuple[dict[str, Any], ...] = ({"status": "suspended"}, {"archived": True})
        for change in changes:
            asleep = evolve(self.before[1], **change)
            self.journal.records[ID] = asleep
            self.sessions = self.anew()
            self.api = self.make_api()
            self.test_nothing_is_found_by_an_id()
            self.test_what_needs_an_agent()
            self.test_lists_are_empty()
            result: Any = self.ask("sessions.interrupt", {})
            self.assertEqual((result.session.status, result.session.archived), (asleep.status, asleep.archived))
            self.assertEqual(self.journal.records[ID], asleep)
        self.journal.records[ID] = self.before[1]
