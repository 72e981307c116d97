"""Archives that the worker makes, as Python's tarfile and the system's tar read them."""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import os
import signal
import subprocess
import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from computerd.host.worker import coding, packing
from computerd.host.worker.descent import Descent
from computerd.host.worker.failures import Refused
from tests.host.worker.case import WorkerCase, until
from tests.host.worker.program import Failed, tool

LONG = "l" * 120 + "/" + "n" * 200


class Sent:
    """A request that takes data."""

    def check(self) -> None: ...

    def write(self, data: bytes) -> None: ...


class PackingTests(WorkerCase):
    def members(self, path: str = "") -> dict[str, tarfile.TarInfo]:
        """What tarfile finds in an archive of a folder."""
        with tarfile.open(fileobj=io.BytesIO(self.worker.pack(path))) as archive:
            return {member.name: member for member in archive}

    def fill(self) -> None:
        """One of everything."""
        for path, data in (
            ("d/f", b"content"),
            ("a-b", b""),
            (LONG, b"long"),
            ("\u00fc/\u00e9", b"u"),
            ("big", os.urandom(300_001)),
        ):
            (self.top / path).parent.mkdir(exist_ok=True, parents=True)
            (self.top / path).write_bytes(data)
        os.mkdir(os.fsencode(self.top) + b"/\xff%")
        (self.top / "l").symlink_to("d/f")
        (self.top / "ll").symlink_to(LONG)
        os.symlink(b"\xfe", os.fsencode(self.top) + b"/raw")
        os.link(self.top / "d/f", self.top / "d/same")
        os.chmod(self.top / "d/f", 0o6751)
        os.chmod(self.top / "d", 0o1711)
        os.utime(self.top / "d/f", ns=(0, 1_234_567_890_000_000_001))
        os.utime(self.top / "a-b", ns=(0, -1_500_000_000))
        os.utime(self.top / "d", ns=(0, 2_000_000_000_000_000_000))

    def test_as_tarfile_reads_it(self) -> None:
        self.fill()
        os.mkfifo(self.top / "pipe")
        found = self.members()
        wanted = [os.fsdecode(os.fsencode(path)) for path in self.tree(self.top)]
        self.assertEqual(sorted({*wanted} - {"pipe"}), sorted(found))
        self.assertEqual(
            (0o751, 0, "", 7), (found["d/f"].mode, found["d/f"].uid, found["d/f"].uname, found["d/f"].size)
        )
        self.assertEqual("1234567890.000000001", found["d/f"].pax_headers["mtime"])
        self.assertEqual("-1.5", found["a-b"].pax_headers["mtime"])
        self.assertEqual(({}, 2_000_000_000, 0o711), (found["d"].pax_headers, found["d"].mtime, found["d"].mode))
        self.assertTrue(found["d/same"].islnk())
        self.assertEqual("d/f", found["d/same"].linkname)
        self.assertEqual((True, LONG), (found["ll"].issym(), found["ll"].linkname))

    def test_as_tar_unpacks_it(self) -> None:
        """What comes out is what went in, by names, contents, links, modes and times."""
        self.fill()
        subprocess.run(
            [tool("tar"), "-xpf", "-", "-C", self.outside],
            input=self.worker.pack(),
            check=True,
            stderr=subprocess.DEVNULL,
        )
        (self.outside / "secret").unlink()
        self.assertEqual(self.tree(self.top), self.tree(self.outside))
        for path in self.top.rglob("*"):
            one, other = path.lstat(), (self.outside / path.relative_to(self.top)).lstat()
            self.assertEqual((one.st_mode & ~0o7000, one.st_nlink), (other.st_mode, other.st_nlink), path)
            self.assertEqual(one.st_mtime_ns, other.st_mtime_ns, path)

    def test_of_a_folder_and_of_a_file(self) -> None:
        self.fill()
        number = self.worker.begin("pack", path="d", coding="identity")
        self.assertEqual({"name": "d", "folder": True, "stream": True}, self.worker.answer(number))
        list(self.worker.stream(number))
        self.assertEqual({"entries": 2, "bytes": 7, "skipped": 0, "unreadable": 0}, self.worker.last)
        self.assertEqual(["f", "same"], list(self.members("d")))
        number = self.worker.begin("pack", path="l", coding="identity")
        self.assertEqual({"name": "l", "folder": False, "stream": True}, self.worker.answer(number))
        list(self.worker.stream(number))
        self.assertEqual(["f"], list(self.members("d/f")))
        self.assertEqual(["n" * 200], list(self.members(LONG)))
        self.assertEqual({}, self.members("%FF%25"))

    def test_failures(self) -> None:
        os.mkfifo(self.top / "pipe")
        (self.top / "out").symlink_to(self.outside)
        for path in ("pipe", "out", "..", "/"):
            self.fails("invalid_path", self.worker.pack, path)
        self.fails("path_not_found", self.worker.pack, "nothing")

    def test_links_are_never_followed(self) -> None:
        (self.top / "out").symlink_to(self.outside)
        (self.top / "loop").symlink_to(".")
        found = self.members()
        self.assertEqual([True, True], [found[name].issym() for name in ("loop", "out")])
        self.assertEqual(2, len(found))

    def test_sparse(self) -> None:
        """Only its data is sent, and tar makes the holes again."""
        with open(self.top / "holes", "wb") as file:
            for place in (1 << 20, 50 << 20):
                file.seek(place)
                file.write(b"data")
            file.truncate(100 << 20)
        with open(self.top / "hole", "wb") as file:
            file.truncate(10 << 20)
        archive = self.worker.pack()
        self.assertLess(len(archive), 200_000)
        subprocess.run([tool("tar"), "-xf", "-", "-C", self.outside], input=archive, check=True)
        subprocess.run([tool("cmp"), self.top / "holes", self.outside / "holes"], check=True)
        self.assertEqual(10 << 20, (self.outside / "hole").stat().st_size)
        self.assertLess((self.outside / "holes").stat().st_blocks * 512, 1 << 20)
        with tarfile.open(fileobj=io.BytesIO(archive)) as read:
            self.assertEqual(100 << 20, read.getmember("holes").size)

    def test_limits(self) -> None:
        """F4: 1 GiB with its holes; of one file it can be told before."""
        with open(self.top / "f", "wb") as file:
            file.truncate((1 << 30) + 1)
        self.assertIn(str(1 << 30), self.fails("too_large", self.worker.ask, "pack", path="f", coding="identity"))
        os.truncate(self.top / "f", 1 << 30)
        self.worker.pack()
        (self.top / "g").write_bytes(b"x")
        self.assertIn("`g`", self.fails("too_large", self.worker.pack))

    def test_a_file_that_shrinks_ends_the_archive(self) -> None:
        """F9: what was sent is no whole archive, and that is said."""
        (self.top / "f").write_bytes(b"x" * 2_000_000)
        number = self.worker.begin("pack", path="", coding="identity")
        self.worker.answer(number)
        until(lambda: self.worker.frame(number)[0] == b"D", "it has begun")
        os.truncate(self.top / "f", 1000)
        self.worker.send(number, b"W", (1 << 22).to_bytes(4, "big"))
        with self.assertRaises(Failed) as caught:
            list(self.worker.stream(number))
        self.assertIn("`f` became shorter", caught.exception.message)

    def test_a_file_that_fails_ends_the_archive(self) -> None:
        """F9: whatever the system says once its header was written, be it what is passed over before."""
        (self.top / "a").write_bytes(bytes(600_000))
        (self.top / "b").write_bytes(b"b")
        read = os.preadv
        for number in (errno.EIO, errno.EACCES, errno.ENOENT, errno.ENXIO, errno.ELOOP):
            calls: list[int] = []

            def fails(*args: Any, number: int = number, calls: list[int] = calls) -> int:
                calls.append(1)
                if len(calls) == 2:
                    raise OSError(number, "")
                return read(*args)

            self.patch(os, "preadv", fails)
            request = Sent()
            packer = packing.Packer(request, coding.Plain())  # type: ignore[arg-type]
            error = self.assertRaises(Refused, packer.folder, Descent(os.open(self.top, os.O_RDONLY)))
            self.assertEqual("unavailable", error.code)

    def test_a_lease(self) -> None:
        """Who holds one on a file may keep others waiting: it is left out, and the rest comes."""
        (self.top / "a").write_bytes(b"a")
        (self.top / "b").write_bytes(b"b")
        with open(self.top / "a", "r+b") as held:
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            self.addCleanup(signal.signal, signal.SIGIO, signal.SIG_DFL)
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            self.assertEqual(["b"], list(self.members()))

    def test_deep(self) -> None:
        here = os.open(self.top, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("f", os.O_CREAT, dir_fd=here))
        os.close(here)
        self.worker.unpack("copy", self.worker.pack("d"))
        archive = self.worker.pack("copy")
        self.assertIn(b"d/" * 1499 + b"f", archive)

    def test_gzip(self) -> None:
        self.fill()
        plain, packed = self.worker.pack(), self.worker.pack(coding="gzip")
        self.assertEqual(plain, gzip.decompress(packed))

    def test_zstd(self) -> None:
        """Where there is one; otherwise it is refused, and so is an upload."""
        self.fill()
        try:
            coding.encoder("zstd")
        except Refused:
            self.assertIn("no zstd", self.fails("unavailable", self.worker.pack, coding="zstd"))
            self.assertIn("no zstd", self.fails("unavailable", self.worker.unpack, "new", b"", coding="zstd"))
            return
        spec = find_spec("zstandard")
        assert spec is not None
        assert spec.origin is not None
        worker = self.begin(paths=(str(Path(spec.origin).parent.parent),))
        packed = worker.pack("d", coding="zstd")
        self.assertLess(len(packed), 500)
        worker.unpack("new", packed, coding="zstd")
        self.assertEqual(b"content", (self.top / "new/f").read_bytes())
        self.fails("invalid_archive", worker.unpack, "bad", b"nothing", coding="zstd")
        for size in (1, 4, 5, 20, len(packed) - 5):  # the last four bytes are a checksum, or the end of the last block
            self.fails("invalid_archive", worker.unpack, "bad", packed[:-size], coding="zstd")
        worker.unpack("twice", packed + b"\x50\x2a\x4d\x18\3\0\0\0abc", coding="zstd")
        self.fails("invalid_archive", worker.unpack, "bad", packed + b"\x50\x2a\x4d\x18\3\0\0\0ab", coding="zstd")
