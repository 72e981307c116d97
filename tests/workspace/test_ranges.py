"""Which part of a file is asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.workspace.ranges import Span, Unsatisfiable, span


class RangeTests(SynchronousTestCase):
    """`span`."""

    def test_parts(self) -> None:
        for text, expected in (
            ("bytes=0-0", Span(0, 1)), ("bytes=0-", Span(0, 10)), ("bytes=9-", Span(9, 1)), ("bytes=3-5", Span(3, 3)),
            ("bytes=3-99", Span(3, 7)), ("bytes=-3", Span(7, 3)), ("bytes=-99", Span(0, 10)), ("BYTES = 1-2", Span(1, 2)),
            ("bytes= 1-2 ", Span(1, 2)), ("bytes=,1-2,", Span(1, 2)), ("bytes=0-" + "9" * 1000, Span(0, 10)),
        ):  # fmt: skip
            self.assertEqual(span(text, 10), expected, text)

    def test_everything(self) -> None:
        for text in (
            None, "", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=1-2,4-5", "bytes=a-b", "bytes=+1-2", "bytes=1 - 2", "items=0-1",
            "bytes=0-" + "9" * 1001, "bytes=\uff11-", "bytes=0-1;x",
        ):  # fmt: skip
            self.assertIsNone(span(text, 10), text)

    def test_beyond_the_end(self) -> None:
        for text in ("bytes=10-", "bytes=10-20", "bytes=-0", "bytes=" + "9" * 1000 + "-"):
            self.assertRaises(Unsatisfiable, span, text, 10)

    def test_of_nothing(self) -> None:
        for text in ("bytes=0-", "bytes=-1", "bytes=5-6"):
            self.assertIsNone(span(text, 0))

    def test_how_it_is_told(self) -> None:
        self.assertEqual(Span(3, 4).of(10), "bytes 3-6/10")

    @given(st.text(max_size=40) | st.from_regex(r"bytes=[0-9]{0,4}-[0-9]{0,4}", fullmatch=True), st.integers(0, 3000))
    def test_what_it_is_lies_inside(self, text: str, size: int) -> None:
        try:
            found = span(text, size)
        except Unsatisfiable:
            return
        if found is not None:
            self.assertGreaterEqual(found.start, 0)
            self.assertGreaterEqual(found.length, 1)
            self.assertLessEqual(found.start + found.length, size)
