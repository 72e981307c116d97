"""Listings, as the worker gives them."""

from __future__ import annotations

import os
import socket
import stat
import time
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.host.worker.failures import Refused
from computerd.host.worker.listing import Page, parse_cursor, write_cursor
from tests.host.worker.case import NobodyCase, WorkerCase


class ListingTests(WorkerCase):
    def test_what_is_said(self) -> None:
        """Types, sizes, modes, times, targets."""
        (self.top / "d").mkdir(mode=0o750)
        (self.top / "d/f").write_bytes(b"12345")
        os.chmod(self.top / "d/f", 0o4755)
        os.utime(self.top / "d/f", ns=(0, 1_234_567_890_123_456_789))
        (self.top / "l").symlink_to("d/f")
        os.mkfifo(self.top / "pipe")
        with socket.socket(socket.AF_UNIX) as listening:
            here = os.open(self.top, os.O_RDONLY)
            listening.bind(f"/proc/self/fd/{here}/socket")
            os.close(here)
        page = self.worker.ask("list", path="", depth=2, limit=100, cursor=None)
        self.assertEqual(("", None), (page["path"], page["cursor"]))
        found = {entry[0]: entry[1:] for entry in page["entries"]}
        self.assertEqual(["d", "d/f", "l", "pipe", "socket"], list(found))
        self.assertEqual(["f", "file", 5, 0o4755, 1_234_567_890_123_456_789, None, False], found["d/f"])
        self.assertEqual(["d", "directory", 0o750, None], [found["d"][index] for index in (0, 1, 3, 5)])
        self.assertEqual(["l", "symlink", 3, "d/f"], [found["l"][index] for index in (0, 1, 2, 5)])
        self.assertEqual(["other", "other"], [found["pipe"][1], found["socket"][1]])
        page = self.worker.ask("list", path="d", depth=1, limit=100, cursor=None)
        self.assertEqual(["d", "d/f"], [page["path"], page["entries"][0][0]])

    def test_depth(self) -> None:
        path = self.top / "/".join("abcdefghijkl")
        path.mkdir(parents=True)
        for depth in (1, 2, 10):
            self.assertEqual(depth, len(self.worker.names(depth=depth)))

    def test_links_are_not_followed_below(self) -> None:
        (self.top / "d").mkdir()
        (self.top / "d/loop").symlink_to("..")
        (self.top / "out").symlink_to(self.outside)
        self.assertEqual(["d", "d/loop", "out"], self.worker.names(depth=10))
        self.assertEqual(["d/loop/d", "d/loop/out"], self.worker.names("d/loop"))
        self.fails("invalid_path", self.worker.names, "out")

    def test_names_that_are_not_utf8(self) -> None:
        os.mkdir(os.fsencode(self.top) + b"/50%\xe9")
        (self.top / "50%").touch()
        os.symlink(b"\xff", os.fsencode(self.top) + b"/50%\xe9/l")
        page = self.worker.ask("list", path="", depth=2, limit=100, cursor=None)["entries"]
        self.assertEqual(["50%", "50%25%E9", "50%25%E9/l"], [entry[0] for entry in page])
        self.assertEqual([False, True, True], [entry[7] for entry in page])
        self.assertEqual("%FF", page[2][6])
        self.assertEqual(["50%25%E9/l"], self.worker.names("50%25%E9"))

    def test_failures(self) -> None:
        (self.top / "f").touch()
        os.mkfifo(self.top / "pipe")
        self.assertIn("a file", self.fails("invalid_path", self.worker.names, "f"))
        self.assertIn("FIFO", self.fails("invalid_path", self.worker.names, "pipe"))
        self.fails("path_not_found", self.worker.names, "nothing")
        self.fails("path_not_found", self.worker.names, "f/g")
        for path in ("..", "/", "a//b", "a\0"):
            self.fails("invalid_path", self.worker.names, path)

    def test_cursors(self) -> None:
        for name in "abcde":
            (self.top / name).mkdir()
            (self.top / name / "x").touch()
        page = self.worker.ask("list", path="", depth=2, limit=5, cursor=None)
        self.assertEqual(["a", "a/x", "b", "b/x", "c"], [entry[0] for entry in page["entries"]])
        (self.top / "c/x").unlink()
        (self.top / "c").rmdir()  # where it stood
        (self.top / "a/y").touch()  # before it
        (self.top / "c0").touch()  # after it
        page = self.worker.ask("list", path="", depth=2, limit=100, cursor=page["cursor"])
        self.assertEqual(["c0", "d", "d/x", "e", "e/x"], [entry[0] for entry in page["entries"]])
        for cursor in ("", "x", "====", "\u00fc", "A" * 8000, page["cursor"] or write_cursor(b"d", b"x")):
            self.fails("invalid_cursor", self.worker.ask, "list", path="", depth=1, limit=1, cursor=cursor)

    def test_a_large_page_goes_into_a_frame(self) -> None:
        """Names of control characters take six characters each in JSON."""
        deep = "/".join(["\1" * 200] * 9)
        (self.top / deep).mkdir(parents=True)
        for number in range(60):
            (self.top / deep / ("\2" * 200 + str(number))).symlink_to("\3" * 4000)
        self.assertEqual(69, len(self.worker.names(depth=10)))

    def test_100_000_in_a_folder(self) -> None:
        """A page of them takes less than two seconds, and their number costs no memory that is kept."""
        (self.top / "many").mkdir()
        here = os.open(self.top / "many", os.O_RDONLY)
        for number in range(100_000):
            os.mknod(f"f{number:05}", 0o600 | stat.S_IFREG, dir_fd=here)
        os.close(here)
        began = time.monotonic()
        page = self.worker.ask("list", path="many", depth=2, limit=100, cursor=None)
        self.assertLess(time.monotonic() - began, 2)
        self.assertEqual([f"many/f{number:05}" for number in range(100)], [entry[0] for entry in page["entries"]])
        page = self.worker.ask("list", path="many", depth=2, limit=100, cursor=write_cursor(b"many", b"f99950"))
        self.assertEqual((49, None), (len(page["entries"]), page["cursor"]))
        began = self.cpu()
        names = self.worker.names("many", depth=2)
        self.assertEqual([f"many/f{number:05}" for number in range(100_000)], names)
        self.assertLess(self.cpu() - began, 20)  # a thousand times the folder would be minutes
        status = Path(f"/proc/{self.worker.pid}/status").read_text()
        self.assertLess(int(status.partition("VmHWM:")[2].split()[0]), 40_000)

    def cpu(self) -> float:
        """Seconds of processor time that the worker has had."""
        fields = Path(f"/proc/{self.worker.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_a_large_folder_that_changes(self) -> None:
        """What is kept of it is not used once it has changed, and not while it is too young to tell."""
        many = self.top / "many"
        many.mkdir()
        for number in range(2000):
            (many / f"f{number:04}").touch()
        os.utime(many, (1, 1))
        for wanted in ("f1000a", "f1000b", "f1000c"):
            self.assertNotIn(f"many/{wanted}", self.from_f1000())
            (many / wanted).touch()
            self.assertIn(f"many/{wanted}", self.from_f1000())
        (many / "f1001").rename(many / "f1000d")
        names = self.from_f1000()
        self.assertEqual(["many/f1000a", "many/f1000b", "many/f1000c", "many/f1000d", "many/f1002"], names[:5])

    def from_f1000(self) -> list[str]:
        """A page of it."""
        cursor = write_cursor(b"many", b"f1000")
        return [
            entry[0] for entry in self.worker.ask("list", path="many", depth=1, limit=100, cursor=cursor)["entries"]
        ]

    def test_what_is_on_its_way_is_not_seen(self) -> None:
        number = self.worker.begin("unpack", path="new", replace=False, coding="identity")
        self.worker.answer(number)
        self.assertEqual(1, len(self.left()))
        self.assertEqual([], self.worker.names(depth=10))


class ReadableTests(NobodyCase):
    def test_a_folder_that_may_not_be_read(self) -> None:
        """It is listed, and nothing below it."""
        closed = self.top / "closed"
        closed.mkdir(mode=0o700)
        (closed / "f").touch()
        self.assertEqual(["closed"], self.worker.names(depth=10))
        self.assertIn("may not", self.fails("invalid_path", self.worker.names, "closed"))
        self.fails("invalid_path", self.worker.names, "closed/f")


class _Free:
    """A request that nobody stops."""

    def check(self) -> None:
        pass


letters = st.text("ab-0.\u00fc", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
trees = st.recursive(st.none(), lambda below: st.dictionaries(letters, below, max_size=5), max_leaves=25)


class OrderTests(SynchronousTestCase):
    def page(self, folder: Path, limit: int, after: bytes, depth: int) -> Page:
        page: Any = Page(_Free(), b"", limit)  # type: ignore[arg-type]
        page.fill(os.open(folder, os.O_RDONLY), b"", after, depth)
        found: Page = page
        return found

    @settings(max_examples=60, deadline=None)
    @given(tree=trees, limit=st.integers(1, 7), depth=st.integers(1, 5))
    def test_pages_are_the_whole_in_the_order_of_bytes(self, tree: Any, limit: int, depth: int) -> None:
        top = Path(self.mktemp()).absolute()
        top.mkdir(parents=True)
        _make(top, tree or {})
        wanted = sorted(os.fsencode(path.relative_to(top)) for path in top.rglob("*"))
        wanted = [path for path in wanted if path.count(b"/") < depth]
        found: list[bytes] = []
        after = b""
        while True:
            page = self.page(top, limit, after, depth)
            found += [entry[0].encode() for entry in page.entries]
            if not page.more:
                break
            self.assertEqual(limit, len(page.entries))
            after = parse_cursor(write_cursor(b"", page.last), b"")
        self.assertEqual(wanted, found)

    @given(text=st.text(max_size=60))
    def test_no_text_is_a_cursor_by_chance(self, text: str) -> None:
        try:
            last = parse_cursor(text, b"folder")
        except Refused as refused:
            self.assertEqual("invalid_cursor", refused.code)
        else:
            self.assertEqual(text.rstrip("="), write_cursor(b"folder", last))


def _make(folder: Path, tree: dict[str, Any]) -> None:
    for name, below in tree.items():
        if below is None:
            (folder / name).touch()
        else:
            (folder / name).mkdir()
            _make(folder / name, below)
