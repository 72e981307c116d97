from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.api.front import Answer
from computerd.contract import limits, results
from computerd.contract.methods import METHODS
from computerd.net.httpchannel import LINGER_BYTES, LINGER_SECONDS
from computerd.net.members import FREE_BYTES, HELD_BYTES, MAX_PER_MEMBER
from computerd.net.site import MAX_STRANGERS, MAX_STRANGERS_PER_SOURCE
from tests.net.clients import Inbox, Memory, Peer, Reply, handshake, request
from tests.net.fakes import SESSION, fail, refuse, session

STATUS_LINE = re.compile(rb"HTTP/1\.1 [0-9]{3} ")
JSON = "Content-Type: application/json"


class HttpCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.memory = Memory()
        self.token = self.memory.issuer.mint().token

    def ask(self, data: bytes, peer: Peer | None = None) -> Reply:
        """The one answer to `data`."""
        peer = peer or self.memory.connect()
        peer.send(data)
        replies = peer.replies()
        self.assertEqual(len(replies), 1, (data, replies))
        return replies[0]

    def get(self, path: str, *lines: str, **options: Any) -> Reply:
        return self.ask(request("GET", path, *lines, token=self.token, **options))

    def post(self, path: str, body: bytes, *lines: str, verb: str = "POST") -> Reply:
        head = request(verb, path, JSON, f"Content-Length: {len(body)}", *lines, token=self.token)
        return self.ask(head + body)


class AnswerTests(HttpCase):
    def test_health_needs_nothing_and_says_nothing(self) -> None:
        reply = self.ask(request("GET", "/health"))
        self.assertEqual((reply.status, reply.body), (200, b'{"status":"ok"}'))
        self.assertRegex(reply.headers["x-request-id"], r"^rq_[0-9A-Za-z]{12}$")
        self.assertNotIn("server", reply.headers)

    def test_a_new_session(self) -> None:
        reply = self.post("/sessions", b'{"title":"A"}')
        self.assertEqual(reply.status, 201)
        self.assertEqual(json.loads(reply.body)["session"]["id"], SESSION)
        name, _, caller, connection = self.memory.front.calls[-1]
        self.assertEqual((name, caller.member.id, connection), ("sessions.create", "alice", None))

    def test_a_request_has_arrived_when_its_head_has(self) -> None:
        peer = self.memory.connect()
        peer.send(request("POST", "/sessions", JSON, "Content-Length: 2", token=self.token))
        arrived = self.memory.clock.seconds()
        self.memory.clock.advance(1)
        self.assertEqual(self.ask(b"{}", peer).status, 201)
        self.assertEqual(self.memory.front.arrivals, [arrived])

    def test_the_front_may_say_another_status(self) -> None:
        async def again(params: Struct, caller: Caller, connection: Connection | None) -> Answer:
            return Answer(results.SessionCreated(session=session(), turn=None, seq=1), 200)

        self.memory.front.work["sessions.create"] = again
        self.assertEqual(self.post("/sessions", b"{}").status, 200)

    def test_an_error_of_the_api(self) -> None:
        self.memory.front.work["sessions.get"] = refuse
        reply = self.get(f"/sessions/{SESSION}")
        self.assertEqual((reply.status, reply.error["code"]), (404, "session_not_found"))
        self.assertEqual(reply.error["requestId"], reply.headers["x-request-id"])

    def test_a_bug_is_internal_and_tells_nothing(self) -> None:
        self.memory.front.work["sessions.get"] = fail
        reply = self.get(f"/sessions/{SESSION}")
        self.assertEqual((reply.status, reply.error["code"], reply.error["retryable"]), (500, "internal", True))
        self.assertNotIn(b"secret detail", reply.body)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_a_method_without_its_work(self) -> None:
        reply = self.get("/sessions/x/asks")
        self.assertEqual((reply.status, reply.error["code"]), (404, "not_found"))

    def test_the_programs_name(self) -> None:
        for agent, client, via in (
            ("opc/0.1.0 (linux)", "opc/0.1.0", "opc"),
            ("curl/8.0", "curl/8.0", "api"),
            ("\x1b[31m", None, "api"),
            ("opc", "opc", "api"),
        ):
            self.post("/sessions", b"{}", f"User-Agent: {agent}")
            caller = self.memory.front.calls[-1][2]
            self.assertEqual((caller.client, caller.via), (client, via))

    def test_head(self) -> None:
        peer = self.memory.connect()
        peer.send(request("HEAD", "/health") + request("GET", "/health"))
        self.memory.clock.advance(0)
        raw = peer.transport.take()
        self.assertEqual(raw.count(b"HTTP/1.1 200 OK"), 2)
        self.assertEqual(raw.count(b'{"status":"ok"}'), 1)

    def test_a_path_and_its_verbs(self) -> None:
        reply = self.post("/health", b"", verb="POST")
        self.assertEqual((reply.status, reply.headers["allow"]), (405, "GET, HEAD"))
        for verb in ("TRACE", "OPTIONS", "PUT", "get", "PROPFIND"):
            self.assertEqual(self.ask(request(verb, "/sessions", token=self.token)).status, 405)


