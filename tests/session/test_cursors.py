"""The cursor of a list of sessions."""

from __future__ import annotations

from base64 import urlsafe_b64encode

from hypothesis import example, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.session import cursors

ids = st.from_regex(r"cs_[0-9A-Za-z]{16}", fullmatch=True)
milliseconds = st.integers(0, 10**13)


class CursorTests(SynchronousTestCase):
    """Encoded and decoded."""

    @given(milliseconds, ids)
    def test_there_and_back(self, at: int, session_id: str) -> None:
        cursor = cursors.encode(at / 1000, session_id)
        self.assertRegex(cursor, r"^[A-Za-z0-9_-]+$")
        created_at, found = cursors.decode(cursor)
        self.assertEqual((round(created_at * 1000), found), (at, session_id))

    @given(st.text(max_size=1024))
    @example("")
    @example("====")
    @example("é")
    @example("\ud800")
    @example(urlsafe_b64encode(b"0.cs_0000000000000000\n").decode())
    @example(urlsafe_b64encode(b"00.cs_0000000000000000").decode())
    @example(urlsafe_b64encode(b"-1.cs_0000000000000000").decode())
    @example(urlsafe_b64encode(b"99999999999999999.cs_0000000000000000").decode())
    def test_anything_else_is_refused(self, text: str) -> None:
        try:
            place = cursors.decode(text)
        except ApiError as error:
            self.assertEqual((error.code, error.field), (Code.INVALID_CURSOR, "cursor"))
        else:
            self.assertEqual(cursors.encode(*place), text)

    @given(milliseconds, ids, st.data())
    def test_a_changed_cursor_is_refused_or_another_place(self, at: int, session_id: str, data: st.DataObject) -> None:
        cursor = cursors.encode(at / 1000, session_id)
        place = data.draw(st.integers(0, len(cursor) - 1))
        other = cursor[:place] + data.draw(st.sampled_from("Aa0-_=+/ ")) + cursor[place + 1 :]
        if other != cursor:
            try:
                self.assertNotEqual(cursors.decode(other), (at / 1000, session_id))
            except ApiError as error:
                self.assertEqual(error.code, Code.INVALID_CURSOR)
