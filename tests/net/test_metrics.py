"""`GET /metrics` and `GET /health`: who is answered, where, and what the network edge counts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import Struct
from twisted.internet import reactor as global_reactor
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString, connectProtocol
from twisted.trial.unittest import SynchronousTestCase, TestCase

from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.contract import limits
from computerd.contract.closing import CloseCode
from computerd.contract.methods import BY_NAME, METHODS
from computerd.net.entrance import Entrance, Exposition, is_private
from computerd.net.members import MAX_PER_MEMBER
from computerd.net.service import NetService
from computerd.net.tally import Tally
from tests.net.clients import Memory, MemoryTransport, Peer, Reply, TcpClient, call, frame, handshake, request, text
from tests.net.fakes import FakeFront, Issuer, fail, refuse

reactor: Any = global_reactor
BODY = b"# HELP x y\n# TYPE x counter\nx_total 1.0\n"
JSON = "Content-Type: application/json"


async def never(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
    """Work that a stalled disk holds up."""
    answer: Deferred[Struct] = Deferred()
    return await answer


class MetricsCase(SynchronousTestCase):
    """A site in memory."""

    def setUp(self) -> None:
        self.memory = Memory()
        self.token = self.memory.issuer.mint().token
        self.tally: Tally = self.memory.site.tally
        # both count in the same tables, as `NetService` has it
        self.memory.site.sockets.tally = self.tally

    def enter(self, metrics: Exposition | None) -> Peer:
        """A client that comes in through a listener which serves these."""
        entrance = Entrance(self.memory.site)
        entrance.metrics = metrics
        transport = MemoryTransport(self.memory.clock)
        transport.protocol = entrance.buildProtocol(transport.getPeer())
        transport.protocol.makeConnection(transport)
        return Peer(self.memory, transport)

    def ask(self, data: bytes, metrics: Exposition | None = lambda: BODY) -> Reply:
        """The one answer to `data`."""
        peer = self.enter(metrics)
        peer.send(data)
        replies = peer.replies()
        self.assertEqual(len(replies), 1, (data, replies))
        return replies[0]


class ServedTests(MetricsCase):
    """What `GET /metrics` answers."""

    def test_with_a_credential_that_allows_nothing_else(self) -> None:
        token = self.memory.issuer.mint("prometheus", scopes=()).token
        reply = self.ask(request("GET", "/metrics", token=token))
        self.assertEqual((reply.status, reply.body), (200, BODY))
        self.assertEqual(reply.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        self.assertEqual(reply.headers["cache-control"], "no-store")

    def test_head(self) -> None:
        peer = self.enter(lambda: BODY)
        peer.send(request("HEAD", "/metrics", token=self.token))
        raw = peer.transport.take()
        self.assertTrue(raw.startswith(b"HTTP/1.1 200 OK\r\n"), raw)
        self.assertIn(b"Content-Length: %d\r\n" % len(BODY), raw)
        self.assertTrue(raw.endswith(b"\r\n\r\n"), raw)

    def test_without_a_credential(self) -> None:
        """C14: nobody is trusted for coming in over the loopback."""
        for served in (lambda: BODY, None):
            for token in (None, "nonsense", self.memory.issuer.mint(ttl=-1.0).token):
                reply = self.ask(request("GET", "/metrics", token=token), served)
                self.assertEqual((reply.status, reply.error["code"]), (401, "unauthenticated"))

    def test_revoked(self) -> None:
        minted = self.memory.issuer.mint()
        self.assertEqual(self.ask(request("GET", "/metrics", token=minted.token)).status, 200)
        self.memory.issuer.revocations.revoke(minted.token_id)
        self.assertEqual(self.ask(request("GET", "/metrics", token=minted.token)).status, 401)

    def test_where_it_is_not_served_it_is_a_path_like_any_other(self) -> None:
        for verb in ("GET", "POST", "DELETE"):
            replies = [self.ask(request(verb, path, token=self.token), None) for path in ("/metrics", "/nothing")]
            self.assertEqual([reply.status for reply in replies], [404, 404])
            first, second = (dict(reply.error, requestId="") for reply in replies)
            self.assertEqual(first, second)
            self.assertEqual(first["code"], "not_found")

    def test_other_verbs(self) -> None:
        for verb in ("POST", "PUT", "DELETE", "OPTIONS"):
            reply = self.ask(request(verb, "/metrics", token=self.token))
            self.assertEqual((reply.status, reply.headers["allow"]), (405, "GET, HEAD"))

    def test_neither_a_body_nor_a_query_matters(self) -> None:
        reply = self.ask(request("GET", "/metrics?name[]=up", token=self.token))
        self.assertEqual((reply.status, reply.body), (200, BODY))
        reply = self.ask(request("GET", "/metrics", JSON, "Content-Length: 2", token=self.token) + b"{}")
        self.assertEqual((reply.status, reply.error["field"]), (400, "body"))

    def test_a_defect_is_told_as_one(self) -> None:
        def broken() -> bytes:
            raise ZeroDivisionError("secret detail")

        reply = self.ask(request("GET", "/metrics", token=self.token), broken)
        self.assertEqual((reply.status, reply.error["code"]), (500, "internal"))
        self.assertNotIn(b"secret", reply.body)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_it_is_no_method_of_the_api(self) -> None:
        self.assertNotIn("metrics", " ".join(f"{m.name} {m.route.path if m.route else ''}" for m in METHODS))


class HealthTests(MetricsCase):
    """`GET /health` depends on nothing."""

    def test_while_all_work_hangs(self) -> None:
        """S5: a disk that does not answer is not the listener's."""
        self.memory.front.work["sessions.create"] = never
        waiting = self.enter(None)
        head = request("POST", "/sessions", JSON, "Content-Length: 2", token=self.token)
        waiting.send(head + b"{}")
        self.assertEqual(waiting.replies(), [])
        calls = len(self.memory.front.calls)
        reply = self.ask(request("GET", "/health"))
        self.assertEqual((reply.status, reply.body), (200, b'{"status":"ok"}'))
        reply = self.ask(request("GET", "/metrics", token=self.token))
        self.assertEqual((reply.status, reply.body), (200, BODY))
        self.assertEqual(len(self.memory.front.calls), calls)

    def test_before_the_key_is_there(self) -> None:
        self.memory.issuer.keys.source = list
        self.memory.issuer.keys.open()
        self.assertEqual(self.ask(request("GET", "/health")).status, 200)


