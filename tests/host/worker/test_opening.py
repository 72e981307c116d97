"""Reading files."""

from __future__ import annotations

import os
import socket
import time

from tests.host.worker.case import WorkerCase
from tests.host.worker.program import Failed


class OpeningTests(WorkerCase):
    def opened(self, path: str) -> tuple[int, int]:
        """The number of a request whose file is open, and its size."""
        number = self.worker.begin("open", path=path)
        return number, self.worker.answer(number)["size"]

    def test_what_is_said(self) -> None:
        (self.top / "d").mkdir()
        (self.top / "d/f").write_bytes(b"0123456789")
        os.utime(self.top / "d/f", ns=(0, 1_500_000_000_000_000_001))
        answer = self.worker.ask("open", path="d/f")
        found = (self.top / "d/f").stat()
        times = {"mtime_ns": 1_500_000_000_000_000_001, "ctime_ns": found.st_ctime_ns}
        self.assertEqual({"name": "f", "size": 10, "inode": found.st_ino, "stream": True, **times}, answer)

    def test_parts(self) -> None:
        data = os.urandom(700_001)
        (self.top / "f").write_bytes(data)
        (self.top / "empty").touch()
        self.assertEqual(data, self.worker.read("f"))
        self.assertEqual(b"", self.worker.read("empty"))
        for start, length in ((0, 0), (0, 1), (700_000, 1), (700_001, 0), (65_000, 600_000)):
            self.assertEqual(data[start : start + length], self.worker.read("f", start, length))

    def test_links(self) -> None:
        (self.top / "f").write_bytes(b"f")
        (self.top / "in").symlink_to("f")
        (self.top / "out").symlink_to("../outside/secret")
        self.assertEqual(b"f", self.worker.read("in"))
        self.assertIn("out of the workspace", self.fails("invalid_path", self.worker.read, "out"))
        self.fails("invalid_path", self.worker.read, "../outside/secret")

    def test_only_files(self) -> None:
        """F4: each is refused within a second, and says what it is."""
        (self.top / "d").mkdir()
        os.mkfifo(self.top / "pipe")
        (self.top / "zero").symlink_to("/dev/zero")
        words = {
            "d": "a folder",
            "pipe": "a FIFO",
            "": "a folder",
            "zero": "out of the workspace",
            "socket": "a socket",
        }
        with socket.socket(socket.AF_UNIX) as listening:
            here = os.open(self.top, os.O_RDONLY)
            listening.bind(f"/proc/self/fd/{here}/socket")
            os.close(here)
        if os.geteuid() == 0:
            os.mknod(self.top / "null", 0o20666, os.makedev(1, 3))
            words["null"] = "a device"
        for path, said in words.items():
            began = time.monotonic()
            self.assertIn(said, self.fails("invalid_path", self.worker.read, path))
            self.assertLess(time.monotonic() - began, 1)
        self.fails("path_not_found", self.worker.read, "nothing")

    def test_size(self) -> None:
        """F4: 100 MiB and no more; 8 TiB of holes are refused at once."""
        for size in (100 << 20, (100 << 20) + 1, 8 << 40):
            with open(self.top / "f", "wb") as file:
                file.truncate(size)
            if size == 100 << 20:
                self.assertEqual(size, self.worker.ask("open", path="f")["size"])
            else:
                self.fails("too_large", self.worker.ask, "open", path="f")

    def test_a_file_that_grows(self) -> None:
        """F4: what was promised comes, and no more."""
        (self.top / "f").write_bytes(b"x" * 1000)
        number, size = self.opened("f")
        with open(self.top / "f", "ab") as file:
            file.write(b"y" * 1000)
        self.worker.call(number, start=0, length=size)
        self.assertEqual(b"x" * 1000, b"".join(self.worker.stream(number)))

    def test_a_file_that_shrinks(self) -> None:
        """Its stream fails."""
        (self.top / "f").write_bytes(b"x" * 1000)
        number, size = self.opened("f")
        os.truncate(self.top / "f", 500)
        self.worker.call(number, start=0, length=size)
        stream = self.worker.stream(number)
        self.assertEqual(b"x" * 500, next(stream))
        with self.assertRaises(Failed) as caught:
            next(stream)
        self.assertEqual("unavailable", caught.exception.code)

    def test_a_file_that_is_replaced(self) -> None:
        """It stays the file that was opened."""
        (self.top / "f").write_bytes(b"old")
        number, size = self.opened("f")
        (self.top / "new").write_bytes(b"new")
        (self.top / "new").rename(self.top / "f")
        self.worker.call(number, start=0, length=size)
        self.assertEqual(b"old", b"".join(self.worker.stream(number)))