class ParamTests(HttpCase):
    def setUp(self) -> None:
        super().setUp()
        self.memory.front.work["events.list"] = self.memory.front.work["sessions.list"] = self.answer

    async def answer(self, params: Struct, caller: Caller, connection: Connection | None) -> Struct:
        return results.SessionList(sessions=[], next_cursor=None)

    def test_query(self) -> None:
        self.assertEqual(self.get(f"/sessions/{SESSION}/events?after=3&types=a,b&limit=500").status, 200)
        params: Any = self.memory.front.calls[-1][1]
        self.assertEqual((params.session_id, params.after, params.types, params.limit), (SESSION, 3, ["a", "b"], 500))

    def test_bad_queries_name_the_field(self) -> None:
        for query, field in (
            ("after=x", "after"), ("limit=501", "limit"), ("nothing=1", "nothing"), ("after=1&after=2", "after"),
            ("after=%ff", "query"), ("after", "after"), ("sessionId=x", "sessionId"),
        ):  # fmt: skip
            reply = self.get(f"/sessions/{SESSION}/events?{query}")
            self.assertEqual(
                (reply.status, reply.error["code"], reply.error.get("field")), (400, "invalid_request", field)
            )

    def test_bad_bodies(self) -> None:
        for body, field in (
            (b"[]", "body"),
            (b"{", "body"),
            (b'{"a":1}', "a"),
            (b"\xff", "body"),
            (b'{"title":1}', "title"),
        ):
            reply = self.post("/sessions", body)
            self.assertEqual(
                (reply.status, reply.error["code"], reply.error["field"]), (400, "invalid_request", field), body
            )

    def test_the_type_of_a_body(self) -> None:
        """B3: what a form of another site can send is no request."""
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/json-x",
            "",
        ):
            head = request("POST", "/sessions", f"Content-Type: {kind}", "Content-Length: 2", token=self.token)
            reply = self.ask(head + b"{}")
            self.assertEqual((reply.status, reply.error["field"]), (400, "Content-Type"), kind)
        head = request(
            "POST", "/sessions", "Content-Type: Application/JSON ; charset=utf-8", "Content-Length: 2", token=self.token
        )
        self.assertEqual(self.ask(head + b"{}").status, 201)

    def test_no_body_at_all(self) -> None:
        self.assertEqual(self.ask(request("POST", "/sessions", token=self.token)).status, 201)

    def test_a_query_where_there_is_none(self) -> None:
        self.assertEqual(self.post("/sessions?title=x", b"{}").error["field"], "query")

    def test_a_body_on_a_get(self) -> None:
        reply = self.ask(request("GET", "/sessions", "Content-Length: 2", JSON, token=self.token) + b"{}")
        self.assertEqual((reply.status, reply.error["field"]), (400, "body"))

    def test_chunked(self) -> None:
        head = request("POST", "/sessions", JSON, "Transfer-Encoding: chunked", token=self.token)
        self.assertEqual(self.ask(head + b"2\r\n{}\r\n0\r\n\r\n").status, 201)


