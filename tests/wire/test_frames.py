"""Binary frames (T6 of the threat model)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.wire import frames


class Frames(SynchronousTestCase):
    @given(st.integers(0, 2**32 - 1), st.binary(max_size=100))
    def test_split_undoes_join(self, channel: int, data: bytes) -> None:
        self.assertEqual(frames.split(frames.join(channel, data)), (channel, data))

    @given(st.binary(max_size=8))
    def test_any_bytes_are_a_frame_or_too_short(self, data: bytes) -> None:
        """T6."""
        if len(data) < 4:
            self.assertRaises(frames.BadFrame, frames.split, data)
        else:
            self.assertEqual(frames.split(data), (int.from_bytes(data[:4], "big"), data[4:]))

    def test_the_channel_is_big_endian(self) -> None:
        self.assertEqual(frames.join(1, b"a"), b"\x00\x00\x00\x01a")

    def test_the_limit_of_a_frame_includes_its_channel(self) -> None:
        """T6."""
        self.assertEqual(len(frames.join(1, bytes(frames.MAX_DATA))), limits.MAX_FRAME_BYTES)
        self.assertEqual(frames.MAX_DATA, 65_532)
