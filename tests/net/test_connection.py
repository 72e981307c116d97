from __future__ import annotations

import json
import tracemalloc
from typing import Any

from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

import computerd
from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.contract import limits, objects, results
from computerd.contract.closing import REASONS, CloseCode
from computerd.contract.errors import ApiError, Code
from computerd.contract.methods import METHODS
from computerd.net.connection import CLOSE_SECONDS
from computerd.net.factory import ConnectionFactory
from computerd.net.keys import NoKeyYet
from computerd.net.signer import Signer
from tests.net.clients import Memory, Peer, call, close_code, frame, handshake, messages, text
from tests.net.fakes import SESSION, Issuer, fail, refuse


@define(eq=False, slots=False)
class Echo:
    """A terminal that says what it hears."""

    outbox: Any
    channel: int
    id: str = "tm_0123456789ab"
    heard: list[bytes] = field(factory=list)
    resumed: int = 0
    abandoned: bool = False

    def input(self, data: bytes) -> bool:
        self.heard.append(data)
        if data:
            self.outbox.frame(self.channel, data, self)
        return True

    def resume(self) -> None:
        self.resumed += 1

    def abandon(self) -> None:
        self.abandoned = True
        self.outbox.forget(self)


class ConnectionCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.memory = Memory()
        self.echoes: list[Echo] = []
        self.memory.front.work["terminals.open"] = self.open_echo

    async def open_echo(self, params: Struct, caller: Caller, connection: Connection | None) -> Struct:
        assert connection is not None
        echo = Echo(connection.outbox, connection.channels.reserve(True)[0])
        connection.channels.add(echo)  # type: ignore[arg-type]
        self.echoes.append(echo)
        return results.TerminalOpened(terminal=objects.Terminal(id=echo.id, channel=echo.channel, stderr_channel=None))

    def open(self, **options: Any) -> Peer:
        """A connection that has had `ready`."""
        peer = self.memory.open(**options)
        self.assertEqual([message["method"] for message in peer.messages()], ["ready"])
        return peer

    def with_echo(self) -> Peer:
        peer = self.open()
        peer.send(call("terminals.open", sessionId=SESSION, cols=80, rows=24))
        peer.messages()
        return peer

    def over(self, peer: Peer) -> None:
        """The server has closed, and nothing is left."""
        self.memory.clock.advance(0)
        self.assertTrue(peer.transport.over)
        self.assertEqual(len(self.memory.roster), 0)
        self.assertEqual(self.memory.clock.getDelayedCalls(), [])


class OptionTests(SynchronousTestCase):
    def test_every_option_reads_back_as_it_was_set(self) -> None:
        factory: ConnectionFactory = Memory().site.sockets
        for name, value in {
            "versions": [13], "webStatus": False, "utf8validateIncoming": True, "requireMaskedClientFrames": True,
            "maskServerFrames": False, "applyMask": True, "maxFramePayloadSize": 1 << 20, "maxMessagePayloadSize": 1 << 20,
            "autoFragmentSize": 0, "failByDrop": False, "echoCloseCodeReason": False, "openHandshakeTimeout": 10,
            "closeHandshakeTimeout": 5, "tcpNoDelay": True, "autoPingInterval": 0, "autoPingTimeout": 0,
            "serveFlashSocketPolicy": False, "allowedOrigins": [], "allowNullOrigin": False, "maxConnections": 0,
            "trustXForwardedFor": 0, "server": "", "logOctets": False, "logFrames": False, "trackTimings": False,
        }.items():  # fmt: skip
            self.assertEqual(getattr(factory, name), value, name)
        self.assertIsNone(factory.perMessageCompressionAccept([object()]))

    def test_reasons_fit_a_close_frame(self) -> None:
        for code in CloseCode:
            self.assertLessEqual(len(REASONS[code].encode()), 123)


