"""Archives that keep files of what they replace."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

from twisted.trial.unittest import SkipTest

from computerd.host.worker import kernel
from tests.host.worker.case import NOBODY, NobodyCase, WorkerCase
from tests.host.worker.program import LIMIT
from tests.host.worker.tars import END, file, folder, hard_link, header, kept, pax

THEN = 1_700_000_000
NOT_THERE = "is not in the folder that is replaced as the archive says"


class KeepingTests(WorkerCase):
    def setUp(self) -> None:
        super().setUp()
        self.old = self.top / "old"
        self.write(self.old / "a/same", b"12345")
        self.write(self.old / "gone", b"gone")

    def write(self, path: Path, data: bytes) -> None:
        """A file of THEN."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (THEN, THEN))

    def refused(self, archive: bytes, words: str = NOT_THERE, *, replace: bool = True, path: str = "old") -> None:
        """It is, and nothing has changed."""
        before = self.tree(self.top)
        message = self.fails("invalid_archive", self.worker.unpack, path, archive, replace=replace)
        self.assertIn(words, message)
        self.assertEqual((before, []), (self.tree(self.top), self.left()))
        self.assertEqual(1, (self.old / "a/same").stat().st_nlink)

    def test_a_kept_file(self) -> None:
        """It is the same file, with no other name; it counts as one that landed."""
        before = (self.old / "a/same").stat()
        archive = folder(b"a") + kept(b"a/same", 5, THEN) + file(b"a/new", b"new") + END
        found = self.worker.unpack("old", archive, replace=True)
        self.assertEqual((2, 8, True), (found["files"], found["bytes"], found["replaced"]))
        self.assertEqual({"a": "/", "a/new": b"new", "a/same": b"12345"}, self.tree(self.old))
        after = (self.old / "a/same").stat()
        self.assertEqual((before.st_ino, 1, THEN), (after.st_ino, after.st_nlink, after.st_mtime))
        self.assertEqual([], self.left())

    def test_times_that_were_rounded(self) -> None:
        os.utime(self.old / "a/same", ns=(0, THEN * 10**9 + 999_600_000))
        self.worker.unpack(
            "old", pax((b"COMPUTERD.size", b"5"), (b"mtime", b"%d.001" % (THEN + 1))) + header(b"a/same", b"U") + END, replace=True
        )  # fmt: skip
        self.assertEqual({"a": "/", "a/same": b"12345"}, self.tree(self.old))

    def test_what_is_not_so(self) -> None:
        """Other sizes, times, modes, kinds and names; nothing to replace; said twice, or not rightly."""
        for archive in (
            kept(b"a/same", 4, THEN), kept(b"a/same", 5, THEN + 1), kept(b"a/same", 5, THEN, 0o755), kept(b"a", 0, THEN),
            kept(b"same", 5, THEN), kept(b"a/same/x", 5, THEN), kept(b"b/same", 5, THEN), kept(b"a/none", 5, THEN),
        ):  # fmt: skip
            self.refused(archive + END)
        self.refused(kept(b"a/same", 5, THEN) + END, path="new")
        self.refused(kept(b"a/same", 5, THEN) + END, "nothing is replaced", replace=False, path="new")
        self.refused(kept(b"../old/gone", 4, THEN) + END, "leads out")
        self.refused(2 * kept(b"a/same", 5, THEN) + END, "twice")
        self.refused(file(b"a/same", b"x") + kept(b"a/same", 5, THEN) + END, "twice")
        self.refused(header(b"a/same", b"U", mtime=THEN) + END, "number")
        (self.top / "plain").write_bytes(b"12345")
        self.refused(kept(b"plain", 5, THEN) + END, path="plain")

    def test_what_is_no_file_of_one_name(self) -> None:
        """F5: links, of either kind, and what has a set-id bit."""
        (self.old / "link").symlink_to(self.outside / "secret")
        (self.old / "out").symlink_to(self.outside)
        os.utime(self.outside / "secret", (THEN, THEN))
        os.utime(self.old / "link", (THEN, THEN), follow_symlinks=False)
        size = len(os.readlink(self.old / "link"))
        self.refused(kept(b"link", size, THEN, 0o777) + END)
        self.refused(kept(b"link", 10, THEN) + END)
        self.refused(kept(b"out/secret", 10, THEN) + END)
        os.link(self.old / "gone", self.old / "twin")
        self.refused(kept(b"twin", 4, THEN) + END)
        (self.old / "twin").chmod(0o4644)
        (self.old / "gone").unlink()
        self.refused(kept(b"twin", 4, THEN) + END)

    def test_a_second_name_of_it(self) -> None:
        self.worker.unpack("old", kept(b"a/same", 5, THEN) + hard_link(b"b", b"a/same") + END, replace=True)
        self.assertEqual({"a": "/", "a/same": b"12345", "b": b"12345"}, self.tree(self.old))
        self.assertEqual(2, (self.old / "b").stat().st_nlink)

    def test_it_counts(self) -> None:
        """The limit of an archive's bytes holds for what is kept too."""
        with open(self.old / "huge", "wb") as huge:
            huge.truncate((1 << 30) + 1)
        os.utime(self.old / "huge", (THEN, THEN))
        message = self.fails("too_large", self.worker.unpack, "old", kept(b"huge", (1 << 30) + 1, THEN) + END, replace=True)  # fmt: skip
        self.assertIn("huge", message)

    def test_another_file_system(self) -> None:
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(self.old / "a")]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
            raise SkipTest("mounts a file system, and may not")
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.old / "a")], check=True)
        self.write(self.old / "a/far", b"12345")
        self.fails("invalid_archive", self.worker.unpack, "old", kept(b"a/far", 5, THEN) + END, replace=True)
        self.assertEqual([], self.left())

    def test_a_full_disk(self) -> None:
        """F12: it is said to be full, as the archive is right; on a tmpfs each name counts."""
        small = self.top / "small"
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=40", "none", str(small)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
            raise SkipTest("mounts a file system, and may not")
        self.addCleanup(subprocess.run, ["umount", "-l", str(small)], check=True)
        names = [b"%d" % number for number in range(30)]
        for name in names:
            self.write(small / "old" / name.decode(), b"1")
        archive = b"".join(kept(name, 1, THEN) for name in names) + END
        self.assertIn("disk is full", self.fails("unavailable", self.worker.unpack, "small/old", archive, replace=True))
        self.assertEqual(["old"], os.listdir(small))
        self.assertEqual({1}, {path.stat().st_nlink for path in (small / "old").iterdir()})

    def test_flipped_meanwhile(self) -> None:
        """F2: a folder that is swapped for a link to one outside, as fast as can be: what is kept is never what is outside."""
        self.write(self.outside / "same", b"outer!")
        (self.old / "link").symlink_to(self.outside)
        ended = threading.Event()
        top = os.open(self.old, os.O_RDONLY)
        self.addCleanup(os.close, top)

        def flip() -> None:
            while not ended.is_set():
                kernel.rename(b"a", b"link", top, kernel.EXCHANGE)

        flipping = threading.Thread(target=flip)
        flipping.start()
        inside: set[str] = set()
        outside: set[str] = set()
        tries = 0
        end = time.monotonic() + LIMIT
        try:
            while len(inside) < 2 or tries < 300:  # until it was met both ways
                tries += 1
                self.assertLess(time.monotonic(), end, inside)
                for found, size in ((inside, 5), (outside, 6)):
                    # refused at the second entry in any case, so that the old folder stays
                    archive = kept(b"a/same", size, THEN) + header(b"bad", b"4") + END
                    found.add(self.fails("invalid_archive", self.worker.unpack, "old", archive, replace=True))
        finally:
            ended.set()
            flipping.join()
        self.assertEqual([NOT_THERE], [message.partition("` ")[2].rstrip(".") for message in outside])
        self.assertEqual([], self.left())


class NobodysTests(NobodyCase):
    def test_a_file_of_somebody_else(self) -> None:
        """F6: what lands is the user's own, also where the kernel lets him link what is not."""
        old = self.top / "old"
        old.mkdir()
        (old / "f").write_bytes(b"12345")
        (old / "f").chmod(0o666)
        os.utime(old / "f", (THEN, THEN))
        os.chown(old, NOBODY, NOBODY)
        archive = kept(b"f", 5, THEN) + END
        self.assertIn(NOT_THERE, self.fails("invalid_archive", self.worker.unpack, "old", archive, replace=True))
        self.assertEqual(({"old": "/", "old/f": b"12345"}, 1), (self.tree(self.top), (old / "f").stat().st_nlink))
        os.chown(old / "f", NOBODY, NOBODY)
        self.assertTrue(self.worker.unpack("old", archive, replace=True)["replaced"])
