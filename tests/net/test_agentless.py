"""The methods about turns, asks and subagents over HTTP, on a server without an agent."""

from __future__ import annotations

import json
from typing import Any

from tests.api.access_table import ABSENT, ASK, SUBAGENT, THERE, TURN
from tests.net.real_front import RealFrontCase

KEY = {"idempotencyKey": "k"}
ANSWERS: tuple[tuple[str, str, dict[str, Any] | None, int, str, str | None], ...] = (
    ("POST", "turns", {"input": "Hello", "ifBusy": "queue", **KEY}, 409, "feature_unavailable", None),
    ("POST", "compact", {"instructions": "Short.", **KEY}, 409, "feature_unavailable", None),
    ("POST", "compact", None, 409, "feature_unavailable", None),
    ("GET", f"turns/{TURN}?waitMs=60000&status=completed", None, 404, "turn_not_found", "turnId"),
    ("POST", f"turns/{TURN}/cancel", KEY, 404, "turn_not_found", "turnId"),
    ("POST", f"turns/{TURN}/cancel", None, 404, "turn_not_found", "turnId"),
    ("GET", f"asks/{ASK}", None, 404, "ask_not_found", "askId"),
    ("POST", f"asks/{ASK}/answer", {"decision": "allow"}, 404, "ask_not_found", "askId"),
    ("POST", f"asks/{ASK}/dismiss", {"message": "No.", **KEY}, 404, "ask_not_found", "askId"),
    ("GET", f"subagents/{SUBAGENT}", None, 404, "subagent_not_found", "subagentId"),
    ("POST", f"subagents/{SUBAGENT}/stop", KEY, 404, "subagent_not_found", "subagentId"),
    ("GET", "asks?cursor=x", None, 400, "invalid_cursor", "cursor"),
    ("GET", "subagents?status=all&limit=1&cursor=", None, 400, "invalid_cursor", "cursor"),
    ("GET", "asks?limit=0", None, 400, "invalid_request", "limit"),
    ("POST", "turns", {"input": ""}, 400, "invalid_request", "input"),
    ("POST", "turns", {}, 400, "invalid_request", "input"),
    ("POST", "interrupt", {"turn": TURN}, 400, "invalid_request", "turn"),
)
LISTS = (("asks", "asks"), ("asks?status=open&limit=100", "asks"), ("subagents?status=running", "subagents"))


class AgentlessTests(RealFrontCase):
    """Routes and statuses."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=THERE)
        self.peer = self.memory.connect()

    def ask(self, verb: str, path: str, body: object = None, session: str = THERE) -> tuple[int, dict[str, Any]]:
        """The status and the body of an answer."""
        reply = self.http(self.peer, verb, f"/sessions/{session}/{path}", body, self.token())
        return reply.status, json.loads(reply.body)

    def test_refusals(self) -> None:
        for verb, path, body, status, code, field in ANSWERS:
            came, said = self.ask(verb, path, body)
            error = said["error"]
            found = (came, error["status"], error["code"], error.get("field"))
            self.assertEqual(found, (status, status, code, field), (verb, path))

    def test_the_session_is_looked_for_first(self) -> None:
        for verb, path, body, _, code, _ in ANSWERS:
            if code != "invalid_request":
                came, said = self.ask(verb, path, body, ABSENT)
                self.assertEqual((came, said["error"]["code"]), (404, "session_not_found"), (verb, path))

    def test_lists(self) -> None:
        for path, name in LISTS:
            self.assertEqual(self.ask("GET", path), (200, {name: [], "nextCursor": None}))

    def test_an_interrupt(self) -> None:
        before = list(self.journal.log[THERE])
        for body in (None, {}, KEY, KEY, {"turnId": TURN, "idempotencyKey": "l"}):
            status, said = self.ask("POST", "interrupt", body)
            self.assertEqual((status, said["seq"]), (200, 2))
            self.assertEqual((said["session"]["id"], said["session"]["lastSeq"]), (THERE, 2))
        self.assertEqual(self.journal.log[THERE], before)
