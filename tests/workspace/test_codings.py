"""Which compression an archive has on its way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.workspace.codings import accepts, negotiate, recognise


def words(text: str) -> list[str]:
    """As `Head.words` gives them."""
    return [word.strip() for word in text.split(",") if word.strip()]


class NegotiateTests(SynchronousTestCase):
    """`negotiate`."""

    def test_by_weight(self) -> None:
        for accept, coding in (
            ("", "identity"), ("gzip", "gzip"), ("x-gzip", "gzip"), ("zstd", "zstd"), ("ZSTD", "zstd"), ("gzip, deflate, br, zstd", "zstd"),
            ("gzip, deflate", "gzip"), ("gzip;q=1.0, zstd;q=0.9", "gzip"), ("gzip ; q=0.8 , zstd; Q=0.801", "zstd"), ("br", "identity"),
            ("gzip;q=0", "identity"), ("gzip;q=0.000, zstd;q=0", "identity"), ("gzip;q=0.001", "gzip"),
        ):  # fmt: skip
            self.assertEqual(negotiate(words(accept)), coding, accept)

    def test_plain_when_it_is_liked_more(self) -> None:
        for accept, coding in (
            ("identity", "identity"), ("identity, gzip;q=0.5", "identity"), ("identity;q=0.5, gzip", "gzip"), ("identity, gzip", "gzip"),
            ("identity;q=0, gzip;q=0.1", "gzip"),
        ):  # fmt: skip
            self.assertEqual(negotiate(words(accept)), coding, accept)

    def test_a_star_chooses_none(self) -> None:
        for accept, coding in (
            ("*", "identity"), ("*;q=0", "identity"), ("*;q=0, gzip", "gzip"), ("gzip;q=0.5, *", "identity"), ("zstd, *;q=0.1", "zstd"),
        ):  # fmt: skip
            self.assertEqual(negotiate(words(accept)), coding, accept)

    def test_nothing_suits(self) -> None:
        self.assertEqual(negotiate(words("identity;q=0")), "identity")

    def test_nonsense_is_passed_over(self) -> None:
        for accept in ("gzip;q=2", "gzip;q=0.1234", "gzip;q=", "gzip;level=1", "gzip zstd", ";q=1", "gz ip"):
            self.assertEqual(negotiate(words(accept)), "identity", accept)

    @given(st.lists(st.text(max_size=30), max_size=10))
    def test_any_words(self, given_words: list[str]) -> None:
        self.assertIn(negotiate(given_words), ("identity", "gzip", "zstd"))


class AcceptsTests(SynchronousTestCase):
    """`accepts`."""

    def test_only_what_is_named(self) -> None:
        for accept, taken in (
            ("zstd", False),
            ("zstd, gzip", True),
            ("gzip;q=0", False),
            ("x-gzip;q=0.1", True),
            ("*", False),
        ):
            self.assertEqual(accepts(words(accept), "gzip"), taken, accept)
            self.assertTrue(accepts(words(accept), "identity"))


class RecogniseTests(SynchronousTestCase):
    """`recognise`."""

    def test_known(self) -> None:
        for text, coding in (
            ("", "identity"),
            ("identity", "identity"),
            ("GZip", "gzip"),
            ("x-gzip", "gzip"),
            ("zstd", "zstd"),
        ):
            self.assertEqual(recognise(words(text)), coding)

    def test_others(self) -> None:
        for text in ("br", "gzip, gzip", "identity, zstd", "gzip;q=1", "aws-chunked"):
            error = self.assertRaises(ApiError, recognise, words(text))
            self.assertEqual((error.code, error.field), (Code.INVALID_REQUEST, "Content-Encoding"))
