"""Archives that must not be unpacked."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zlib
from pathlib import Path

from computerd.host.worker.failures import Refused
from computerd.host.worker.tree import Tree
from tests.host.worker.case import WorkerCase
from tests.host.worker.tars import END, file, filled, folder, hard_link, header, long_name, pax, symlink

GIB = 1 << 30
SPARSE = ((b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", b"holes"))


def sparse(size: int, table: bytes, data: bytes = b"") -> bytes:
    """A file in GNU's sparse format 1.0."""
    body = filled(table) + data
    return pax(*SPARSE, (b"GNU.sparse.realsize", b"%d" % size)) + header(b"x", size=len(body)) + filled(body)


HOSTILE = {
    "absolute": (file(b"/tmp/evil"), "`/tmp/evil`"),
    "above": (file(b"../evil"), "`../evil`"),
    "above in the middle": (file(b"a/../../evil"), "`a/../../evil`"),
    "above by pax": (pax((b"path", b"../evil")) + file(b"x"), "`../evil`"),
    "above by a long name": (long_name(b"../" + b"e" * 200) + file(b"x"), "`../eee"),
    "above by prefix": (header(b"evil", prefix=b".."), "`../evil`"),
    "a name with a NUL": (pax((b"path", b"a\0b")) + file(b"x"), "NUL"),
    "link out, then through it": (symlink(b"l", b"../outside") + file(b"l/evil", b"x"), "`l`"),
    "link inside, then through it": (folder(b"d") + symlink(b"l", b"d") + file(b"l/evil", b"x"), "`l`"),
    "link to the root": (symlink(b"l", b"/"), "`l`"),
    "link that climbs by others": (
        folder(b"a/b/c") + symlink(b"a/b/l", b"..") + symlink(b"m", b"a/b/l/../../outside") + file(b"m2"), "`m`"),
    "link that climbs by pax": (pax((b"linkpath", b"../../etc")) + symlink(b"d/l", b"x"), "`d/l`"),
    "link to nothing": (symlink(b"l", b""), "`l`"),
    "link, then the same name": (symlink(b"l", b"x") + file(b"l", b"evil"), "`l` is in it twice"),
    "link, then a folder": (folder(b"d") + symlink(b"l", b"d") + folder(b"l"), "`l`"),
    "hard link out": (hard_link(b"h", b"../outside/secret") + file(b"h", b"evil"), "`../outside/secret`"),
    "hard link to an absolute name": (hard_link(b"h", b"/etc/passwd"), "`/etc/passwd`"),
    "hard link to what comes later": (hard_link(b"h", b"f") + file(b"f"), "`h`"),
    "hard link through a link": (folder(b"d") + file(b"d/f") + symlink(b"l", b"d") + hard_link(b"h", b"l/f"), "`h`"),
    "hard link to a folder": (folder(b"d") + hard_link(b"h", b"d"), "`h`"),
    "hard link, then the same name": (file(b"f", b"x") + hard_link(b"h", b"f") + file(b"h", b"evil"), "`h`"),
    "character device": (header(b"null", b"3"), "`null`"),
    "block device": (header(b"disk", b"4"), "`disk`"),
    "FIFO": (header(b"pipe", b"6"), "`pipe`"),
    "unknown type": (header(b"what", b"Q"), "`what`"),
    "the same name twice": (file(b"f") + file(b"./f"), "`f` is in it twice"),
    "file, then below it": (file(b"f") + file(b"f/g"), "`f`"),
    "the top as a file": (file(b"."), "top"),
    "size below zero": (header(b"f", size=b"\xff" * 12), "`f`"),
    "size that is none": (header(b"f", size=b"12z"), "number"),
    "pax size that is none": (pax((b"size", b"-5")) + file(b"f"), "number"),
    "pax size that lies": (pax((b"size", b"512")) + file(b"f", b"x" * 1500), "damaged"),
    "pax size over the end": (pax((b"size", b"99999")) + file(b"f", b"x"), "cut off"),
    "pax record too long": (header(b"x", b"x", size=20) + filled(b"99 path=evil\n1234567") + file(b"f"), "pax"),
    "pax record without a length": (header(b"x", b"x", size=12) + filled(b"path=evil\n12") + file(b"f"), "pax"),
    "pax record of no length": (header(b"x", b"x", size=12) + filled(b"0 path=evil\n") + file(b"f"), "pax"),
    "pax record after another, without a length": (
        header(b"x", b"x", size=20) + filled(b"10 path=x\n" + b"path=evil\n") + file(b"f"), "pax"),
    "pax header of 2 MiB": (header(b"x", b"x", size=2 << 20) + bytes(2 << 20) + file(b"f"), "too large"),
    "many pax headers": (pax((b"path", b"a")) * 9 + file(b"f"), "too many headers"),
    "pax header without an entry": (pax((b"path", b"a")), "end"),
    "time that is none": (pax((b"mtime", b"1e9")) + file(b"f"), "number"),
    "time at the end of time": (pax((b"mtime", b"9" * 19)) + file(b"f"), "time"),
    "name of 256 bytes": (pax((b"path", b"n" * 256)) + file(b"f"), "too long"),
    "path of 5,000 bytes": (pax((b"path", b"a/" * 2500 + b"f")) + file(b"f"), "4096 bytes"),
    "sparse map that overlaps": (sparse(4096, b"2\n0\n512\n100\n512\n", bytes(1024)), "`holes`"),
    "sparse map past the end": (sparse(100, b"1\n0\n512\n", bytes(512)), "`holes`"),
    "sparse map without data": (sparse(4096, b"1\n0\n512\n"), "`holes`"),
    "sparse map without an end": (sparse(4096, b"9\n1\n"), "`holes`"),
    "sparse map of a million": (sparse(4096, b"1000000\n" + b"0\n0\n" * 400), "`holes`"),
    "sparse map of no numbers": (sparse(4096, b"one\n"), "`holes`"),
    "sparse size that is none": (pax(*SPARSE, (b"GNU.sparse.realsize", b"x")) + file(b"f", bytes(512)), "`holes`"),
    "sparse of version 2": (pax((b"GNU.sparse.major", b"2"), (b"GNU.sparse.realsize", b"1")) + file(b"f"), "`f`"),
    "a sum that is wrong": (file(b"f").replace(b"ustar", b"Ustar"), "damaged"),
    "no tar": (b"PK\3\4" * 300, "damaged"),
}  # fmt: skip


