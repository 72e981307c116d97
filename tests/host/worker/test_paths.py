"""How paths are spelled and confined. Everything is tried with openat2 and without."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.host.worker import kernel
from computerd.host.worker.failures import Refused
from computerd.host.worker.paths import Root, candidates, parse, spell, unspell
from tests.host.worker.case import remove

names = st.binary(min_size=1, max_size=12).filter(
    lambda name: not set(name) & set(b"/\0") and name not in (b".", b"..")
)
places = st.lists(names, min_size=1, max_size=4).map(b"/".join)


class SpellingTests(SynchronousTestCase):
    @given(path=places)
    def test_there_and_back(self, path: bytes) -> None:
        text, encoded = spell(path)
        self.assertIn(path, (parse(text), unspell(parse(text))))
        self.assertIn(path, candidates(text))
        try:
            self.assertEqual((path.decode(), False), (text, encoded))
        except UnicodeDecodeError:
            self.assertTrue(encoded)
            self.assertTrue(text.isascii())

    @given(one=places, other=places)
    def test_no_two_paths_have_the_same_spelling_but_what_is_spelled_as_itself(self, one: bytes, other: bytes) -> None:
        if one != other and spell(one)[0] == spell(other)[0]:
            self.assertNotEqual(spell(one)[1], spell(other)[1])

    def test_examples(self) -> None:
        self.assertEqual(("100%", False), spell(b"100%"))
        self.assertEqual(("100%25/%FF", True), spell(b"100%/\xff"))
        self.assertEqual([b"100%25/%ff", b"100%/\xff"], candidates("100%25/%ff"))
        for text in ("%41", "%", "a%", "%F", "%F\u00fc", "%zz", "%+1", "%FF%2Fa", "%FF%00", "%FF/%2E%2E", "%FF/%2e"):
            self.assertEqual([text.encode()], candidates(text), text)

    def test_what_names_no_place(self) -> None:
        """F3."""
        for text in (
            "/",
            "/a",
            "..",
            "a/..",
            "../a",
            "a//b",
            "a/",
            "/a/",
            ".",
            "./a",
            "a/./b",
            "a\0b",
            "a" * 4097,
            "\ud800",
        ):
            with self.assertRaises(Refused) as caught:
                parse(text)
            self.assertEqual(("invalid_path", "path"), (caught.exception.code, caught.exception.field), text)
        self.assertEqual(b"", parse(""))
        self.assertEqual(4096, len(parse("a" * 4096)))


class ConfinedTests(SynchronousTestCase):
    walk = False

    def setUp(self) -> None:
        base = Path(self.mktemp()).absolute()
        self.addCleanup(remove, base)
        self.top = base / "top"
        (self.top / "a/b").mkdir(parents=True)
        (self.top / "a/b/f").write_text("f")
        (base / "secret").write_text("the secret")
        top = os.open(self.top, os.O_PATH)
        self.addCleanup(os.close, top)
        self.root = Root(top, walk=self.walk)

    def read(self, path: str, flags: int = os.O_RDONLY) -> bytes:
        """What is in the file that a path opens."""
        descriptor = self.root.open(path.encode(), flags)
        try:
            return os.read(descriptor, 100)
        finally:
            os.close(descriptor)

    def fails(self, number: int, path: str, flags: int = os.O_RDONLY) -> None:
        with self.assertRaises(OSError) as caught:
            os.close(self.root.open(path.encode(), flags))
        self.assertEqual(errno.errorcode[number], errno.errorcode[caught.exception.errno or 0], path)

    def link(self, name: str, target: str) -> str:
        (self.top / name).symlink_to(target)
        return name

    def test_inside(self) -> None:
        for target in ("a/b/f", "./a/b/f", "a/../a/b/f", "a//b///f"):
            name = self.link(f"l{len(os.listdir(self.top))}", target)
            self.assertEqual(b"f", self.read(name))
        self.link("a/up", "../a/b")
        self.link("d", "a/up/.")
        for path in ("a/b/f", "a/up/f", "d/f", "a/up/../b/f"):
            self.assertEqual(b"f", self.read(path))
        os.close(self.root.open(b"", os.O_RDONLY | os.O_DIRECTORY))

    def test_outside(self) -> None:
        """F3: whatever links say."""
        self.link("above", "..")
        self.link("a/b/climbs", "../../../secret")
        for path in (
            self.link("absolute", str(self.top / "a/b/f")), self.link("relative", "../secret"), self.link("root", "/"),
            "above/secret", "above", "a/b/climbs", self.link("chain", "a/b/climbs"), self.link("proc", "/proc/self/root/etc/passwd"),
            self.link("back", "../top/a/b/f"),
        ):  # fmt: skip
            self.fails(errno.EXDEV, path)
            self.fails(errno.EXDEV, path, os.O_PATH)

    def test_missing(self) -> None:
        self.fails(errno.ENOENT, "nothing")
        self.fails(errno.ENOENT, self.link("dangling", "nothing"))
        self.fails(errno.ENOTDIR, "a/b/f/g")
        self.fails(errno.ENOTDIR, self.link("slash", "a/b/f/"))
        self.fails(errno.ENOTDIR, "a/b/f", os.O_RDONLY | os.O_DIRECTORY)
        self.fails(errno.ENAMETOOLONG, "n" * 256)

    def test_circles(self) -> None:
        self.link("x", "y")
        self.link("y", "x")
        self.fails(errno.ELOOP, "x")
        for number in range(45):
            self.link(f"n{number}", f"n{number + 1}" if number < 44 else "a/b/f")
        self.fails(errno.ELOOP, "n0")
        self.assertEqual(b"f", self.read("n10"))

    def test_not_followed_at_the_end(self) -> None:
        self.link("l", "a/b/f")
        self.fails(errno.ELOOP, "l", os.O_RDONLY | os.O_NOFOLLOW)
        self.link("d", "a/b")
        self.assertEqual(b"f", self.read("d/f", os.O_RDONLY | os.O_NOFOLLOW))
        link = self.root.open(b"l", os.O_PATH | os.O_NOFOLLOW)
        self.assertEqual("a/b/f", os.readlink("", dir_fd=link))
        os.close(link)

    def test_deep(self) -> None:
        here = os.open(self.top, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
        os.close(self.root.open(b"/".join([b"d"] * 1500), os.O_RDONLY))
        self.link("up", "d/" * 700 + "../" * 700 + "a/b/f")
        self.assertEqual(b"f", self.read("up"))

    def test_no_descriptor_is_left(self) -> None:
        before = os.listdir("/proc/self/fd")
        self.test_outside()
        self.test_inside()
        self.assertEqual(len(before), len(os.listdir("/proc/self/fd")))

    def test_found_as_given_and_else_as_spelled(self) -> None:
        """Section 7: a path that is given is tried as it is, then, if there is none, as a spelling."""
        os.mkdir(os.fsencode(self.top) + b"/\xff")
        os.mkdir(os.fsencode(self.top) + b"/\xff/x%")
        for text, wanted in (("%FF", b"\xff"), ("%FF/x%25", b"\xff/x%")):
            path, descriptor = self.root.find(text, os.O_PATH)
            os.close(descriptor)
            self.assertEqual(wanted, path)
        for text, wanted in (
            ("%FF/new", b"\xff/new"),
            ("%FE", b"%FE"),
            ("%FF", b"\xff"),
            ("a/%FF", b"a/%FF"),
            ("%FF/%FE", b"\xff/\xfe"),
        ):
            path, descriptor = self.root.find_parent(text)
            os.close(descriptor)
            self.assertEqual(wanted, path)
        (self.top / "%FF").mkdir()
        path, descriptor = self.root.find("%FF", os.O_PATH)
        os.close(descriptor)
        self.assertEqual(b"%FF", path)


class WalkTests(ConfinedTests):
    """Where the kernel has no openat2."""

    walk = True

    def test_chosen_when_there_is_no_call(self) -> None:
        def never(*_: object) -> int:
            raise OSError(errno.ENOSYS, "no such call")

        self.patch(kernel, "open_beneath", never)
        self.root = Root(os.dup(self.root._descriptor))
        self.addCleanup(os.close, self.root._descriptor)
        self.assertEqual(b"f", self.read("a/b/f"))
        self.test_outside()

    def test_a_file_that_is_forbidden_is_no_missing_call(self) -> None:
        def forbidden(root: int, path: bytes, flags: int) -> int:
            if path == b".":
                return os.dup(root)
            raise OSError(errno.EPERM, "not permitted")

        self.patch(kernel, "open_beneath", forbidden)
        self.root = Root(self.root._descriptor)
        self.fails(errno.EPERM, "a/b/f")
