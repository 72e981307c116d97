"""What a name says about a file, and under which name it is saved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.workspace.disposition import disposition
from computerd.workspace.media import UNKNOWN, content_type, media_type, shown


class MediaTests(SynchronousTestCase):
    """`media_type`, `content_type` and `shown`."""

    def test_types(self) -> None:
        for name, kind in (
            ("a.txt", "text/plain"), ("A.TXT", "text/plain"), ("a.png", "image/png"), ("x.tar.gz", "application/gzip"), ("x.tgz", "application/gzip"),
            ("a.json", "application/json"), ("notes.md", "text/markdown"), ("a.jpg", "image/jpeg"), ("Makefile", UNKNOWN), ("a.nothing", UNKNOWN),
            (".txt", UNKNOWN), ("", UNKNOWN), ("a.ts", "text/plain"), ("data:text/html,x", UNKNOWN), ("a.html?x.png", "image/png"),
            ("a.csv.zst", "application/zstd"),
        ):  # fmt: skip
            self.assertEqual(media_type(name), kind, name)

    def test_text_is_utf_8(self) -> None:
        self.assertEqual(content_type("a.txt"), "text/plain; charset=utf-8")
        self.assertEqual(content_type("a.html"), "text/html; charset=utf-8")
        self.assertEqual(content_type("a.png"), "image/png")

    def test_what_could_act_is_never_shown(self) -> None:
        names = "html htm xhtml svg xml xsl pdf js mjs css swf mht mhtml eml hta jar wasm rdf atom shtml ipynb php sh py exe unknown"
        for extension in names.split():
            self.assertFalse(shown(f"a.{extension}"), extension)
            self.assertFalse(shown(f"A.{extension.upper()}"), extension)
        for name in ("a", "a.txt.html", "a.svg.gz"):
            self.assertFalse(shown(name), name)

    def test_what_is_shown(self) -> None:
        for extension in ("txt", "md", "csv", "json", "png", "jpg", "jpeg", "gif", "webp", "mp4", "mp3", "log"):
            self.assertTrue(shown(f"a.{extension}"), extension)


class DispositionTests(SynchronousTestCase):
    """`disposition`."""

    def test_plain_names(self) -> None:
        self.assertEqual(disposition("a b.txt", shown=True), 'inline; filename="a b.txt"')
        self.assertEqual(disposition("a.html", shown=False), 'attachment; filename="a.html"')

    def test_other_names(self) -> None:
        for name, rest in (
            ("é.txt", "\"_.txt\"; filename*=UTF-8''%C3%A9.txt"),
            ('a"b\\c', "\"a_b_c\"; filename*=UTF-8''a%22b%5Cc"),
            ("100%", "\"100_\"; filename*=UTF-8''100%25"),
            ("a\r\nSet-Cookie: x", "\"a__Set-Cookie: x\"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20x"),
            ("a/b", "\"a_b\"; filename*=UTF-8''a%2Fb"),
            ("\ud800", "\"_\"; filename*=UTF-8''%3F"),
        ):
            self.assertEqual(disposition(name, shown=False), f"attachment; filename={rest}")

    @given(st.text())
    def test_it_is_one_ascii_line(self, name: str) -> None:
        value = disposition(name, shown=True)
        self.assertRegex(value, r"\A[ -~]*\Z")
        self.assertEqual(value.count('"'), 2)
