"""Frames."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.host.worker import frames
from computerd.host.worker.frames import Decoder, Malformed, encode

some = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([b"C", b"D", b"E", b"X", b"W"]), st.binary(max_size=40)),
    max_size=6,
)


class FrameTests(SynchronousTestCase):
    @given(sent=some, size=st.integers(1, 50))
    def test_however_they_are_cut(self, sent: list[tuple[int, bytes, bytes]], size: int) -> None:
        data = b"".join(encode(*frame) for frame in sent)
        decoder = Decoder()
        found = [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]
        self.assertEqual(sent, found)

    def test_form(self) -> None:
        self.assertEqual(b"\0\0\0\x07\0\0\1\2Dab", encode(258, frames.DATA, b"ab"))

    def test_lengths(self) -> None:
        for length in (0, 4, 5 + frames.MAX_PAYLOAD + 1, 2**32 - 1):
            with self.assertRaises(Malformed):
                Decoder().feed(length.to_bytes(4, "big") + b"\0\0\0\1D")
        self.assertEqual(65536, len(Decoder().feed(encode(1, frames.DATA, bytes(65536)))[0][2]))