class OpeningTests(ConnectionCase):
    def test_ready(self) -> None:
        token = self.memory.issuer.mint(ttl=60).token
        ready = self.memory.open(token).messages()[0]
        params = ready["params"]
        self.assertEqual(ready["method"], "ready")
        self.assertRegex(params["connectionId"], r"^cn_[0-9A-Za-z]{12}$")
        self.assertEqual(params["server"], {"version": computerd.__version__, "region": None})
        self.assertEqual(params["limits"], {"maxAttached": 20, "maxMessageBytes": 1 << 20, "maxRequestsPerSecond": 100})
        self.assertEqual((params["expiresAt"], params["expiresInMs"]), ("2027-01-15T08:01:00.000Z", 60_000))

    def test_without_an_end(self) -> None:
        params = self.memory.open().messages()[0]["params"]
        self.assertEqual((params["expiresAt"], params["expiresInMs"]), (None, None))

    def test_the_answer_to_the_handshake(self) -> None:
        """W9, W17: no compression, no version."""
        peer = self.memory.connect()
        peer.send(
            handshake(
                self.memory.issuer.mint().token, "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"
            )
        )
        headers = peer.replies()[0].headers
        self.assertEqual(headers["sec-websocket-protocol"], "opc.v1")
        self.assertRegex(headers["x-request-id"], "^rq_")
        self.assertEqual(
            set(headers), {"upgrade", "connection", "sec-websocket-protocol", "sec-websocket-accept", "x-request-id"}
        )

    def test_a_browser(self) -> None:
        token = self.memory.issuer.mint().token
        peer = self.memory.connect()
        peer.send(handshake(None, "Origin: http://127.0.0.1", protocol=f"opc.v1, opc.bearer.{token}"))
        self.assertEqual(peer.replies()[0].headers["sec-websocket-protocol"], "opc.v1")
        self.assertEqual(peer.messages()[0]["method"], "ready")

    def test_two_credentials_are_none(self) -> None:
        token = self.memory.issuer.mint().token
        peer = self.memory.connect()
        peer.send(handshake(token, protocol=f"opc.v1, opc.bearer.{token}"))
        self.assertEqual(peer.replies()[0].status, 401)

    def test_the_subprotocol(self) -> None:
        """W15."""
        for offer, code in (
            (None, 4400),
            ("opc.v2", 4400),
            ("OPC.V1", 4400),
            ("opc.v2, opc.v1", None),
            ("chat, opc.v1, mqtt", None),
        ):
            peer = self.memory.open(protocol=offer)
            self.assertEqual(peer.close_code(), code, offer)

    def test_refused_before_the_upgrade(self) -> None:
        """C13."""
        for token in (None, "x", self.memory.issuer.mint().token[:-1] + "."):
            peer = self.memory.connect()
            peer.send(handshake(token))
            self.assertEqual([reply.status for reply in peer.replies()], [401])
        self.memory.clock.advance(600)
        self.assertEqual(len(self.memory.roster), 0)

    def test_no_upgrade(self) -> None:
        token = self.memory.issuer.mint().token
        good = handshake(token)
        for broken, status in (
            (good.replace(b"Upgrade: websocket\r\n", b""), 426), (good.replace(b"keep-alive, Upgrade", b"close"), 426),
            (good.replace(b"Version: 13", b"Version: 8"), 426), (good.replace(b"Version: 13", b"Version: 0"), 426),
            (good.replace(b"Sec-WebSocket-Version: 13\r\n", b""), 426), (good.replace(b"Sec-WebSocket-Key: ", b"Sec-WebSocket-Key: A"), 400),
            (good.replace(b"Sec-WebSocket-Key", b"X"), 400), (good.replace(b"GET", b"POST"), 405), (good.replace(b"GET", b"HEAD"), 405),
        ):  # fmt: skip
            peer = self.memory.connect()
            peer.send(broken)
            raw = peer.transport.take()
            self.assertTrue(raw.startswith(b"HTTP/1.1 %d " % status), (broken, raw))

    def test_no_redirect_and_no_status_page(self) -> None:
        """W17."""
        token = self.memory.issuer.mint().token
        for query in ("redirect=http://evil/", "redirect=http://evil/&after=5"):
            for upgrade in (True, False):
                peer = self.memory.connect()
                data = handshake(token, path=f"/connect?{query}")
                peer.send(data if upgrade else data.replace(b"Upgrade: websocket\r\n", b""))
                reply = peer.replies()[0]
                self.assertEqual((reply.status, "location" in reply.headers), (400 if upgrade else 426, False))

    def test_a_body_on_an_upgrade(self) -> None:
        """W16."""
        peer = self.memory.connect()
        ping = frame(b"x", 9)
        peer.send(handshake(self.memory.issuer.mint().token, f"Content-Length: {len(ping)}") + ping)
        self.assertEqual([reply.status for reply in peer.replies()], [400])
        self.assertEqual(peer.inbox.data, b"")

    def test_frames_in_the_same_segment_as_the_handshake(self) -> None:
        peer = self.memory.connect()
        peer.send(handshake(self.memory.issuer.mint().token) + call("ping", 7))
        peer.replies()
        self.assertEqual([message.get("id") for message in peer.messages()], [None, 7])

    def test_after_another_request_on_the_same_connection(self) -> None:
        token = self.memory.issuer.mint().token
        peer = self.memory.connect()
        peer.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + handshake(token))
        self.memory.clock.advance(0)
        self.assertEqual([reply.status for reply in peer.replies()], [200, 101])
        self.assertEqual(peer.messages()[0]["method"], "ready")

    def test_named_attaches(self) -> None:
        peer = self.memory.open(path="/connect?sessionId=cs_1&sessionId=cs_2&after=3&readOnly=true")
        _, one, two = peer.messages()
        self.assertEqual(
            [one["method"], one["params"]["sessionId"], two["params"]["sessionId"]],
            ["sessions.attached", "cs_1", "cs_2"],
        )
        self.assertEqual(one["params"]["error"]["code"], "feature_unavailable")

    def test_attaches_that_the_front_serves(self) -> None:
        seen: list[Any] = []

        async def attach(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
            seen.append(params)
            raise ApiError(Code.SESSION_NOT_FOUND, "No such session.")

        self.memory.front.work["sessions.attach"] = attach
        messages_ = self.memory.open(path="/connect?sessionId=cs_1&after=3").messages()
        self.assertEqual((seen[0].session_id, seen[0].after), ("cs_1", 3))
        self.assertEqual(messages_[1]["params"]["error"]["code"], "session_not_found")

    def test_bad_queries(self) -> None:
        for query, field_ in (
            ("after=x", "after"), ("nothing=1", "nothing"), ("readOnly=1", "readOnly"), ("after=1&after=2", "after"),
            ("&".join(f"sessionId=cs_{n}" for n in range(21)), "sessionId"),
        ):  # fmt: skip
            peer = self.memory.connect()
            peer.send(handshake(self.memory.issuer.mint().token, path=f"/connect?{query}"))
            reply = peer.replies()[0]
            self.assertEqual((reply.status, reply.error["field"]), (400, field_))

    def test_fifty_connections_of_one_member(self) -> None:
        peers = [self.open() for _ in range(limits.MAX_CONNECTIONS_PER_MEMBER)]
        self.assertEqual(self.memory.open().close_code(), 4029)
        bob = self.memory.open(self.memory.issuer.mint("bob").token)
        self.assertEqual(bob.messages()[0]["method"], "ready")
        peers[0].lose()
        self.open()

    def test_no_key_yet(self) -> None:
        def missing() -> list[Any]:
            raise NoKeyYet(None, "not yet")

        token = self.memory.issuer.mint().token
        self.memory.issuer.keys.source, self.memory.issuer.keys._keys = missing, None
        frames = self.memory.open(token).frames()
        self.assertEqual((close_code(frames), frames[-1][1][2:]), (4503, b'{"retryAfterMs":2000}'))
        peer = self.memory.connect()
        peer.send(handshake(token, path="/sessions"))
        reply = peer.replies()[0]
        self.assertEqual((reply.status, reply.error["code"], reply.error["retryAfterMs"]), (503, "unavailable", 2000))


class CallTests(ConnectionCase):
    def test_ping(self) -> None:
        peer = self.open()
        for request_id in (1, "a", -(2**60), ""):
            self.memory.clock.advance(1)
            peer.send(call("ping", request_id))
            self.assertEqual(self.memory.front.arrivals[-1], self.memory.clock.seconds())
            self.assertEqual(
                peer.messages(), [{"jsonrpc": "2.0", "id": request_id, "result": {"timing": {"serverUs": 1}}}]
            )

    def test_errors(self) -> None:
        peer = self.open()
        self.memory.front.work["sessions.get"] = refuse
        for message, code, request_id, field_ in (
            ("xx", -32700, None, None), ("", -32700, None, None), ("[]", -32600, None, None), ("1", -32600, None, None),
            ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None, None), ('{"id":1,"method":"ping"}', -32600, 1, None),
            ('{"jsonrpc":"2.0","id":1,"method":"nothing"}', -32601, 1, None), ('{"jsonrpc":"2.0","id":1,"method":"sessions.list"}', -32601, 1, None),
            ('{"jsonrpc":"2.0","id":1,"method":"turns.send"}', -32601, 1, None),
            ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602, 1, "params"),
            ('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1}}', -32602, 1, "x"),
            ('{"jsonrpc":"2.0","id":"q","method":"terminals.open","params":{"sessionId":"x","cols":"80"}}', -32602, "q", "cols"),
            ('{"jsonrpc":"2.0","id":1,"method":"sessions.get","params":{"sessionId":"x"}}', -32000, 1, None),
        ):  # fmt: skip
            peer.send(frame(message.encode(), 1))
            (answer,) = peer.messages()
            self.assertEqual((answer["error"]["code"], answer["id"]), (code, request_id), message)
            self.assertEqual(answer["error"].get("data", {}).get("field"), field_, message)

    def test_methods_without_their_work(self) -> None:
        peer = self.open()
        for method in METHODS:
            if method.name in self.memory.front.work and method.socket:
                continue
            peer.send(call(method.name))
            self.assertEqual(peer.messages()[0]["error"]["code"], -32601, method.name)

    def test_a_bug_is_internal_and_the_connection_lives(self) -> None:
        self.memory.front.work["sessions.get"] = fail
        peer = self.open()
        peer.send(call("sessions.get", sessionId="x"))
        (answer,) = peer.messages()
        self.assertEqual((answer["error"]["code"], answer["error"]["data"]["code"]), (-32000, "internal"))
        self.assertRegex(answer["error"]["data"]["requestId"], "^rq_")
        self.assertNotIn("secret", json.dumps(answer))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        peer.send(call("ping"))
        self.assertEqual(peer.messages()[0]["id"], 1)

    def test_a_bug_in_a_terminal_does_not_end_the_connection(self) -> None:
        peer = self.with_echo()
        self.echoes[0].input = lambda data: 1 // 0  # type: ignore[method-assign,assignment,return-value]
        peer.send(frame(b"\0\0\0\1x"))
        peer.send(frame(b"\0\0\0\1" + b"x" * 300))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        peer.send(call("ping"))
        self.assertEqual(peer.messages()[0]["id"], 1)

    def test_notifications_are_never_answered(self) -> None:
        peer = self.open()
        for method in ("ping", "sessions.ack", "telemetry", "nothing"):
            peer.send(text({"jsonrpc": "2.0", "method": method}))
        self.assertEqual(peer.frames(), [])
        self.assertEqual(self.memory.front.calls, [])

    def test_calls_run_at_once(self) -> None:
        waiting: list[Deferred[None]] = []

        async def slow(params: Any, caller: Caller, connection: Connection | None) -> Struct:
            done: Deferred[None] = Deferred()
            waiting.append(done)
            await done
            return results.Empty()

        self.memory.front.work["sessions.detach"] = slow
        peer = self.open()
        for n in range(3):
            peer.send(call("sessions.detach", n, sessionId="x"))
        for n in (2, 0, 1):
            waiting[n].callback(None)
        self.assertEqual([message["id"] for message in peer.messages()], [2, 0, 1])

    def test_a_client_that_goes_frees_its_wait(self) -> None:
        ended: list[str] = []

        async def wait(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
            await Deferred(lambda _: ended.append("wait"))
            raise AssertionError

        self.memory.front.work["events.list"] = wait
        self.memory.front.work["sessions.update"] = wait
        peer = self.open()
        peer.send(call("events.list", sessionId="x", waitMs=60_000) + call("sessions.update", 2, sessionId="x"))
        peer.lose()
        self.assertEqual(ended, ["wait"])

    def test_too_many_requests(self) -> None:
        """W13: counted before parsing."""
        peer = self.open()
        for n in range(150):
            peer.send(call("ping", n) if n % 2 else frame(b"x" * n, 1))
        answers = peer.messages()
        self.assertEqual(len(answers), 150)
        limited = [a for a in answers if a.get("error", {}).get("data", {}).get("code") == "rate_limited"]
        self.assertEqual(limited, answers[100:])
        self.assertTrue(all(a["error"]["code"] == -32000 and a["error"]["data"]["retryAfterMs"] > 0 for a in limited))
        self.assertEqual([a["id"] for a in limited], [n if n % 2 else None for n in range(100, 150)])
        self.memory.clock.advance(0.1)
        for n in range(20):
            peer.send(call("ping", n))
        self.assertEqual(sum("result" in message for message in peer.messages()), 10)

    def test_a_flood_is_not_read(self) -> None:
        """W13: a client that does not heed `rate_limited` waits, and nothing grows."""
        peer = self.open()
        burst = call("ping", 1) * 1000
        for _ in range(10):
            if peer.transport.producerState == "paused":
                break
            peer.send(burst)
        answered = len(peer.messages())
        self.assertLess(answered, 600)
        self.assertEqual(peer.transport.producerState, "paused")
        self.memory.clock.advance(1)
        self.assertGreater(len(peer.messages()), 90)
        for _ in range(20):
            self.memory.clock.advance(1)
        self.assertEqual(peer.transport.producerState, "producing")
        peer.messages()
        peer.send(call("ping", "after"))
        self.assertEqual(peer.messages()[0]["id"], "after")


class FrameTests(ConnectionCase):
    def test_input_and_output(self) -> None:
        peer = self.with_echo()
        for size in (0, 1, 2, 120, 121, 122, 500, 1995, 1996, 2000, 5000, 65_531, 65_532):
            data = bytes(n * 7 % 256 for n in range(size))
            peer.send(frame(b"\0\0\0\1" + data))
            self.assertEqual(self.echoes[0].heard[-1], data, size)
            expected = [(2, b"\0\0\0\1" + data)] if size else []
            self.assertEqual(peer.frames(), expected, size)

    def test_frames_in_pieces(self) -> None:
        sizes = (1, 3, 200, 3000, 70_000, 2, 65_531)
        stream = b"".join(frame(b"\0\0\0\1" + bytes([n]) * size) for n, size in enumerate(sizes))
        for piece in (1, 2, 7, 1000, 65_536):
            peer = self.with_echo()
            if piece == 1:
                part = stream[: 3 * 14 + 250]
                for at in range(len(part)):
                    peer.send(part[at : at + 1])
            else:
                part = stream
                for at in range(0, len(part), piece):
                    peer.send(part[at : at + piece])
            heard = self.echoes[-1].heard
            self.assertEqual([len(data) for data in heard], list(sizes[: len(heard)]))
            self.assertGreaterEqual(len(heard), 3)
            self.assertTrue(all(data == bytes([n]) * len(data) for n, data in enumerate(heard)))

    def test_fragments(self) -> None:
        peer = self.with_echo()
        peer.send(frame(b"\0\0", fin=False) + frame(b"", 9) + frame(b"\0\1a", 0, fin=False) + frame(b"b", 0))
        peer.send(frame(b"\0\0\0\1c"))
        self.assertEqual(self.echoes[0].heard, [b"ab", b"c"])

    def test_other_channels_are_dropped(self) -> None:
        """T1."""
        mine, other = self.with_echo(), self.open()
        for channel in (0, 1, 2, 1000, 2**32 - 1):
            other.send(frame(channel.to_bytes(4, "big") + b"x"))
        self.assertEqual(self.echoes[0].heard, [])
        self.assertEqual(other.frames(), [])
        mine.send(frame(b"\0\0\0\1x"))
        self.assertEqual(self.echoes[0].heard, [b"x"])

    def test_a_frame_without_a_channel(self) -> None:
        for payload in (b"", b"a", b"ab", b"abc"):
            peer = self.open()
            peer.send(frame(payload))
            self.assertEqual(peer.close_code(), 1002)

    def test_order_with_texts(self) -> None:
        peer = self.with_echo()
        peer.send(frame(b"\0\0\0\1a") + call("ping", 5) + frame(b"\0\0\0\1b"))
        kinds = [(opcode, payload[-1:]) for opcode, payload in peer.frames()]
        self.assertEqual(kinds, [(2, b"a"), (1, b"}"), (2, b"b")])

    def test_many_frames_in_one_read_let_others_go_first(self) -> None:
        peer = self.with_echo()
        peer.send(frame(b"\0\0\0\1x") * 2500)
        self.assertEqual(len(self.echoes[0].heard), 1000)
        peer.send(frame(b"\0\0\0\1y"))
        self.memory.clock.advance(0)
        self.memory.clock.advance(0)
        self.memory.clock.advance(0)
        self.assertEqual(self.echoes[0].heard, [b"x"] * 2500 + [b"y"])

    def test_a_read_that_ends_within_a_head(self) -> None:
        """Autobahn has to take that one frame; those after it would take seconds there, at a thousand a second."""
        peer = self.with_echo()
        data = frame(b"\0\0\0\1x") * 5000
        for cut in range(1, 11):
            peer.send(data[:cut])
            peer.send(data[cut:])
            for _ in range(10):
                self.memory.clock.advance(0)
            self.assertEqual(len(self.echoes[0].heard), 5000 * cut)

    def test_a_message_in_tiny_pieces(self) -> None:
        """R10. Each as an object of its own would take thirty times as much."""
        peer = self.open()
        whole = frame(b" " * 100_000 + json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode(), 1)
        peer.send(whole[:10])
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for at in range(10, 100_000, 2):
            peer.send(whole[at : at + 2])
        self.assertLess(tracemalloc.get_traced_memory()[0], 400_000)
        peer.send(whole[100_000:])
        self.assertEqual([message.get("id") for message in peer.messages()], [1])


class ClosingTests(ConnectionCase):
    def closes(self, code: int | None, *frames: bytes) -> None:
        """The frames close a fresh connection, with a real close frame, and nothing that comes later counts."""
        peer = self.with_echo()
        echo = self.echoes[-1]
        for data in frames:
            peer.send(data)
        self.assertEqual(peer.close_code(), code)
        self.assertTrue(echo.abandoned)
        heard, calls = list(echo.heard), len(self.memory.front.calls)
        peer.send(frame(b"\0\0\0\1late") + call("ping") + frame(b"", 9))
        self.assertEqual((echo.heard, len(self.memory.front.calls)), (heard, calls))
        self.assertEqual(peer.frames(), [])
        self.over(peer)

    def test_too_big(self) -> None:
        """W8."""
        limit = limits.MAX_MESSAGE_BYTES
        for opcode in (1, 2):
            self.closes(1009, frame(b"\0" * (limit + 1), opcode))
            self.closes(1009, frame(b"\0" * limit, opcode, fin=False), frame(b"x", 0))
            self.closes(1009, frame(b"\0" * (limit + 1), opcode)[:20])

    def test_exactly_the_limit(self) -> None:
        peer = self.with_echo()
        peer.send(frame(b"\0\0\0\1" + b"x" * (limits.MAX_MESSAGE_BYTES - 4)))
        self.assertEqual(len(self.echoes[0].heard[0]), limits.MAX_MESSAGE_BYTES - 4)
        peer.send(frame(b" " * limits.MAX_MESSAGE_BYTES, 1))
        self.assertEqual(messages(peer.frames()[-1:])[0]["error"]["code"], -32700)

    def test_fragment_storm(self) -> None:
        """W10."""
        storm = frame(b"\0", fin=False) + frame(b"\0", 0, fin=False) * limits.MAX_FRAGMENTS
        self.closes(1009, storm)

    def test_as_many_fragments_as_are_allowed(self) -> None:
        peer = self.with_echo()
        fragment = (
            frame(b"\0\0\0\1", fin=False) + frame(b"x", 0, fin=False) * (limits.MAX_FRAGMENTS - 2) + frame(b"y", 0)
        )
        peer.send(fragment)
        self.assertEqual(self.echoes[0].heard, [b"x" * (limits.MAX_FRAGMENTS - 2) + b"y"])

    def test_slow_frames_are_rationed(self) -> None:
        """W10: many short messages in fragments."""
        peer = self.with_echo()
        peer.send((frame(b"\0\0\0\1", fin=False) + frame(b"x", 0)) * 3000)
        self.assertLessEqual(len(self.echoes[0].heard), 1001)
        self.assertEqual(peer.transport.producerState, "paused")
        self.memory.advance(8, step=0.1)
        self.assertEqual(len(self.echoes[0].heard), 3000)

    def test_ping_storm(self) -> None:
        """W11."""
        self.closes(1008, frame(b"x", 9) * 11)
        self.closes(1008, frame(b"x", 10) * 11)

    def test_ten_pings_a_second(self) -> None:
        peer = self.open()
        for _ in range(5):
            peer.send(frame(b"x", 9) * 10)
            self.assertEqual(peer.frames(), [(10, b"x")] * 10)
            self.memory.advance(1)

    def test_text_that_is_none(self) -> None:
        for payload in (
            b"\xff",
            b"\xc3",
            b"\xed\xa0\x80",
            b'{"a":"\xf8"}',
            b"x" * 200 + b"\x80",
            b"x" * 3000 + b"\xff",
        ):
            self.closes(1007, frame(payload, 1))
            self.closes(1007, frame(payload, 1, fin=False), frame(b"", 0))

    def test_malformed_frames(self) -> None:
        unmasked = b"\x82\x05\0\0\0\1x"
        for data in (
            unmasked, b"\x81\x02{}", frame(b"\0\0\0\1x", rsv=1), frame(b"\0\0\0\1x", rsv=4), frame(b"x", 3), frame(b"x", 7), frame(b"x", 11),
            frame(b"x", 15), frame(b"x", 9, fin=False), frame(b"x" * 126, 9), frame(b"x", 0), frame(b"\0\0", fin=False) + frame(b"x", 2),
            frame(b"\0\0", fin=False) + frame(b"x", 1), b"\x82\xfe\0\x05" + b"\0" * 9, b"\x82\xff" + b"\0" * 7 + b"\x05" + b"\0" * 9,
            b"\x82\xff" + b"\xff" * 8 + b"\0" * 4, frame(b"x", 8), frame(b"\x03\xed", 8), frame(b"\x00\x00", 8), frame(b"\x13\x88", 8),
        ):  # fmt: skip
            self.closes(1002, data)

    def test_a_close_reason_that_is_not_text(self) -> None:
        self.closes(1007, frame(b"\x03\xe8\xff", 8))

    def test_the_client_says_goodbye(self) -> None:
        for payload in (b"\x03\xe8bye", b"\x0f\xa0", b"\x03\xe9"):
            self.closes(int.from_bytes(payload[:2], "big"), frame(payload, 8))
        peer = self.open()
        peer.send(frame(b"", 8))
        self.assertEqual(peer.frames(), [(8, b"")])

    def test_the_client_vanishes(self) -> None:
        peer = self.with_echo()
        peer.lose()
        self.assertTrue(self.echoes[0].abandoned)
        self.over(peer)

    def test_an_answer_after_the_end(self) -> None:
        done: Deferred[None] = Deferred()

        async def slow(params: Struct, caller: Caller, connection: Connection | None) -> Struct:
            await done
            return results.Empty()

        self.memory.front.work["sessions.detach"] = slow
        peer = self.open()
        peer.send(call("sessions.detach", sessionId="x"))
        self.memory.roster.close_all(CloseCode.RESTARTING)
        self.assertEqual(peer.close_code(), 1012)
        done.callback(None)
        self.assertEqual(peer.frames(), [])

    def test_a_client_that_does_not_answer_the_close_frame(self) -> None:
        peer = self.open()
        peer.transport.loseConnection = lambda: None  # type: ignore[method-assign]
        self.memory.roster.close_all(CloseCode.RESTARTING)
        self.memory.clock.advance(CLOSE_SECONDS - 0.1)
        self.assertFalse(peer.transport.over)
        self.memory.clock.advance(0.1)
        self.over(peer)

    def test_messages_that_do_not_come_whole_on_many_connections(self) -> None:
        """R10. Fifty connections at their own limit would be 50 MiB for one member."""
        token = self.memory.issuer.mint("mallory").token
        peers = [self.memory.open(token) for _ in range(12)]
        for peer in peers:
            whole = frame(b"x" * limits.MAX_MESSAGE_BYTES, 1)
            for at in range(0, len(whole) - 1000, 65536):
                peer.send(whole[at : min(at + 65536, len(whole) - 1000)])
        codes = [peer.close_code() for peer in peers]
        self.assertEqual(codes, [None] * 8 + [1009] * 4)
        other = self.memory.open()
        other.send(frame(b"\0\0\0\1" + b"x" * 200_000))
        self.assertIsNone(other.close_code())

    def test_a_member_who_reads_nothing_on_many_connections(self) -> None:
        """Each is under its own limit, and together they are not."""

        async def big(params: Any, caller: Caller, connection: Connection | None) -> Struct:
            return results.SessionList(sessions=[], next_cursor="x" * limits.MIB)

        self.memory.front.work["sessions.detach"] = big
        peers = [self.open() for _ in range(10)]
        bob = self.memory.open(self.memory.issuer.mint("bob").token)
        bob.messages()
        for peer in [*peers, bob]:
            peer.transport.producer.pauseProducing()  # type: ignore[union-attr]
        for _ in range(5):
            for peer in peers:
                peer.send(call("sessions.detach", sessionId="x"))
        bob.send(call("sessions.detach", sessionId="x"))
        self.assertLessEqual(self.memory.roster.unsent("alice"), 25 * limits.MIB)
        self.assertIn(4008, [peer.close_code() for peer in peers])
        self.assertFalse(bob.transport.over)


class CredentialTests(ConnectionCase):
    def expires(self, ttl: float) -> Peer:
        peer = self.memory.open(self.memory.issuer.mint(ttl=ttl).token)
        peer.messages()
        return peer

    def tick(self, seconds: float) -> None:
        """What the service does each second."""
        for _ in range(round(seconds)):
            self.memory.advance(1)
            self.memory.roster.check()

    def test_expiry(self) -> None:
        """C6."""
        peer = self.expires(3)
        peer.send(call("terminals.open", sessionId=SESSION, cols=1, rows=1))
        self.tick(2)
        self.assertEqual(len(peer.messages()), 1)
        self.tick(1)
        self.assertEqual(peer.close_code(), 4001)
        self.assertTrue(self.echoes[0].abandoned)

    def test_the_wall_clock_steps(self) -> None:
        """C9, L5: neither way makes a credential last longer."""
        back, ahead = self.expires(10), self.expires(100_000)
        self.memory.issuer.wall.now -= 86_400
        self.tick(9)
        self.assertIsNone(back.close_code())
        self.tick(1)
        self.assertEqual(back.close_code(), 4001)
        self.memory.issuer.wall.now += 3 * 86_400
        self.tick(1)
        self.assertEqual(ahead.close_code(), 4001)

    def test_revocation(self) -> None:
        """C7."""
        minted, other = self.memory.issuer.mint(), self.memory.issuer.mint()
        peer, stays = self.memory.open(minted.token), self.memory.open(other.token)
        self.memory.issuer.revocations.watch(self.memory.roster.check)
        self.memory.issuer.revocations.revoke(minted.token_id)
        self.assertEqual(peer.close_code(), 4001)
        self.assertIsNone(stays.close_code())
        again = self.memory.connect()
        again.send(handshake(minted.token))
        self.assertEqual(again.replies()[0].status, 401)

    def test_a_removed_key(self) -> None:
        """C8."""
        issuer: Issuer = self.memory.issuer
        peer = self.open()
        issuer.keys.watch(self.memory.roster.check)
        issuer.signer = Signer.ephemeral("", lambda n: b"k" * n)
        issuer.keys.reload()
        self.assertEqual(peer.close_code(), 4001)


class PingTests(ConnectionCase):
    def test_two_missed(self) -> None:
        """T12, BR-074, BR-075."""
        peer = self.open()
        self.memory.advance(30)
        self.assertEqual(peer.frames(), [(9, b"")])
        self.memory.advance(30)
        self.assertEqual(peer.frames(), [(9, b"")])
        self.memory.advance(29)
        self.assertEqual(peer.frames(), [])
        self.memory.advance(1)
        self.assertEqual(peer.close_code(), 1001)
        self.over(peer)

    def test_any_byte_counts(self) -> None:
        """BR-076."""
        peer = self.open()
        for data in (frame(b"", 10), frame(b"\0\0\0\1x"), call("ping"), frame(b"", 10)[:1]):
            self.memory.advance(60)
            peer.send(data)
            self.assertNotIn(8, [opcode for opcode, _ in peer.frames()])
        self.memory.advance(60)
        self.assertIsNone(peer.close_code())

    def test_a_client_that_only_reads_is_cut_off_and_one_that_answers_is_not(self) -> None:
        peer = self.open()
        for _ in range(10):
            self.memory.advance(30)
            if (9, b"") in peer.frames():
                peer.send(frame(b"", 10))
        self.assertFalse(peer.transport.over)
