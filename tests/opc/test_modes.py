from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.opc.modes import WATCHED, Modes

PIECES = [
    *(b"\x1b[?%d%c" % (number, final) for number in sorted(WATCHED) for final in b"hl"),
    b"\x1b[?1000;1006;2004h",
    b"\x1b[>1u",
    b"\x1b[<u",
    b"\x1b[=3;1u",
    b"\x1b[>4;2m",
    b"\x1b[>4;m",
    b"\x1b[31m",
    b"\x1b[m",
    b"\x1b[38:2:1:2:3m",
    b"\x1b[4 q",
    b"\x1b=",
    b"\x1b>",
    b"\x1b(0",
    b"\x1b(B",
    b"\x1b]0;a title \x07",
    b"\x1b]0;a [?1049h title\x1b\\",
    b"\x1bPq some sixel\x1b\\",
    b"\x1bc",
    b"\x1b[!p",
    b"\x1b",
    b"\x1b[",
    b"\x1b[?",
    b"\x1b]",
    b"text\r\n",
    "é漢".encode(),
]


def undone(*pieces: bytes) -> bytes:
    modes = Modes()
    for piece in pieces:
        modes.feed(piece)
    return modes.undo()


class ModesTests(SynchronousTestCase):
    def test_nothing_to_undo(self) -> None:
        for output in (
            b"",
            b"plain text",
            b"\x1b[2J\x1b[H\x1b[1;31mred\x1b[0m",
            b"\x1b]0;title\x07",
            b"\x1b[?7h\x1b[?12l",
        ):
            self.assertEqual(undone(output), b"", output)

    def test_each_mode(self) -> None:
        """BR-116."""
        for number in WATCHED - {25}:
            self.assertEqual(undone(b"\x1b[?%dh" % number), b"\x1b[?%dl" % number)
            self.assertEqual(undone(b"\x1b[?%dh\x1b[?%dl" % (number, number)), b"")
        self.assertEqual(undone(b"\x1b[?25l"), b"\x1b[?25h")
        self.assertEqual(undone(b"\x1b[?25l\x1b[?25h"), b"")

    def test_the_screen_that_was_not_entered_is_not_left(self) -> None:
        self.assertNotIn(b"1049", undone(b"\x1b[?1000h"))
        self.assertEqual(undone(b"\x1b[?1049h\x1b[?1047l"), b"")

    def test_several_in_one(self) -> None:
        self.assertEqual(
            undone(b"\x1b[?1000;1006;2004;1004h\x1b[?25l\x1b[?1049h"),
            b"\x1b[?1000l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?1049l\x1b[?25h",
        )

    def test_keyboards(self) -> None:
        self.assertEqual(undone(b"\x1b[>1u\x1b[>5u"), b"\x1b[<2u")
        self.assertEqual(undone(b"\x1b[>1u\x1b[>5u\x1b[<2u"), b"")
        self.assertEqual(undone(b"\x1b[<9u"), b"")
        self.assertEqual(undone(b"\x1b[=5u"), b"\x1b[=0u")
        self.assertEqual(undone(b"\x1b[>4;2m"), b"\x1b[>4;0m")
        self.assertEqual(undone(b"\x1b[>4;2m\x1b[>4;m"), b"")
        self.assertEqual(undone(b"\x1b="), b"\x1b>")

    def test_style(self) -> None:
        self.assertEqual(undone(b"\x1b[1;31m"), b"\x1b[m")
        self.assertEqual(undone(b"\x1b[0;31m"), b"\x1b[m")
        self.assertEqual(undone(b"\x1b[31;0m"), b"")
        self.assertEqual(undone(b"\x1b[38:5:0m"), b"\x1b[m")
        self.assertEqual(undone(b"\x1b[5 q"), b"\x1b[0 q")
        self.assertEqual(undone(b"\x1b(0"), b"\x1b(B\x0f")

    def test_a_full_reset(self) -> None:
        self.assertEqual(undone(b"\x1b[?1049h\x1b[?1000h\x1b[31m\x1bc"), b"")

    def test_within_a_string_nothing_counts(self) -> None:
        self.assertEqual(undone(b"\x1b]0;[?1049h\x07"), b"")
        self.assertEqual(undone(b"\x1b]0;x\x1b\\\x1b[?1049h"), b"\x1b[?1049l")

    def test_what_was_cut_off_is_ended_first(self) -> None:
        self.assertEqual(undone(b"\x1b[?1049h\x1b]0;tit"), b"\x1b\\\x1b[?1049l")
        self.assertEqual(undone(b"\x1b[?1049h\x1b[3"), b"\x18\x1b[?1049l")

    def test_a_sequence_without_end_is_given_up(self) -> None:
        self.assertEqual(undone(b"\x1b[" + b"1;" * 5000), b"")
        modes = Modes()
        for _ in range(5000):
            modes.feed(b"\x1b[" + b"9" * 100)
        modes.feed(b"\x1b[?1000h")
        self.assertEqual(modes.undo(), b"\x1b[?1000l")

    @settings(deadline=None)
    @given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), st.lists(st.integers(0, 200), max_size=6))
    def test_pieces_do_not_matter(self, output: bytes, cuts: list[int]) -> None:
        places = [0, *sorted(min(cut, len(output)) for cut in cuts), len(output)]
        cut = [output[start:end] for start, end in pairwise(places)]
        self.assertEqual(undone(*cut), undone(output))
        self.assertEqual(undone(*(bytes([byte]) for byte in output)), undone(output))

    @settings(deadline=None)
    @given(st.binary(max_size=200))
    def test_any_bytes(self, output: bytes) -> None:
        self.assertEqual(undone(*(bytes([byte]) for byte in output)), undone(output))

    @settings(deadline=None)
    @given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
    def test_undoing_leaves_nothing_to_undo(self, output: bytes) -> None:
        self.assertEqual(undone(output, undone(output)), b"")
