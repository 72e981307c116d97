"""What a worker sends, cut into frames."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.host.incoming import Frames, Violation, grant, granted
from computerd.host.worker.frames import MAX_PAYLOAD, encode

_FRAME = st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([b"R", b"D", b"E", b"F", b"W"]), st.binary(max_size=200))


class FramesTests(SynchronousTestCase):
    @given(frames=st.lists(_FRAME, max_size=10), cuts=st.lists(st.integers(0, 3000), max_size=10))
    def test_however_they_are_cut(self, frames: list[tuple[int, bytes, bytes]], cuts: list[int]) -> None:
        data = b"".join(encode(*one) for one in frames)
        edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        cutter, found = Frames(), []
        for start, end in pairwise(edges):
            cutter.feed(data[start:end])
            while (one := cutter.next()) is not None:
                found.append(one)
        self.assertEqual(frames, found)

    def test_the_largest(self) -> None:
        cutter = Frames()
        cutter.feed(encode(1, b"D", bytes(MAX_PAYLOAD)))
        self.assertEqual((1, b"D", bytes(MAX_PAYLOAD)), cutter.next())
        cutter.feed(encode(1, b"D", bytes(MAX_PAYLOAD + 1))[:9])
        self.assertRaises(Violation, cutter.next)

    @given(data=st.binary(max_size=100))
    def test_whatever_comes(self, data: bytes) -> None:
        cutter = Frames()
        cutter.feed(data)
        try:
            while cutter.next() is not None:
                pass
        except Violation:
            pass

    def test_what_was_taken_is_not_kept(self) -> None:
        cutter = Frames()
        for _ in range(100):
            cutter.feed(encode(1, b"D", bytes(MAX_PAYLOAD)))
            self.assertIsNotNone(cutter.next())
            self.assertIsNone(cutter.next())
        self.assertLess(len(cutter._seen), 2 * MAX_PAYLOAD)

    def test_windows(self) -> None:
        self.assertEqual(65536, granted(grant(65536)))
        for payload in (b"", b"\0\0\0\0", b"\0\0\1", b"\0\0\0\0\1"):
            self.assertRaises(Violation, granted, payload)
