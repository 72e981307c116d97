"""Our half of RFC 6455 against the `websockets` library, and against what no server should send."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from websockets import frames
from websockets.protocol import Protocol, Side

from computerd.opc.websocket import BadServerError, Decoder, Message, Opcode, accept, closing, encode, mask

PAYLOADS = st.one_of(st.binary(max_size=300), st.integers(0, 70_000).map(bytes))


def sent(opcode: int, payload: bytes, *, fin: bool = True) -> bytes:
    """A frame as their server writes it."""
    return frames.Frame(frames.Opcode(opcode), payload, fin).serialize(mask=False)


class WebSocketTests(SynchronousTestCase):
    def test_the_rfcs_examples(self) -> None:
        self.assertEqual(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        self.assertEqual(encode(Opcode.TEXT, b"Hello", bytes.fromhex("37fa213d")).hex(), "818537fa213d7f9f4d5158")
        self.assertEqual(Decoder().feed(bytes.fromhex("810548656c6c6f")), [Message(Opcode.TEXT, b"Hello")])

    @settings(deadline=None)
    @given(PAYLOADS, st.binary(min_size=4, max_size=4))
    def test_masking_twice_is_nothing(self, payload: bytes, key: bytes) -> None:
        self.assertEqual(mask(mask(payload, key), key), payload)

    @settings(deadline=None)
    @given(st.sampled_from([Opcode.TEXT, Opcode.BINARY]), PAYLOADS, st.binary(min_size=4, max_size=4))
    def test_they_understand_us(self, opcode: Opcode, payload: bytes, key: bytes) -> None:
        server = Protocol(Side.SERVER)
        server.receive_data(encode(opcode, payload, key))
        (frame,) = server.events_received()
        assert isinstance(frame, frames.Frame)
        self.assertEqual((int(frame.opcode), bytes(frame.data)), (opcode, payload))

    @settings(deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from([1, 2]), st.binary(max_size=300) | st.integers(0, 3000).map(bytes), st.integers(1, 4)
            ),
            max_size=3,
        ),
        st.integers(1, 5000),
    )
    def test_we_understand_them(self, messages: list[tuple[int, bytes, int]], cut: int) -> None:
        data, expected = b"", []
        for opcode, payload, parts in messages:
            size = len(payload) // parts + 1
            pieces = [payload[i : i + size] for i in range(0, len(payload), size)] or [b""]
            for place, piece in enumerate(pieces):
                data += sent(opcode if place == 0 else 0, piece, fin=place == len(pieces) - 1)
                data += sent(9, b"between") if place == 0 else b""
            control = Message(Opcode.PING, b"between")
            expected += (
                [control, Message(Opcode(opcode), payload)]
                if len(pieces) > 1
                else [Message(Opcode(opcode), payload), control]
            )
        decoder = Decoder()
        got = [message for i in range(0, len(data), cut) for message in decoder.feed(data[i : i + cut])]
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
            "a message of 1 EiB": b"\x82\x7f\x10\0\0\0\0\0\0\0",
        }.items():
            with self.assertRaises(BadServerError, msg=name):
                Decoder().feed(data)

    def test_parts_without_end(self) -> None:
        decoder = Decoder()
        decoder.feed(sent(2, b"", fin=False))
        with self.assertRaises(BadServerError):
            for _ in range(300):
                decoder.feed(sent(0, bytes(65536), fin=False))

    @settings(deadline=None)
    @given(st.binary(max_size=100))
    def test_any_bytes(self, data: bytes) -> None:
        decoder = Decoder()
        try:
            decoder.feed(data)
        except BadServerError:
            return

    def test_closing(self) -> None:
        self.assertEqual(closing(b""), (1005, ""))
        self.assertEqual(closing(b"\x0f\xa1because"), (4001, "because"))
        self.assertEqual(closing(b"\x03\xe8\xff"), (1000, "\ufffd"))
