"""Where the frames of a zstd stream end."""

from __future__ import annotations

import io
from importlib.util import find_spec

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.host.worker.cuts import Frames


class CutTests(SynchronousTestCase):
    if find_spec("zstandard") is None:
        skip = "needs zstandard"

    @settings(deadline=None)
    @given(st.binary(max_size=30_000), st.booleans(), st.booleans(), st.booleans(), st.integers(1, 9), st.data())
    def test_any_frame(
        self, data: bytes, checked: bool, sized: bool, repeated: bool, level: int, draw: st.DataObject
    ) -> None:
        """It is whole at its end, and nowhere before, in whatever pieces it comes."""
        import zstandard

        data *= 20 if repeated else 1
        compressor = zstandard.ZstdCompressor(level, write_checksum=checked, write_content_size=sized)
        stream = compressor.compress(data)
        if draw.draw(st.booleans()):
            out = io.BytesIO()
            with compressor.stream_writer(out, closefd=False) as writer:
                writer.write(data)
            stream = out.getvalue()
        stream *= draw.draw(st.integers(1, 2))
        half = len(stream) // 2
        cuts = sorted(draw.draw(st.sets(st.integers(1, len(stream) - 1), max_size=5)) - {half})
        frames = Frames()
        self.assertTrue(frames.whole)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            frames.feed(stream[start:end])
            self.assertEqual(frames.whole, end == len(stream) or (end == half and stream[:half] == stream[half:]), end)
