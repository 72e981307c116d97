from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.opc.keys import Escapes, Key


def typed(data: bytes, character: bytes | None = b"~") -> list[bytes | Key]:
    """What comes of `data` typed at once, adjacent pieces joined."""
    return joined(Escapes(character).feed(data))


def joined(pieces: list[bytes | Key]) -> list[bytes | Key]:
    out: list[bytes | Key] = []
    for piece in pieces:
        if isinstance(piece, bytes) and out and isinstance(last := out[-1], bytes):
            out[-1] = last + piece
        else:
            out.append(piece)
    return out


class EscapesTests(SynchronousTestCase):
    def test_every_key(self) -> None:
        self.assertEqual(typed(b"~."), [Key.LEAVE])
        self.assertEqual(typed(b"~\x1a"), [Key.SUSPEND])
        self.assertEqual(typed(b"~#"), [Key.STATUS])
        self.assertEqual(typed(b"~?"), [Key.HELP])

    def test_only_at_the_beginning_of_a_line(self) -> None:
        self.assertEqual(typed(b"a~."), [b"a~."])
        self.assertEqual(typed(b"a\r~."), [b"a\r", Key.LEAVE])
        self.assertEqual(typed(b"a\n~."), [b"a\n", Key.LEAVE])
        self.assertEqual(typed(b"~?~."), [Key.HELP, Key.LEAVE])

    def test_the_character_itself(self) -> None:
        self.assertEqual(typed(b"~~."), [b"~."])
        self.assertEqual(typed(b"~x"), [b"~x"])
        self.assertEqual(typed(b"~~~."), [b"~~."])
        self.assertEqual(typed(b"~\r~."), [b"~\r", Key.LEAVE])

    def test_it_is_held_back_until_the_next_key(self) -> None:
        escapes = Escapes(b"~")
        self.assertEqual(escapes.feed(b"~"), [])
        self.assertEqual(escapes.feed(b"x"), [b"~x"])

    def test_another_character(self) -> None:
        self.assertEqual(typed(b"~.\r%.", b"%"), [b"~.\r", Key.LEAVE])
        self.assertEqual(typed(b"..", b"."), [b"."])
        self.assertIn(" %.   - leave", Escapes(b"%").help())

    def test_none(self) -> None:
        self.assertEqual(typed(b"~.\r~.", None), [b"~.\r~."])

    @settings(deadline=None)
    @given(st.text("~.?#\x1a\r\nab", max_size=30), st.integers(0, 30))
    def test_pieces_do_not_matter(self, text: str, cut: int) -> None:
        data = text.encode()
        escapes = Escapes(b"~")
        self.assertEqual(joined([*escapes.feed(data[:cut]), *escapes.feed(data[cut:])]), typed(data))

    @settings(deadline=None)
    @given(st.binary(max_size=100).filter(lambda data: b"~" not in data))
    def test_nothing_else_is_touched(self, data: bytes) -> None:
        self.assertEqual(b"".join(p for p in typed(data) if isinstance(p, bytes)), data)