class PrivateTests(SynchronousTestCase):
    """Which listeners only this machine reaches."""

    def test_addresses(self) -> None:
        for address, private in (
            (IPv4Address("TCP", "127.0.0.1", 1), True),
            (IPv4Address("TCP", "127.8.8.8", 1), True),
            (IPv6Address("TCP", "::1", 1), True),
            (IPv6Address("TCP", "::ffff:127.0.0.1", 1), True),
            (UNIXAddress(b"/run/x.sock"), True),
            (UNIXAddress(None), True),
            (IPv4Address("TCP", "0.0.0.0", 1), False),
            (IPv6Address("TCP", "::", 1), False),
            (IPv6Address("TCP", "::ffff:0.0.0.0", 1), False),
            (IPv4Address("TCP", "192.0.2.1", 1), False),
            (IPv6Address("TCP", "2001:db8::1", 1), False),
            (IPv6Address("TCP", "fe80::1%eth0", 1), False),
        ):
            self.assertIs(is_private(address), private, address)


class ListenerTests(TestCase):
    """Real listeners: where they are bound decides, not how they are reached."""

    timeout = 60

    def setUp(self) -> None:
        self.folder = Path(os.path.relpath(self.mktemp()))
        self.folder.mkdir(parents=True)
        self.issuer = Issuer(reactor.seconds)

    async def serve(self, *endpoints: str, **options: Any) -> NetService:
        """A service that listens."""
        issuer = self.issuer
        service = NetService(
            reactor, endpoints, FakeFront(), issuer.keys, issuer.credentials, (), (), None, issuer.wall, os.urandom,
            **{"metrics": lambda: BODY, **options},
        )  # fmt: skip
        service.startService()
        await service.listen()
        self.addCleanup(service.stopService)
        return service

    async def status(self, where: str) -> int:
        """Of a scrape."""
        client = TcpClient()
        await connectProtocol(clientFromString(reactor, where), client)
        self.addCleanup(client.close)
        client.send(request("GET", "/metrics", token=self.issuer.mint().token))
        await client.until(lambda: b"\r\n\r\n" in client.inbox.data)
        return client.inbox.replies()[0].status

    async def statuses(self, *endpoints: str, **options: Any) -> list[int]:
        """Of a scrape over the loopback through each listener of one service."""
        service = await self.serve(*endpoints, **options)
        found = []
        for text_, port in zip(endpoints, service.ports, strict=True):
            number = getattr(port.getHost(), "port", None)
            where = text_ if number is None else f"tcp:127.0.0.1:{number}"
            found.append(await self.status(where))
        return found

    async def test_loopback_only(self) -> None:
        """C14: and one service has listeners of both kinds."""
        endpoints = ("tcp:0:interface=127.0.0.1", "tcp:0", f"unix:{self.folder}/web.sock")
        self.assertEqual(await self.statuses(*endpoints), [200, 404, 200])

    async def test_everywhere(self) -> None:
        self.assertEqual(await self.statuses("tcp:0:interface=127.0.0.1", "tcp:0", metrics_everywhere=True), [200, 200])

    async def test_off(self) -> None:
        self.assertEqual(
            await self.statuses("tcp:0:interface=127.0.0.1", "tcp:0", metrics=None, metrics_everywhere=True),
            [404, 404],
        )