class HostileTests(WorkerCase):
    def refused(self, code: str, archive: bytes, coding: str = "identity") -> str:
        """It is refused, and nothing of it is left anywhere."""
        before = self.tree(self.outside.parent)
        message = self.fails(code, self.worker.unpack, "new", archive, coding=coding)
        self.assertEqual(before, self.tree(self.outside.parent))
        self.assertEqual([], os.listdir(self.top))
        return message

    def test_each_is_refused(self) -> None:
        """F7: with a message that says which entry, and nothing is written."""
        for what, (archive, said) in HOSTILE.items():
            message = self.refused("invalid_archive", file(b"first", b"1") + archive + END)
            self.assertIn(said, message, what)

    def test_each_leaves_what_it_was_to_replace(self) -> None:
        """F7: also with `replace`."""
        (self.top / "new").mkdir()
        (self.top / "new/kept").write_text("kept")
        before = self.tree(self.top.parent)
        for archive, _ in HOSTILE.values():
            self.fails("invalid_archive", self.worker.unpack, "new", archive + END, replace=True)
            self.assertEqual(before, self.tree(self.top.parent))

    def test_cut_anywhere(self) -> None:
        """F7: whatever is missing at the end, even only the end itself."""
        whole = (
            folder(b"d")
            + pax((b"path", b"d/f"), (b"mtime", b"5.5"))
            + file(b"x", b"content")
            + symlink(b"l", b"d")
            + END
        )
        for length in (*range(0, len(whole), 256), 1, len(whole) - 1):
            self.refused("invalid_archive", whole[:length])
        self.assertEqual(2, self.worker.unpack("new", whole)["files"])

    def test_something_after_the_end(self) -> None:
        """F7: zeros fill up the last record of a tape; anything else is no part of an archive."""
        self.refused("invalid_archive", file(b"f") + END + b"x")
        self.refused("invalid_archive", file(b"f") + END + file(b"g") + END)
        self.refused("invalid_archive", file(b"f") + bytes(512) + file(b"g") + END)
        self.worker.unpack("new", file(b"f") + END + bytes(20480))

    def test_too_large(self) -> None:
        """F7: 1 GiB and 1 byte is refused when it is said, before it comes; holes count."""
        self.assertIn("`f`", self.refused("too_large", header(b"f", size=GIB + 1)))
        self.refused("too_large", file(b"e", b"x") + header(b"f", size=GIB))
        self.refused("too_large", header(b"f", size=b"\x80" + b"\xff" * 11))
        self.assertIn("`holes`", self.refused("too_large", sparse(8 << 40, b"1\n0\n0\n") + END))
        gnu = bytes(8 + 32 + 32 + 16 + 41) + b"%011o\0" % 0 * 8 + b"\0" + b"\x80" + (8 << 40).to_bytes(11, "big")
        self.refused("too_large", header(b"old", b"S", magic=b"ustar  ", rest=b"\0" + gnu[8:]) + END)

    def test_too_many(self) -> None:
        """F7: 100,001 entries."""
        if os.path.isdir("/dev/shm"):
            base = tempfile.mkdtemp(dir="/dev/shm")
            self.addCleanup(shutil.rmtree, base)
            self.top = Path(base)
            self.worker = self.begin()
        one = file(b"f%06d")
        number, sum_at = one.index(b"%06d"), slice(148, 156)

        def entry(index: int) -> bytes:
            block = bytearray(one)
            block[number : number + 4] = b"%04x" % (index % 65536)
            block[0:1] = b"f" if index < 65536 else b"g"
            block[sum_at] = b" " * 8
            block[sum_at] = b"%06o\0 " % sum(block)
            return bytes(block)

        self.refused("too_large", b"".join(entry(index) for index in range(100_001)))

    def test_folders_by_the_way_are_entries(self) -> None:
        """F7: or a name of 4 KiB would be 2,000 of them."""
        (self.top / "new").mkdir()
        top = os.open(self.top / "new", os.O_RDONLY)
        self.addCleanup(os.close, top)
        tree = Tree(top, 100)
        self.addCleanup(tree.close)
        tree.folder(b"a/" * 49 + b"a", 0o755, 0)
        tree.folder(b"a/" * 49 + b"a", 0o755, 0)
        with self.assertRaises(Refused) as caught:
            tree.symlink(b"b/" * 49 + b"l", b"x", 0)
        self.assertEqual("too_large", caught.exception.code)

    def test_deep(self) -> None:
        """F7: 1,500 folders, one in another, are only that."""
        name = b"d/" * 1500 + b"f"
        self.worker.unpack("new", pax((b"path", name)) + file(b"x", b"deep") + END)
        here = os.open(self.top / "new", os.O_RDONLY)
        for _ in range(1500):
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        self.assertEqual(["f"], os.listdir(here))
        os.close(here)
        self.worker.unpack("new", file(b"flat") + END, replace=True)
        self.assertEqual({"flat": b""}, self.tree(self.top / "new"))

    def test_set_id_bits(self) -> None:
        """F6, F7: they never come out of an archive, nor does the sticky bit."""
        self.worker.unpack("new", folder(b".", 0o7777) + folder(b"d", 0o7777) + file(b"d/f", b"x", 0o7755) + END)
        for path, mode in (("new", 0o755), ("new/d", 0o755), ("new/d/f", 0o755)):
            self.assertEqual(mode, (self.top / path).stat().st_mode & 0o7777)

    def test_gzip_bomb(self) -> None:
        """F7: 1,000 to 1, as files, as nothing but headers, as zeros after the end, and as gzip in small members."""
        squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = squeeze.compress(header(b"f", size=GIB) + bytes(1 << 20))
        bomb += b"".join(squeeze.compress(bytes(1 << 24)) for _ in range(20)) + squeeze.flush()
        self.assertLess(len(bomb), 1 << 20)
        self.refused("invalid_archive", bomb, "gzip")
        self.refused("too_large", gzip.compress(file(b"e", b"x") + header(b"f", size=GIB)), "gzip")
        self.refused("invalid_archive", gzip.compress(pax((b"comment", b"x" * 900_000)) * 50), "gzip")

    def test_gzip_that_is_none(self) -> None:
        good = gzip.compress(file(b"f", b"content") + END)
        self.refused("invalid_archive", b"nothing", "gzip")
        self.refused("invalid_archive", good[:-3], "gzip")
        self.refused("invalid_archive", good[:-8] + bytes(8), "gzip")
        self.refused("invalid_archive", good + b"rest", "gzip")
        self.refused("invalid_archive", file(b"f") + END, "gzip")
        self.worker.unpack("new", good + bytes(100), coding="gzip")