class AuthTests(HttpCase):
    def test_the_gate_is_on_every_route(self) -> None:
        """C14: plain and with Upgrade."""
        paths = {m.route.path.replace("{", "").replace("}", "") for m in METHODS if m.route} | {
            "/connect",
            "/",
            "/nothing",
            "/metrics",
        }
        upgrade = (
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: " + "A" * 22 + "==",
        )
        for path in sorted(paths):
            for verb in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
                for lines in ((), upgrade):
                    peer = self.memory.connect()
                    peer.send(request(verb, path, *lines))
                    raw = peer.transport.take()
                    self.assertTrue(raw.startswith(b"HTTP/1.1 401 "), (verb, path, raw))
                    self.assertIn(b"\r\nWWW-Authenticate: Bearer\r\n", raw)
        self.assertEqual(self.memory.front.calls, [])

    def test_unusable_credentials(self) -> None:
        for lines in (
            (f"Authorization: Bearer {self.token}", f"Authorization: Bearer {self.token}"),
            (f"Authorization: Basic {self.token}",), (f"Authorization: {self.token}",), ("Authorization: Bearer",),
            ("Authorization: Bearer ",), (f"Authorization: Bearer {self.token} x",), ("Authorization: Bearer \xff\xfe",),
            (f"Authorization: Bearer {'x' * 5000}",), (f"Cookie: token={self.token}",), (f"X-Token: {self.token}",),
        ):  # fmt: skip
            reply = self.ask(request("GET", "/sessions", *lines))
            self.assertEqual((reply.status, reply.error["code"]), (401, "unauthenticated"), lines)
            self.memory.clock.advance(600)

    def test_a_credential_in_a_url(self) -> None:
        """C12."""
        for name in ("token", "access_token", "Authorization"):
            for token in (None, self.token):
                reply = self.ask(request("GET", f"/sessions?{name}={self.token}", token=token))
                self.assertEqual(reply.status, 400)
                self.assertNotIn(self.token.encode(), reply.body)

    def test_the_scheme_has_no_case(self) -> None:
        self.assertEqual(self.ask(request("GET", "/connect", f"Authorization: bEaReR {self.token}")).status, 426)

    def test_a_flood_of_forgeries_slows_its_source_only(self) -> None:
        """C10."""
        forged = self.token[:-4] + "AAAA"
        statuses = [
            self.ask(request("GET", "/sessions", token=forged), self.memory.connect(peer="192.0.2.7")).status
            for _ in range(20)
        ]
        self.assertEqual(statuses, [401] * 4 + [429] * 16)
        again = self.ask(request("GET", "/connect", token=self.token), self.memory.connect(peer="192.0.2.7"))
        self.assertEqual((again.status, again.error["code"]), (429, "rate_limited"))
        self.assertGreater(again.error["retryAfterMs"], 0)
        other = self.ask(request("GET", "/connect", token=self.token), self.memory.connect(peer="192.0.2.8"))
        self.assertEqual(other.status, 426)
        # verified once, it passes from anywhere
        self.assertEqual(
            self.ask(request("GET", "/connect", token=self.token), self.memory.connect(peer="192.0.2.7")).status, 426
        )

    def test_tokens_are_never_logged(self) -> None:
        """C12."""
        heard: list[str] = []

        def hear(event: LogEvent) -> None:
            heard.append(repr(event))

        observer = cast("ILogObserver", hear)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        self.memory.front.work["sessions.get"] = fail
        for path in ("/sessions", f"/sessions/{SESSION}", f"/sessions?token={self.token}", "/connect"):
            reply = self.get(path)
            self.assertNotIn(self.token, reply.body.decode() + repr(reply.headers))
        peer = self.memory.open(self.token)
        peer.send(b"\xff\xff\xff\xff\xff\xff\xff")
        browser = self.memory.connect()
        browser.send(handshake(None, protocol=f"opc.v1, opc.bearer.{self.token}"))
        self.flushLoggedErrors(ZeroDivisionError)
        self.memory.advance(10)
        self.assertEqual([event for event in heard if self.token in event or self.token.split(".")[2] in event], [])


