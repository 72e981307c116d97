"""The connection: JSON-RPC, limits, credentials and close codes, as a client meets them (C, J, W)."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any

from websockets.exceptions import InvalidStatus

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, ConnectionClosed, RefusedError, Reply, http, raw
from tests.endtoend.computer import eventually


class JsonRpcTests(ComputerCase):
    """Section 4: each kind of bad text has its error, and the connection stays."""

    def exchange(self, client: Client, text: str | bytes) -> dict[str, Any]:
        """Sends `text`; the answer to it."""
        client.answers.clear()
        client.socket.send(text, text=True)
        client.until(lambda: client.answers)
        return next(iter(client.answers.values()))

    def test_ready_comes_first(self) -> None:
        client = self.connect()
        ready = client.notifications[0]
        self.assertEqual(ready["method"], "ready")
        params = ready["params"]
        self.assertRegex(params["connectionId"], r"^cn_[0-9A-Za-z]{12}$")
        self.assertEqual(params["limits"], {"maxAttached": 20, "maxMessageBytes": 1 << 20, "maxRequestsPerSecond": 100})
        self.assertEqual((params["expiresAt"], params["expiresInMs"]), (None, None))
        self.assertIsInstance(params["server"]["version"], str)

    def test_each_bad_message_has_its_error(self) -> None:
        """BR-037, J1 to J7."""
        client = self.connect()
        cases: list[tuple[str, int, Any]] = [
            ("", -32700, None),
            ("{", -32700, None),
            ("nonsense", -32700, None),
            ('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700, None),
            ('{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700, None),
            (r'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}', -32700, None),
            ("[" * 100_000, -32700, None),
            ('{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + "[" * 65 + "]" * 65 + "}}", -32700, None),
            ("[]", -32600, None),
            ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
            ("1", -32600, None),
            ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
            ('{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
            ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
            ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
            ('{"id":8,"method":"ping"}', -32600, 8),
            ('{"jsonrpc":"2.0","id":8}', -32600, 8),
            ('{"jsonrpc":"2.0","id":"a","method":"no.such"}', -32601, "a"),
            ('{"jsonrpc":"2.0","id":"b","method":"sessions.list","params":{}}', -32601, "b"),
            ('{"jsonrpc":"2.0","id":"c","method":"turns.send","params":{"sessionId":"x","input":"y"}}', -32000, "c"),
            ('{"jsonrpc":"2.0","id":9,"method":"ping","params":[]}', -32602, 9),
            ('{"jsonrpc":"2.0","id":9,"method":"ping","params":{"__proto__":1}}', -32602, 9),
        ]
        for text, code, number in cases:
            answer = self.exchange(client, text)
            self.assertEqual((answer["error"]["code"], answer["id"]), (code, number), text[:80])
        self.assertEqual(
            self.exchange(client, '{"jsonrpc":"2.0","id":9,"method":"ping","params":7}')["error"]["data"]["field"],
            "params",
        )
        self.assertTrue(0 < client.ask("ping")["timing"]["serverUs"] < 1_000_000)

    def test_ids_come_back_as_they_were(self) -> None:
        """J6."""
        client = self.connect()
        for number in ("", "a b", "é", 0, -1, 2**53, "1"):
            answer = self.exchange(client, json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}))
            self.assertEqual(answer["id"], number)
            self.assertIs(type(answer["id"]), type(number))

    def test_notifications_are_never_answered(self) -> None:
        """J6."""
        client = self.connect()
        for method in ("terminals.open", "no.such", "sessions.ack", "ping"):
            client.socket.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": {"x": 1}}))
        client.ask("ping")
        self.assertEqual(client.answers, {})

    def test_unknown_fields_and_members_are_named(self) -> None:
        """J7."""
        client = self.connect()
        with self.assertRaises(RefusedError) as caught:
            client.ask("sessions.get", sessionId=self.session, nonsense=1)
        self.assertEqual((caught.exception.code, caught.exception.data["field"]), (-32602, "nonsense"))
        with self.assertRaises(RefusedError) as caught:
            client.ask("sessions.get")
        self.assertEqual((caught.exception.code, caught.exception.data["field"]), (-32602, "sessionId"))

    def test_a_hundred_requests_a_second(self) -> None:
        """W13: the burst passes, what is over it is refused with a wait, and after that wait it goes on."""
        client = self.connect()
        numbers = [client.send("ping") for _ in range(250)]
        refused = []
        for number in numbers:
            try:
                client.answer(number)
            except RefusedError as error:
                refused.append(error)
        self.assertTrue(90 <= len(refused) <= 151, len(refused))
        self.assertEqual({error.slug for error in refused}, {"rate_limited"})
        time.sleep(max(error.data["retryAfterMs"] for error in refused) / 1000 + 0.05)
        client.ask("ping")


class CloseCodeTests(ComputerCase):
    """Real close frames, each with a short reason."""

    def test_too_large(self) -> None:
        """W8: exactly 1 MiB passes, one byte more does not, nor does it in pieces."""
        client = self.connect()
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}})
        client.socket.send(body + " " * ((1 << 20) - len(body)))
        client.until(lambda: 1 in client.answers)
        client.socket.send(b"\0\0\0\x01" + b"x" * (1 << 20))
        self.assertEqual(client.closed()[0], 1009)
        client = self.connect()
        with contextlib.suppress(ConnectionClosed):
            client.socket.send(["x" * 600_000, "x" * 600_000])
        self.assertEqual(client.closed()[0], 1009)

    def test_short_frames(self) -> None:
        """T6."""
        for data in (b"", b"\0", b"\0\0\0"):
            client = self.connect()
            client.socket.send(data)
            self.assertEqual(client.closed()[0], 1002)
        client = self.connect()
        client.socket.send(b"\0\0\0\x01")
        client.ask("ping")

    def test_text_that_is_not_utf_8(self) -> None:
        client = self.connect()
        client.socket.send(b"\xff\xfe", text=True)
        self.assertEqual(client.closed()[0], 1007)

    def test_no_subprotocol(self) -> None:
        """W15."""
        for offered in (None, ["other.v1"]):
            socket = raw(
                self.computer.url,
                additional_headers={"Authorization": f"Bearer {self.computer.token()}"},
                subprotocols=offered,
            )
            client = Client(socket)
            self.assertEqual(client.closed()[0], 4400)

    def test_a_browser_presents_its_token_as_a_subprotocol(self) -> None:
        socket = raw(
            self.computer.url,
            subprotocols=["opc.v1", f"opc.bearer.{self.computer.token()}"],
            origin=self.computer.base,
        )
        self.addCleanup(socket.close)
        self.assertEqual(socket.subprotocol, "opc.v1")
        self.assertEqual(json.loads(socket.recv(10))["method"], "ready")

    def test_expiry(self) -> None:
        """C6."""
        token = self.computer.ctl(
            "token", "create", "--member", "alice", "--scope", "terminals", "--ttl", "2s"
        ).stdout.strip()
        client = Client.to(self.computer.url, token)
        client.open(self.session, "sleep 100")
        self.assertIsNotNone(client.notifications[0]["params"]["expiresAt"])
        self.assertEqual(client.closed(6)[0], 4001)
        self.settled()
        self.assertEqual(http(self.computer.base + "/sessions", token=token).status, 401)

    def test_revocation(self) -> None:
        """C7: within a second, live connections included."""
        token = self.computer.ctl("token", "create", "--member", "mallory", "--scope", "sessions:read").stdout.strip()
        client = Client.to(self.computer.url, token)
        self.computer.ctl("token", "revoke", "--member", "mallory")
        began = time.monotonic()
        self.assertEqual(client.closed(5)[0], 4001)
        self.assertLess(time.monotonic() - began, 3)
        self.assertEqual(http(self.computer.base + "/sessions", token=token).status, 401)

    def test_fifty_connections_of_a_member(self) -> None:
        """R9."""
        token = self.computer.token("many")
        clients = [Client.to(self.computer.url, token) for _ in range(50)]
        for client in clients:
            self.addCleanup(client.socket.close)
        socket = raw(
            self.computer.url,
            additional_headers={"Authorization": f"Bearer {token}"},
            subprotocols=["opc.v1"],
        )
        self.assertEqual(Client(socket).closed()[0], 4029)
        self.connect("bob").ask("ping")
        clients[0].socket.close()

        def admitted() -> bool:
            try:
                Client.to(self.computer.url, token).socket.close()
            except ConnectionClosed:
                return False
            return True

        eventually(admitted, "there is room for one again")


class CredentialTests(ComputerCase):
    """Who may connect, and what a refusal tells."""

    own = True  # forgeries slow the address down

    def test_nothing_without_a_credential(self) -> None:
        """C14, I4: every route but /health."""
        forged = {"X_Forwarded_For": "127.0.0.1", "X_User_Id": "root", "X_Forwarded_User": "root"}
        routes = ["/sessions", f"/sessions/{self.session}", f"/sessions/{self.session}/events", "/connect", "/nonsense"]
        for route in routes:
            for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                reply = http(self.computer.base + route, verb, **forged)
                self.assertEqual(reply.status, 401, (verb, route))
                self.assertEqual(reply.code, "unauthenticated")
                self.assertEqual(reply.headers["WWW-Authenticate"], "Bearer")
                self.assertTrue(reply.headers["X-Request-Id"])
        self.assertEqual(http(self.computer.base + "/health").json, {"status": "ok"})

    def test_tampered_tokens(self) -> None:
        """C2: one character changed anywhere."""
        token = self.computer.token()
        for at in range(0, len(token), 7):
            changed = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
            if changed == token:
                continue
            status = http(self.computer.base + "/sessions", token=changed).status
            self.assertIn(status, (401, 429), at)

    def test_refused_before_the_upgrade(self) -> None:
        """C13."""
        for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eDp5"}):
            with self.assertRaises(InvalidStatus) as caught:
                raw(self.computer.url, additional_headers=headers, subprotocols=["opc.v1"])
            self.assertEqual(caught.exception.response.status_code, 401)

    def test_a_token_in_the_url_is_no_credential(self) -> None:
        """C12."""
        reply = http(f"{self.computer.base}/sessions?token={self.computer.token()}")
        self.assertIn(reply.status, (400, 401))

    def test_origins(self) -> None:
        """B1, BR-080."""
        token = self.computer.token()
        for origin in (
            "http://evil.example",
            "null",
            f"http://127.0.0.1:{self.computer.port + 1}",
            self.computer.base + ".evil.com",
        ):
            with self.assertRaises(InvalidStatus) as caught:
                raw(
                    self.computer.url,
                    origin=origin,
                    additional_headers={"Authorization": f"Bearer {token}"},
                    subprotocols=["opc.v1"],
                )
            self.assertEqual(caught.exception.response.status_code, 403, origin)
            self.assertEqual(http(self.computer.base + "/sessions", token=token, Origin=origin).status, 403)
        self.assertEqual(http(self.computer.base + "/sessions", token=token, Origin=self.computer.base).status, 200)

    def test_a_plain_get_of_connect(self) -> None:
        """W17."""
        reply = http(self.computer.base + "/connect", token=self.computer.token())
        self.assertEqual((reply.status, reply.code), (426, "upgrade_required"))
        reply = http(self.computer.base + "/connect?redirect=http://evil.example/", token=self.computer.token())
        self.assertIn(reply.status, (400, 426))
        self.assertIsNone(reply.headers["Location"])

    def test_scopes_and_owners(self) -> None:
        """C4, C5: the scope first, then what exists, then whose it is."""
        unknown = "cs_0000000000000000"
        cases = [
            ("alice", ("sessions:read",), self.session, "forbidden", "missing_scope"),
            ("alice", ("sessions:read",), unknown, "forbidden", "missing_scope"),
            ("alice", ("terminals",), unknown, "session_not_found", None),
            ("bob", ("terminals",), self.session, "forbidden", "terminal_owner_only"),
            ("bob", ("TERMINALS", "terminals2", "terminal"), self.session, "forbidden", "missing_scope"),
        ]
        for member, scopes, session, slug, reason in cases:
            made = self.computer.ctl(
                "token", "create", "--member", member, *[w for s in scopes for w in ("--scope", s)], check=False
            )
            if made.returncode:
                self.assertIn("TERMINALS", made.stderr)
                continue
            with Client.to(self.computer.url, made.stdout.strip()) as client:
                with self.assertRaises(RefusedError) as caught:
                    client.open(session, "true")
                self.assertEqual(
                    (caught.exception.slug, caught.exception.data.get("reason")), (slug, reason), (member, scopes)
                )
        with Client.to(self.computer.url, self.computer.token("root", "--admin")) as client:
            self.assertEqual(client.run(self.session, "exit 3")[1], 3)

    def test_the_token_is_nowhere(self) -> None:
        """C12, G1."""
        token = self.computer.token("canary")
        Client.to(self.computer.url, token).socket.close()
        http(self.computer.base + "/sessions", token=token)
        signature = token.rpartition(".")[2]
        self.assertNotIn(signature, self.computer.log)
        for folder, _, files in os.walk(self.computer.folder / "state"):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(signature.encode(), file.read(), name)


class SessionTests(ComputerCase):
    """The routes of sessions and events that terminals need."""

    def test_create_get_list(self) -> None:
        token = self.computer.token("carol")
        made = http(
            self.computer.base + "/sessions", "POST", token=token, body={"title": "Work", "metadata": {"a": "b"}}
        )
        self.assertEqual(made.status, 201)
        session = made.json["session"]
        self.assertEqual(
            (session["title"], session["metadata"], session["owner"]["id"], session["status"]),
            ("Work", {"a": "b"}, "carol", "idle"),
        )
        self.assertIsNone(made.json["turn"])
        got = http(f"{self.computer.base}/sessions/{session['id']}", token=token).json["session"]
        self.assertEqual(
            {k: v for k, v in got.items() if k != "syncedAt"}, {k: v for k, v in session.items() if k != "syncedAt"}
        )
        listed = http(self.computer.base + "/sessions", token=token).json
        self.assertEqual(listed["sessions"][0]["id"], session["id"])
        events = http(f"{self.computer.base}/sessions/{session['id']}/events", token=token).json
        self.assertEqual([event["seq"] for event in events["events"]], list(range(1, events["lastSeq"] + 1)))
        self.assertEqual(events["events"][0]["type"], "session.created")

    def test_a_callers_id_makes_it_idempotent(self) -> None:
        """C15."""
        name = "cs_" + "abcdefgh01234567"

        def post(member: str, body: dict[str, str]) -> Reply:
            return http(self.computer.base + "/sessions", "POST", token=self.computer.token(member), body=body)

        self.assertEqual(post("alice", {"id": name, "title": "t"}).status, 201)
        self.assertEqual(post("alice", {"id": name, "title": "t"}).status, 200)
        for member, body in (("alice", {"id": name, "title": "other"}), ("bob", {"id": name, "title": "t"})):
            reply = post(member, body)
            self.assertEqual((reply.status, reply.code), (409, "id_conflict"))

    def test_bad_bodies(self) -> None:
        cases: list[tuple[Any, str | None]] = [
            ({"title": "x" * 201}, "title"),
            ({"title": 5}, "title"),
            ({"nonsense": 1}, "nonsense"),
            ({"id": "x"}, "id"),
            ({"metadata": {"a": 1}}, "metadata"),
            ([], None),
        ]
        for body, field in cases:
            reply = http(self.computer.base + "/sessions", "POST", token=self.computer.token(), body=body)
            self.assertEqual((reply.status, reply.code), (400, "invalid_request"), body)
            if field is not None:
                self.assertTrue(reply.json["error"]["field"].startswith(field), reply.json)

    def test_events_by_type_and_place(self) -> None:
        client = self.connect()
        client.run(self.session, "true")
        all_of_them = self.computer.events(self.session)
        page = http(
            f"{self.computer.base}/sessions/{self.session}/events?after=1&limit=1", token=self.computer.token()
        ).json
        self.assertEqual(page["events"], all_of_them[1:2])
        self.assertTrue(page["hasMore"])
        for query, code in (
            ("limit=0", "invalid_request"),
            ("limit=501", "invalid_request"),
            ("after=-1", "invalid_request"),
            ("x=1", "invalid_request"),
        ):
            reply = http(f"{self.computer.base}/sessions/{self.session}/events?{query}", token=self.computer.token())
            self.assertEqual(reply.code, code, query)

    def test_unknown_sessions_and_routes(self) -> None:
        token = self.computer.token()
        self.assertEqual(
            http(self.computer.base + "/sessions/cs_0000000000000000", token=token).code, "session_not_found"
        )
        self.assertEqual(http(self.computer.base + "/nonsense", token=token).code, "not_found")
        self.assertEqual(http(self.computer.base + "/sessions", "DELETE", token=token).status, 405)
