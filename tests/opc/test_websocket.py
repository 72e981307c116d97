"""What we make of wsproto, against the `websockets` library, and against what no server should send."""

from __future__ import annotations

import socket

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from websockets import frames
from websockets.protocol import Protocol, Side
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request

from computerd.opc import address
from computerd.opc.failure import Failure
from computerd.opc.handshake import MAX_BODY, Handshake, Refusal
from computerd.opc.link import Link, Lost
from computerd.opc.locate import Place
from computerd.opc.websocket import (
    MAX_MESSAGE,
    BadServerError,
    Binary,
    Closed,
    ClosedError,
    Message,
    Pinged,
    Ponged,
    Text,
    WebSocket,
)

PAYLOADS = st.one_of(st.binary(max_size=300), st.integers(0, 70_000).map(bytes))
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def place(url: str = "ws://127.0.0.1:1/base", token: str | None = "a.b.c") -> Place:
    return Place(address.parse(url), token, "a test")


def sent(opcode: int, payload: bytes, *, fin: bool = True) -> bytes:
    """A frame as the other library's server writes it."""
    return frames.Frame(frames.Opcode(opcode), payload, fin).serialize(mask=False)


def accepting(request: bytes, protocol: str | None = "opc.v1") -> bytes:
    """What a server answers that takes it up."""
    server = WSConnection(ConnectionType.SERVER)
    server.receive_data(request)
    (asked,) = server.events()
    assert isinstance(asked, Request)
    return server.send(AcceptConnection(subprotocol=protocol))


def opened(early: bytes = b"") -> WebSocket:
    """An open one; `early` came together with the handshake's answer."""
    handshake = Handshake(place())
    websocket = handshake.feed(accepting(handshake.request()) + early)
    assert isinstance(websocket, WebSocket)
    return websocket