class HostAndOriginTests(HttpCase):
    def test_hosts_on_the_loopback(self) -> None:
        """B2."""
        for host, status in (
            ("localhost", 200), ("LOCALHOST:7390", 200), ("127.0.0.1:1", 200), ("127.1.2.3", 200), ("[::1]:7390", 200),
            ("evil.example", 400), ("192.0.2.1", 400), ("localhost.evil.example", 400), ("localhost.", 400), ("", 400),
            ("127.0.0.1:x", 400), ("a b", 400), ("127.0.0.1@evil.example", 400), ("[::1", 400), ("127.0.0.1/", 400),
        ):  # fmt: skip
            reply = self.ask(request("GET", "/health", host=host))
            self.assertEqual(reply.status, status, host)

    def test_configured_names(self) -> None:
        self.memory.site.rules.hosts = frozenset({"box.example"})
        for host, status in (("Box.Example:7390", 200), ("other.example", 400)):
            self.assertEqual(self.ask(request("GET", "/health", host=host)).status, status)
            public = self.memory.connect(host="192.0.2.1")
            self.assertEqual(self.ask(request("GET", "/health", host=host), public).status, status)

    def test_any_name_off_the_loopback_unless_configured(self) -> None:
        self.assertEqual(
            self.ask(request("GET", "/health", host="any.example"), self.memory.connect(host="192.0.2.1")).status, 200
        )

    def test_one_host(self) -> None:
        self.assertEqual(self.ask(request("GET", "/health", "Host: 127.0.0.1")).status, 400)
        self.assertEqual(self.ask(b"GET /health HTTP/1.1\r\n\r\n").status, 400)

    def test_absolute_target(self) -> None:
        for target in ("http://127.0.0.1/health", "*", "127.0.0.1:80", "health"):
            for verb in ("GET", "OPTIONS", "CONNECT"):
                self.assertEqual(self.ask(request(verb, target)).status, 400)

    def test_origins(self) -> None:
        """B1, BR-081: exact strings, on every route."""
        self.memory.site.rules.origins = frozenset({"https://good.example"})
        for origin, allowed in (
            ("http://127.0.0.1", True), ("https://good.example", True), ("https://good.example.evil.com", False),
            ("https://good.example:444", False), ("http://good.example", False), ("null", False), ("https://GOOD.example", False),
            ("https://good.example.", False), ("https://127.0.0.1", False), ("http://127.0.0.1:7390", False), ("", False),
            ("https://good.example\xff", False), ("*", False),
        ):  # fmt: skip
            for path in ("/health", "/sessions", "/connect", "/nothing"):
                reply = self.ask(request("GET", path, f"Origin: {origin}", token=self.token))
                self.assertEqual(reply.status == 403, not allowed, (origin, path))
                self.assertNotIn("access-control-allow-origin", reply.headers)

    def test_two_origins(self) -> None:
        reply = self.ask(request("GET", "/health", "Origin: http://127.0.0.1", "Origin: http://127.0.0.1"))
        self.assertEqual((reply.status, reply.error["code"]), (403, "forbidden"))