class CountTests(MetricsCase):
    """What the edge counts."""

    def open(self) -> Peer:
        """A connection that has had `ready`."""
        peer = self.memory.open(self.token)
        peer.frames()
        return peer

    def test_http(self) -> None:
        self.memory.front.work["sessions.get"] = refuse
        self.memory.front.work["sessions.list"] = fail
        self.ask(request("GET", "/health"))
        self.ask(request("GET", "/sessions/cs_0123456789abcdef", token=self.token))
        self.ask(request("GET", "/sessions", token=self.token))
        self.ask(request("POST", "/sessions", JSON, "Content-Length: 2", token=self.token) + b"{}")
        self.ask(request("GET", "/nothing/at/all", token=self.token))
        self.ask(b"nonsense\r\n\r\n")
        self.flushLoggedErrors(ZeroDivisionError)
        self.assertEqual(
            self.tally.requests,
            {
                ("other", "2xx"): 1,
                ("sessions.get", "4xx"): 1,
                ("sessions.list", "5xx"): 1,
                ("sessions.create", "2xx"): 1,
                ("other", "4xx"): 2,
            },
        )

    def test_a_body_that_is_too_large(self) -> None:
        head = request("POST", "/sessions", JSON, "Transfer-Encoding: chunked", token=self.token)
        size = limits.MAX_MESSAGE_BYTES + 1
        self.ask(head + b"%x\r\n" % size + bytes(size))
        self.assertEqual(self.tally.requests, {("sessions.create", "4xx"): 1})

    def test_rpc(self) -> None:
        self.memory.front.work["sessions.get"] = refuse
        self.memory.front.work["terminals.eof"] = fail
        peer = self.open()
        peer.send(call("ping"))
        peer.send(call("sessions.get", sessionId="cs_0123456789abcdef"))
        peer.send(call("sessions.get", nothing=1))
        peer.send(call("terminals.eof", terminalId="tm_0123456789ab"))
        peer.send(call("no.such.method"))
        peer.send(text("no request"))
        self.flushLoggedErrors(ZeroDivisionError)
        self.assertEqual(
            self.tally.calls,
            {
                ("ping", "ok"): 1,
                ("sessions.get", "not_found"): 1,
                ("sessions.get", "request"): 1,
                ("terminals.eof", "retry_later"): 1,
                ("other", "protocol"): 2,
            },
        )

    def test_too_many_requests(self) -> None:
        peer = self.open()
        peer.send(call("ping") * (limits.MAX_REQUESTS_PER_SECOND + 3))
        self.assertEqual(self.tally.limited, {"requests": 3})
        self.assertEqual(self.tally.calls["other", "retry_later"], 3)

    def test_too_many_connections_of_one_member(self) -> None:
        self.memory.front.work["sessions.list"] = never
        for _ in range(MAX_PER_MEMBER):
            self.enter(None).send(request("GET", "/sessions", token=self.token))
        self.assertEqual(self.ask(request("GET", "/sessions", token=self.token)).status, 429)
        self.assertEqual(self.tally.limited, {"connections": 1})

    def test_credentials(self) -> None:
        minted = self.memory.issuer.mint()
        self.memory.issuer.revocations.revoke(minted.token_id)
        for token in (None, "nonsense", minted.token):
            self.ask(request("GET", "/sessions", token=token))
        self.assertEqual(self.tally.unauthenticated, {"missing": 1, "forged": 1, "no_longer": 1})

    def test_forgeries_from_one_address(self) -> None:
        statuses = []
        for _ in range(8):
            peer = self.memory.connect(peer="192.0.2.7")
            peer.send(request("GET", "/sessions", token="nonsense"))
            statuses += [reply.status for reply in peer.replies()]
            self.memory.clock.advance(0)
        self.assertEqual(sorted(set(statuses)), [401, 429])
        self.assertEqual(self.tally.limited, {"credentials": statuses.count(429)})
        self.assertEqual(self.tally.unauthenticated, {"forged": statuses.count(401)})

    def test_connections(self) -> None:
        peers = [self.open() for _ in range(5)]
        self.assertEqual((self.tally.connections, self.memory.roster.open), (5, 5))
        peers[0].lose()
        peers[1].send(frame((1000).to_bytes(2, "big"), 8))
        # a code of its own choosing makes no series of its own
        peers[2].send(frame((4999).to_bytes(2, "big"), 8))
        peers[3].send(frame(b"", 8))
        peers[4].send(frame(b"abc"))
        self.assertEqual((self.tally.connections, self.memory.roster.open), (5, 0))
        self.assertEqual(
            self.tally.closes,
            {
                ("network", "1006"): 1,
                ("client", "1000"): 1,
                ("client", "other"): 1,
                ("client", "1005"): 1,
                ("server", "1002"): 1,
            },
        )

    def test_one_that_is_refused_was_not_opened(self) -> None:
        peer = self.memory.connect()
        peer.send(handshake(self.token, protocol=None))
        self.assertEqual(self.tally.connections, 0)
        self.assertEqual(self.tally.closes, {("server", str(int(CloseCode.NO_SUBPROTOCOL))): 1})
        self.assertEqual(self.tally.requests, {("other", "1xx"): 1})

    def test_input_for_nobody(self) -> None:
        peer = self.open()
        peer.send(frame((7).to_bytes(4, "big") + b"x") * 3)
        self.assertEqual(self.memory.site.sockets.traffic.stray_frames, 3)

    def test_no_label_is_a_clients_to_choose(self) -> None:
        peer = self.open()
        for number in range(50):
            peer.send(call(f"method.{number}"))
            self.ask(request("GET", f"/path/{number}", token=self.memory.issuer.mint(f"member{number}").token))
        self.assertEqual(self.tally.calls, {("other", "protocol"): 50})
        self.assertLessEqual({method for method, _ in self.tally.requests}, {*BY_NAME, "other"})
        self.assertEqual(len(self.tally.requests), 2)
