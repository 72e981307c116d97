"""A bug in any method: the client is told that there is one and under which id it is in the log, and nothing else (G3)."""

from __future__ import annotations

import json
from typing import Any, cast

from msgspec import Struct
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.contract.methods import METHODS, Method
from computerd.tap.log import FORMATS
from tests.api.access_table import QUERIES
from tests.contract.spec import METHODS as SPEC
from tests.net.clients import Memory, call, request
from tests.net.fakes import SESSION

MESSAGE = "CANARY in the message"
LOCAL = "CANARY in a local variable"
VALUES: dict[str, object] = {"sessionId": SESSION, "input": "x", "answer": {"type": "text"}, "cols": 80, "rows": 24}


async def fail(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
    """Work with a bug."""
    secret = LOCAL
    raise ZeroDivisionError(MESSAGE if secret else "")


def required(method: Method) -> dict[str, object]:
    """Params with what has to be there, and nothing else."""
    # what is not in the schema needs no more than a query
    names = [name for name in SPEC.get(method.name, ("", "", ""))[1].split() if not name.endswith("?")]
    return {name: VALUES.get(name, "x") for name in names}


class OpaqueTests(SynchronousTestCase):
    """Every method, over both ways in, while it raises."""

    def setUp(self) -> None:
        self.memory = Memory()
        self.memory.front.work = {method.name: fail for method in METHODS}
        self.token = self.memory.issuer.mint().token
        self.events: list[LogEvent] = []
        observer = cast("ILogObserver", self.events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def check(self, method: str, error: dict[str, Any], answer: str) -> None:
        """What the client was told, and what the log says."""
        self.assertEqual((error["code"], error["retryable"]), ("internal", True), method)
        self.assertNotIn("CANARY", answer)
        self.assertNotIn("ZeroDivision", answer)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1, method)
        (event,) = [event for event in self.events if "log_failure" in event]
        for name, format_ in FORMATS.items():
            text = format_(event)
            self.assertIn(error["requestId"], text, (method, name))
            self.assertIn("in fail", text, (method, name))
            self.assertIn(f"ZeroDivisionError: {MESSAGE}", text, (method, name))
            self.assertNotIn(LOCAL, text, (method, name))
        self.events.clear()

    def test_over_websocket(self) -> None:
        """G3."""
        peer = self.memory.open(self.token)
        peer.messages()
        for method in METHODS:
            if method.socket:
                peer.send(call(method.name, **required(method)))
                (answer,) = peer.messages()
                self.assertEqual(answer["error"]["code"], -32000, (method.name, answer))
                self.check(method.name, answer["error"]["data"], json.dumps(answer))

    def test_over_http(self) -> None:
        """G3."""
        for method in METHODS:
            route = method.route
            if route is None:
                continue
            params = required(method)
            path = route.path
            if not method.schema:
                params = {"sessionId": SESSION}
            for name in list(params):
                if f"{{{name}}}" in path:
                    path = path.replace(f"{{{name}}}", str(params.pop(name)))
            path += QUERIES.get(method.name, "")
            content = params if route.body is None else params[route.body]
            body = b"" if route.verb == "GET" else json.dumps(content).encode()
            kind = route.takes or "application/json"
            lines = [] if route.verb == "GET" else [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
            peer = self.memory.connect()
            peer.send(request(route.verb, path, *lines, token=self.token) + body)
            (reply,) = peer.replies()
            self.assertEqual(reply.status, 500, (method.name, reply.body))
            self.assertEqual(reply.headers["x-request-id"], reply.error["requestId"])
            self.check(method.name, reply.error, reply.body.decode())
            self.assertNotIn("CANARY", repr(reply.headers))

    def test_an_attach_that_the_url_names(self) -> None:
        """G3."""
        peer = self.memory.open(self.token, path=f"/connect?sessionId={SESSION}")
        attached = [message for message in peer.messages() if message["method"] == "sessions.attached"]
        self.check("sessions.attach", attached[0]["params"]["error"], json.dumps(attached))