class FramingTests(HttpCase):
    """W5: what proxies could understand in another way."""

    def refused(self, data: bytes) -> None:
        peer = self.memory.connect()
        peer.send(data)
        peer.send(request("GET", "/health"))
        raw = peer.transport.take()
        self.assertLessEqual(len(STATUS_LINE.findall(raw)), 1, data[-100:])
        if raw:
            reply = Inbox(raw).replies()[0]
            self.assertEqual(reply.status, 400, data[-100:])
            self.assertEqual((reply.error["code"], reply.headers["connection"]), ("invalid_request", "close"))
            self.assertIn("x-request-id", reply.headers)
        self.memory.clock.advance(LINGER_SECONDS)
        self.memory.clock.advance(0)
        self.assertTrue(peer.transport.over)
        self.assertEqual(self.memory.front.calls, [])

    def test_ambiguous_requests(self) -> None:
        auth = f"Authorization: Bearer {self.token}"
        for lines in (
            ["Content-Length: 2", "Transfer-Encoding: chunked"], ["Content-Length: 2", "Content-Length: 2"],
            ["Content-Length: 2", "Content-Length: 3"], ["Content-Length: +2"], ["Content-Length: 0x2"], ["Content-Length: 2, 2"],
            ["Content-Length: -1"], ["Transfer-Encoding: xchunked"], ["Transfer-Encoding : chunked"], ["Transfer-Encoding: gzip, chunked"],
            ["X: a", " folded"], ["X: a", "\tfolded"], ["X: a\rb"], ["X: a\x00b"], ["X a"], [": x"], ["X\x01: x"], ["Content-Length: 1_0"],
        ):  # fmt: skip
            self.refused(request("POST", "/sessions", auth, JSON, *lines) + b"{}")

    def test_bad_first_lines(self) -> None:
        """W18."""
        for line in (
            b"GET /health",
            b"GET  /health HTTP/1.1",
            b"GET /health HTTP/2.0",
            b"GET /a b HTTP/1.1",
            b" GET / HTTP/1.1",
            b"\x16\x03\x01",
            b"GET /\x00 HTTP/1.1",
        ):
            self.refused(line + b"\r\nHost: 127.0.0.1\r\n\r\n")
        self.refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

    def test_too_much_head(self) -> None:
        self.refused(request("GET", "/sessions", *[f"X-{n}: y" for n in range(600)]))
        self.refused(request("GET", "/sessions", "X: " + "y" * 20_000))
        self.refused(b"GET /" + b"x" * 40_000)

    def test_chunks(self) -> None:
        head = request("POST", "/sessions", JSON, "Transfer-Encoding: chunked", token=self.token)
        for chunk in (
            b"0x1\r\n{}\r\n",
            b"-1\r\n",
            b"zz\r\n",
            b"2;\n\r\n{}\r\n0\r\n\r\n",
            b"2\n{}\n0\n\n" + b"x" * 100,
            b"ffffffffffffffffff\r\n",
        ):
            peer = self.memory.connect()
            peer.send(head + chunk)
            self.assertNotIn(b" 201 ", peer.transport.take(), chunk)

    def test_http_1_0_gets_one_answer(self) -> None:
        peer = self.memory.connect()
        peer.send(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n" * 2)
        self.assertEqual(peer.transport.take().count(b'{"status":"ok"}'), 1)


class BodyTests(HttpCase):
    """W1, W2: nothing of a body is read before the caller is known."""

    def upload(self, *lines: str, token: str | None, verb: str = "POST", path: str = "/sessions") -> Peer:
        peer = self.memory.connect()
        peer.send(request(verb, path, JSON, *lines, token=token))
        return peer

    def test_refused_before_the_body(self) -> None:
        big = "Content-Length: 314572800"
        for lines in ((big,), ("Transfer-Encoding: chunked",), (big, "Expect: 100-continue")):
            for token, verb, path, status in (
                (None, "PUT", "/files/x/archive", 401), ("x.y.z", "POST", "/sessions", 401), (self.token, "POST", "/nothing", 404),
                (self.token, "PUT", "/sessions", 405),
            ):  # fmt: skip
                peer = self.upload(*lines, token=token, verb=verb, path=path)
                raw = peer.transport.take()
                self.assertTrue(raw.startswith(b"HTTP/1.1 %d " % status), raw)
                self.assertNotIn(b"100 Continue", raw)
                self.memory.clock.advance(600)

    def test_what_still_comes_is_dropped_and_bounded(self) -> None:
        peer = self.upload("Content-Length: 314572800", token=None)
        for _ in range(LINGER_BYTES // 8192):
            peer.send(b"x" * 8192)
        self.assertEqual(peer.transport.producerState, "paused")
        self.assertEqual(len(peer.replies()), 1)
        self.memory.clock.advance(LINGER_SECONDS)
        self.memory.clock.advance(0)
        self.assertTrue(peer.transport.over)

    def test_too_large(self) -> None:
        limit = limits.MAX_MESSAGE_BYTES
        self.assertEqual(self.upload(f"Content-Length: {limit + 1}", token=self.token).replies()[0].status, 413)
        body = json.dumps({"metadata": {}}).encode().ljust(limit)
        self.assertEqual(self.post("/sessions", body).status, 201)

    def test_too_large_in_chunks(self) -> None:
        peer = self.upload("Transfer-Encoding: chunked", token=self.token)
        for _ in range(17):
            peer.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
        replies = peer.replies()
        self.assertEqual([(reply.status, reply.error["code"]) for reply in replies], [(413, "too_large")])
        self.assertEqual(self.memory.front.calls, [])

    def test_expect(self) -> None:
        peer = self.upload("Content-Length: 2", "Expect: 100-continue", token=self.token)
        self.assertEqual(peer.transport.take(), b"HTTP/1.1 100 Continue\r\n\r\n")
        peer.send(b"{}")
        self.assertEqual(peer.replies()[0].status, 201)

    def test_a_slow_body(self) -> None:
        """W3."""
        peer = self.upload("Content-Length: 100000", token=self.token)
        for _ in range(30):
            self.memory.clock.advance(1)
            peer.send(b" ")
        replies = peer.replies()
        self.assertEqual([(reply.status, reply.error["field"]) for reply in replies], [(400, "body")])

    def test_a_body_that_keeps_coming(self) -> None:
        peer = self.upload("Content-Length: 100000", token=self.token)
        for _ in range(50):
            self.memory.clock.advance(1)
            peer.send(b" " * 1990)
        peer.send(b"{}".rjust(500))
        self.assertEqual(peer.replies()[0].status, 201)


class DeadlineTests(HttpCase):
    """W3, W4."""

    def test_a_slow_head(self) -> None:
        peer = self.memory.connect()
        for n in range(10):
            peer.send(b"GET /health HTTP/1.1\r\n" if n == 0 else b"X: y\r\n")
            self.assertFalse(peer.transport.over)
            self.memory.clock.advance(1)
        self.memory.clock.advance(0)
        self.assertTrue(peer.transport.over)

    def test_a_slow_second_head(self) -> None:
        peer = self.memory.connect()
        peer.send(request("GET", "/health"))
        self.memory.clock.advance(30)
        self.assertFalse(peer.transport.over)
        peer.send(b"G")
        self.memory.advance(9)
        self.assertFalse(peer.transport.over)
        self.memory.advance(2)
        self.assertTrue(peer.transport.over)

    def test_idle(self) -> None:
        peer = self.memory.connect()
        peer.send(request("GET", "/health"))
        self.memory.advance(61)
        self.assertTrue(peer.transport.over)

    def test_nothing_is_left_of_a_connection(self) -> None:
        peer = self.memory.connect()
        peer.send(request("GET", "/health"))
        peer.lose()
        self.memory.connect().lose()
        self.memory.open().lose()
        self.assertEqual(self.memory.clock.getDelayedCalls(), [])
        self.assertEqual(
            (len(self.memory.site._strangers), len(self.memory.site.members), len(self.memory.roster)), (0, 0, 0)
        )

    def test_silent_connections_do_not_keep_anybody_out(self) -> None:
        """The one that has been silent longest goes; who has shown a credential stays."""
        good = self.memory.connect()
        good.send(request("GET", "/connect", token=self.token))
        self.assertEqual(good.replies()[0].status, 426)
        silent = [self.memory.connect(peer=f"192.0.{n // 250}.{n % 250}") for n in range(2000)]
        self.memory.clock.advance(0)
        self.assertEqual(sum(peer.transport.over is None for peer in silent), MAX_STRANGERS)
        self.assertFalse(good.transport.over)
        self.assertEqual(self.ask(request("GET", "/health"), self.memory.connect()).status, 200)

    def test_silent_connections_of_one_address(self) -> None:
        silent = [self.memory.connect(peer="192.0.2.1") for _ in range(50)]
        self.memory.clock.advance(0)
        self.assertEqual(sum(peer.transport.over is None for peer in silent), MAX_STRANGERS_PER_SOURCE)
        self.assertFalse(self.memory.connect(peer="192.0.2.2").transport.over)


class PipeliningTests(HttpCase):
    """W6."""

    def test_answers_come_in_order(self) -> None:
        waiting: list[Deferred[None]] = []

        async def slow(params: Any, caller: Caller, connection: Connection | None) -> Struct:
            done: Deferred[None] = Deferred()
            waiting.append(done)
            await done
            return results.SessionList(sessions=[], next_cursor=params.session_id)

        self.memory.front.work["sessions.get"] = slow
        peer = self.memory.connect()
        peer.send(b"".join(request("GET", f"/sessions/{n}", token=self.token) for n in range(100)))
        answers = []
        for n in range(100):
            self.assertEqual(len(waiting), n + 1)
            waiting[n].callback(None)
            self.memory.clock.advance(0)
            answers += [json.loads(reply.body)["nextCursor"] for reply in peer.replies()]
        self.assertEqual(answers, [str(n) for n in range(100)])

    def test_one_request_a_turn(self) -> None:
        """W13. A read may hold 1,400 requests, and everybody else would wait for all of their answers."""
        peer = self.memory.connect()
        peer.send(request("GET", "/health") * 50)
        self.assertEqual((len(peer.replies()), peer.transport.producerState), (1, "paused"))
        self.memory.clock.advance(0)
        self.assertEqual((len(peer.replies()), peer.transport.producerState), (49, "producing"))

    def test_pace(self) -> None:
        """W13."""
        peer = self.memory.connect()
        peer.send(request("GET", "/health") * 300)
        answered = 0
        for _ in range(1000):
            self.memory.clock.advance(0.001)
            answered += len(peer.replies())
        self.assertGreaterEqual(answered, 180)
        self.assertLessEqual(answered, 201)
        self.assertEqual(peer.transport.producerState, "paused")

    def test_answers_that_are_not_taken(self) -> None:
        """W12. The next request waits until the client has taken the answer to the one before."""
        peer = self.memory.connect()
        peer.transport.write = _full(peer)  # type: ignore[method-assign]
        peer.send(request("GET", "/health") * 3)
        for turn in range(3):
            self.memory.advance(5)
            self.assertEqual(len(peer.replies()), 1, turn)
            self.assertEqual(peer.transport.producerState, "paused")
            peer.transport.protocol.resumeProducing()
        peer.send(request("GET", "/health"))
        self.assertEqual(len(peer.replies()), 1)

    def test_a_client_that_goes_while_it_rests(self) -> None:
        peer = self.memory.connect()
        peer.send(request("GET", "/health") * 300)
        self.memory.clock.advance(0.01)
        peer.lose()
        self.assertEqual(self.memory.clock.getDelayedCalls(), [])

    def test_a_client_that_goes_frees_its_wait(self) -> None:
        ended: list[bool] = []

        async def wait(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
            await Deferred(lambda _: ended.append(True))
            raise AssertionError

        self.memory.front.work["events.list"] = wait
        peer = self.memory.connect()
        peer.send(request("GET", "/sessions/x/events?waitMs=60000", token=self.token))
        peer.lose()
        self.assertEqual(ended, [True])

    def test_what_changes_something_is_not_stopped(self) -> None:
        ended: list[bool] = []
        done: Deferred[None] = Deferred(lambda _: ended.append(True))

        async def work(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
            await done
            return results.SessionCreated(session=session(), turn=None, seq=1)

        self.memory.front.work["sessions.create"] = work
        peer = self.memory.connect()
        peer.send(request("POST", "/sessions", token=self.token))
        peer.lose()
        self.assertEqual(ended, [])
        done.callback(None)

    def test_an_answer_after_the_server_has_begun_to_close(self) -> None:
        done: Deferred[None] = Deferred()

        async def work(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
            await done
            return results.SessionCreated(session=session(), turn=None, seq=1)

        self.memory.front.work["sessions.create"] = work
        busy, idle = self.memory.connect(), self.memory.connect()
        busy.send(request("POST", "/sessions", token=self.token))
        self.memory.site.close_idle()
        self.memory.clock.advance(0)
        self.assertTrue(idle.transport.over)
        self.assertFalse(busy.transport.over)
        done.callback(None)
        self.assertEqual(busy.replies()[0].headers["connection"], "close")
        self.memory.clock.advance(0)
        self.assertTrue(busy.transport.over)


class MemberTests(HttpCase):
    """R10. What one member can make the server hold over HTTP."""

    def wait(self) -> list[Deferred[None]]:
        """Has `sessions.get` wait."""
        waiting: list[Deferred[None]] = []

        async def work(params: Any, caller: Caller, connection: Connection | None) -> Struct:
            done: Deferred[None] = Deferred()
            waiting.append(done)
            await done
            return results.SessionList(sessions=[], next_cursor="x" * int(params.session_id))

        self.memory.front.work["sessions.get"] = work
        return waiting

    def test_the_connection_that_asked_least_lately_goes(self) -> None:
        peers = []
        for _ in range(MAX_PER_MEMBER):
            peers.append(self.memory.connect())
            peers[-1].send(request("GET", "/connect", token=self.token))
        peers[0].send(request("GET", "/connect", token=self.token))
        other = self.memory.connect()
        other.send(request("GET", "/connect", token=self.memory.issuer.mint("bob").token))
        self.memory.clock.advance(0)
        self.assertEqual([peer.transport.over for peer in [*peers, other]], [None] * (MAX_PER_MEMBER + 1))
        self.assertEqual(self.ask(request("GET", "/connect", token=self.token)).status, 426)
        self.memory.clock.advance(0)
        self.assertEqual([n for n, peer in enumerate(peers) if peer.transport.over], [1])

    def test_requests_on_too_many_connections(self) -> None:
        waiting = self.wait()
        for _ in range(MAX_PER_MEMBER):
            self.memory.connect().send(request("GET", "/sessions/1", token=self.token))
        late = self.memory.connect()
        late.send(request("GET", "/sessions/1", token=self.token))
        self.assertEqual([reply.status for reply in late.replies()], [429])
        self.assertIn(late.transport.protocol, self.memory.site._strangers)
        waiting[0].callback(None)
        late.send(request("GET", "/sessions/1", token=self.token))
        self.assertEqual(len(waiting), MAX_PER_MEMBER + 1)
        for done in waiting[1:]:
            done.callback(None)

    def test_bodies_that_do_not_come_whole(self) -> None:
        peers = []
        for _ in range(10):
            peers.append(self.memory.connect())
            peers[-1].send(request("POST", "/sessions", JSON, f"Content-Length: {limits.MIB}", token=self.token))
            for _ in range(15):
                peers[-1].send(b" " * 65536)
        refused = [peer for peer in peers if [reply.status for reply in peer.replies()] == [429]]
        self.assertEqual(len(refused), 2)
        self.assertLessEqual(sum(peer.transport.protocol.body_bytes for peer in peers), HELD_BYTES + 10 * FREE_BYTES)
        bob = self.memory.connect()
        bob.send(
            request("POST", "/sessions", JSON, "Content-Length: 100000", token=self.memory.issuer.mint("bob").token)
        )
        bob.send(b"{}".rjust(100_000))
        self.assertEqual([reply.status for reply in bob.replies()], [201])
        for peer in peers:
            peer.lose()
        self.assertEqual(self.post("/sessions", b"{}".rjust(100_000)).status, 201)

    def test_answers_that_are_not_taken(self) -> None:
        waiting = self.wait()
        peers = [self.memory.connect() for _ in range(10)]
        for peer in peers:
            peer.transport.write = _full(peer)  # type: ignore[method-assign]
            peer.send(request("GET", f"/sessions/{limits.MIB}", token=self.token))
        for done in waiting:
            done.callback(None)
        self.assertEqual([peer.replies()[0].status for peer in peers], [200] * 7 + [429] * 3)
        peers[0].transport.protocol.resumeProducing()
        self.assertEqual(self.ask(request("GET", "/connect", token=self.token)).status, 426)
        self.memory.connect().send(request("GET", f"/sessions/{limits.MIB}", token=self.token))

    def test_a_credential_that_ends_while_its_answer_is_awaited(self) -> None:
        """C6. A long poll would go on for a minute."""
        waiting = self.wait()
        peer = self.memory.connect()
        peer.send(request("GET", "/sessions/1", token=self.memory.issuer.mint("alice", ttl=30).token))
        self.memory.advance(31)
        waiting[0].callback(None)
        self.assertEqual([reply.status for reply in peer.replies()], [401])


def _full(peer: Peer) -> Callable[[bytes], None]:
    """A `write` of a transport whose client takes nothing."""
    write = peer.transport.write

    def put(data: bytes) -> None:
        write(data)
        peer.transport.protocol.pauseProducing()

    return put


class RandomBytesTests(HttpCase):
    def test_any_bytes(self) -> None:
        """J8 for HTTP: whatever comes, no traceback and at most one answer."""
        for size in (1, 10, 100, 1000, 20_000):
            for _ in range(20):
                peer = self.memory.connect()
                peer.send(os.urandom(size))
                self.assertLessEqual(len(STATUS_LINE.findall(peer.transport.take())), 1)
                peer.lose()