class HandshakeTests(SynchronousTestCase):
    def test_what_is_asked(self) -> None:
        lines = Handshake(place()).request().decode().split("\r\n")
        self.assertEqual(lines[0], "GET /base/connect HTTP/1.1")
        for line in ("Host: 127.0.0.1:1", "Authorization: Bearer a.b.c", "Sec-WebSocket-Protocol: opc.v1"):
            self.assertIn(line, lines)
        self.assertTrue(any(line.startswith("User-Agent: opc/") for line in lines))
        self.assertNotIn("Sec-WebSocket-Extensions", "".join(lines))
        without = Handshake(place("wss://[::1]", None)).request()
        self.assertIn(b"Host: [::1]\r\n", without)
        self.assertNotIn(b"Authorization", without)

    def test_byte_by_byte(self) -> None:
        handshake = Handshake(place())
        answer = accepting(handshake.request())
        for byte in answer[:-1]:
            self.assertIsNone(handshake.feed(bytes([byte])))
        self.assertIsInstance(handshake.feed(answer[-1:]), WebSocket)

    def test_a_refusal(self) -> None:
        for head, body in (
            (b"Content-Length: 5\r\n", b"hello"),
            (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
        ):
            handshake = Handshake(place())
            handshake.request()
            self.assertIsNone(handshake.feed(b"HTTP/1.1 401 Unauthorized\r\n" + head + b"\r\n"))
            self.assertEqual(handshake.feed(body), Refusal(401, b"hello"))
        handshake = Handshake(place())
        handshake.request()
        self.assertIsNone(handshake.feed(b"HTTP/1.1 503 Gone\r\nConnection: close\r\n\r\nhello"))
        self.assertEqual(handshake.feed(b""), Refusal(503, b"hello"))

    def test_a_refusal_without_end(self) -> None:
        handshake = Handshake(place())
        handshake.request()
        self.assertIsNone(handshake.feed(b"HTTP/1.1 500 X\r\n\r\n"))
        count, answer = 0, None
        while answer is None:
            answer = handshake.feed(bytes(8192))
            count += 1
        self.assertLess(count, MAX_BODY // 8192 + 2)

    def test_what_is_no_daemon(self) -> None:
        for name, change in {
            "another protocol": lambda answer: b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
            "a wrong key": lambda answer: answer.replace(b"Accept: ", b"Accept: x"),
            "no upgrade": lambda answer: answer.replace(b"Upgrade: websocket\r\n", b""),
            "another upgrade": lambda answer: answer.replace(b"websocket", b"h2c"),
            "a subprotocol that was not offered": lambda answer: answer.replace(b"opc.v1", b"opc.v9"),
            "no subprotocol": lambda answer: answer.replace(b"Sec-WebSocket-Protocol: opc.v1\r\n", b""),
            "an extension": lambda answer: answer.replace(
                b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
            ),
            "a header that is not ASCII": lambda answer: answer.replace(b"opc.v1", b"\xff"),
            "a head without end": lambda answer: b"HTTP/1.1 101 X\r\n" + b"A: b\r\n" * 5000,
        }.items():
            handshake = Handshake(place())
            answer = change(accepting(handshake.request()))
            failure = self.assertRaises(Failure, handshake.feed, answer)
            self.assertEqual(failure.code, "invalid_answer", name)

    def test_an_end_in_the_middle(self) -> None:
        for answer in (b"", b"HTTP/1.1 101 Swit"):
            handshake = Handshake(place())
            handshake.request()
            if answer:
                self.assertIsNone(handshake.feed(answer))
            self.assertRaises((ConnectionError, Failure), handshake.feed, b"")

    @settings(deadline=None)
    @given(st.binary(max_size=100))
    def test_any_bytes(self, data: bytes) -> None:
        handshake = Handshake(place())
        handshake.request()
        for piece in (data, b"\r\n\r\n", b""):
            try:
                handshake.feed(piece)
            except (Failure, ConnectionError):
                return


class WebSocketTests(SynchronousTestCase):
    @settings(deadline=None)
    @given(PAYLOADS)
    def test_they_understand_us(self, payload: bytes) -> None:
        websocket, server = opened(), Protocol(Side.SERVER)
        server.receive_data(websocket.binary(payload))
        server.receive_data(websocket.text("grüße") + websocket.ping() + websocket.pong(b"x") + websocket.close())
        got = [(int(f.opcode), bytes(f.data)) for f in server.events_received() if isinstance(f, frames.Frame)]
        self.assertEqual(
            got,
            [(BINARY, payload), (TEXT, "grüße".encode()), (PING, b""), (PONG, b"x"), (CLOSE, b"\x03\xe8")],
        )

    @settings(deadline=None)
    @given(
        st.lists(
            st.tuples(st.booleans(), st.text(max_size=300) | st.integers(0, 3000).map("x".__mul__), st.integers(1, 4)),
            max_size=3,
        ),
        st.integers(1, 5000),
    )
    def test_we_understand_them(self, messages: list[tuple[bool, str, int]], cut: int) -> None:
        data = b""
        expected: list[Message] = []
        for is_text, content, parts in messages:
            payload = content.encode()
            size = len(payload) // parts + 1
            pieces = [payload[i : i + size] for i in range(0, len(payload), size)] or [b""]
            for number, piece in enumerate(pieces):
                opcode = TEXT if is_text else BINARY
                data += sent(opcode if number == 0 else 0, piece, fin=number == len(pieces) - 1)
                data += sent(PING, b"between") if number == 0 else b""
            message = Text(payload) if is_text else Binary(payload)
            expected += [Pinged(b"between"), message] if len(pieces) > 1 else [message, Pinged(b"between")]
        for whole in (False, True):
            websocket = opened(data if whole else b"")
            got = websocket.feed(b"")
            if not whole:
                got += [message for i in range(0, len(data), cut) for message in websocket.feed(data[i : i + cut])]
            self.assertEqual(got, expected)

    def test_what_is_forbidden(self) -> None:
        for name, data in {
            "a reserved bit": b"\xc1\x00",
            "a mask": b"\x81\x80\0\0\0\0",
            "an unknown opcode": b"\x83\x00",
            "a long ping": b"\x89\x7e\x00\x7e",
            "a ping in parts": b"\x09\x00",
            "a continuation of nothing": b"\x80\x00",
            "a message within another": b"\x01\x00\x81\x00",
            "text that is not UTF-8": b"\x81\x01\xff",
            "half a close code": b"\x88\x01\x03",
            "a close code that no one may send": sent(CLOSE, b"\x03\xee"),
            "a size of 2**63": b"\x82\x7f\x80\0\0\0\0\0\0\0",
        }.items():
            with self.assertRaises(BadServerError, msg=name):
                opened().feed(data)

    def test_messages_without_end(self) -> None:
        """In parts, and in one frame: what is kept of them is bounded."""
        piece = bytes(65536)
        for head, each in ((sent(BINARY, b"", fin=False), sent(0, piece, fin=False)), (b"\x82\x7f" + b"\1" * 8, piece)):
            websocket = opened(head)
            with self.assertRaises(BadServerError):
                for _ in range(MAX_MESSAGE // 65536 + 2):
                    websocket.feed(each)

    def test_the_largest_message(self) -> None:
        websocket = opened(sent(BINARY, bytes(MAX_MESSAGE - 1), fin=False))
        self.assertEqual(websocket.feed(b""), [])
        self.assertEqual([len(m.data) for m in websocket.feed(sent(0, b"x")) if isinstance(m, Binary)], [MAX_MESSAGE])
        self.assertEqual(websocket.feed(sent(BINARY, b"next")), [Binary(b"next")])

    @settings(deadline=None)
    @given(st.binary(max_size=100))
    def test_any_bytes(self, data: bytes) -> None:
        websocket = opened()
        try:
            websocket.feed(data)
            websocket.feed(data)
        except BadServerError:
            return

    def test_goodbyes(self) -> None:
        for payload, told in (
            (b"", Closed(1005, "")),
            (b"\x03\xf4", Closed(1012, "")),
            (b"\x0f\xa1because", Closed(4001, "because")),
            (b"\x0f\xa8", Closed(4008, "")),
            (b'\x11\x97{"retryAfterMs":2000}', Closed(4503, '{"retryAfterMs":2000}')),
        ):
            websocket = opened(sent(TEXT, b"last") + sent(CLOSE, payload) + sent(TEXT, b"after"))
            self.assertEqual(websocket.feed(b""), [Text(b"last"), told])
            self.assertEqual(websocket.feed(sent(TEXT, b"after")), [])
            for send in (websocket.ping, lambda websocket=websocket: websocket.binary(b"x")):
                self.assertRaises(ClosedError, send)
            self.assertEqual(websocket.close()[:2], b"\x88\x82", "the goodbye is answered")
            self.assertEqual((websocket.close(), websocket.feed(b"\xff\xff")), (b"", []))

    def test_pongs(self) -> None:
        self.assertEqual(opened(sent(PONG, b"") + sent(PING, b"p")).feed(b""), [Ponged(), Pinged(b"p")])


class LinkTests(SynchronousTestCase):
    def linked(self, early: bytes = b"") -> tuple[Link, socket.socket]:
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        return Link(ours, opened(early)), theirs

    def test_a_ping_is_answered(self) -> None:
        link, theirs = self.linked()
        theirs.sendall(sent(PING, b"are you there"))
        link.receive()
        self.assertEqual(link.receive(), [])
        server = Protocol(Side.SERVER)
        server.receive_data(theirs.recv(100))
        (frame,) = server.events_received()
        assert isinstance(frame, frames.Frame)
        self.assertEqual((int(frame.opcode), bytes(frame.data)), (PONG, b"are you there"))

    def test_what_came_with_the_handshake_is_not_waited_for(self) -> None:
        link, _ = self.linked(sent(TEXT, b"ready"))
        self.assertTrue(link.buffered)
        self.assertEqual(link.receive(), [Text(b"ready")])
        self.assertFalse(link.buffered)
        self.assertIsNone(link.receive())

    def test_the_last_words_come_before_the_goodbye(self) -> None:
        """Even when they arrive at once, and the goodbye's reason is not lost for it."""
        link, theirs = self.linked(sent(BINARY, b"last") + sent(CLOSE, b"\x03\xf4x"))
        theirs.close()
        self.assertEqual(link.receive(), [Binary(b"last")])
        self.assertTrue(link.buffered)
        for attempt in (link.receive, link.ping, link.receive):
            lost = self.assertRaises(Lost, attempt)
            self.assertEqual(lost.code, 1012)
            self.assertIn("restarting", str(lost))

    def test_an_end_without_a_word(self) -> None:
        link, theirs = self.linked()
        link.receive()
        theirs.close()
        lost = self.assertRaises(Lost, link.receive)
        self.assertIsNone(lost.code)
        self.assertIn("without a word", str(lost))

    def test_a_bad_server(self) -> None:
        link, theirs = self.linked()
        link.receive()
        theirs.sendall(b"\xff\xff\xff")
        self.assertIn("no WebSocket server", str(self.assertRaises(Lost, link.receive)))
