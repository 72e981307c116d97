"""The worker's life: its start, its requests side by side, its end."""

from __future__ import annotations

import io
import os
import signal
import sys
import tarfile
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from computerd.host.worker import boot, frames, serving
from tests.host.worker.case import SYSTEM_PYTHON, NobodyCase, WorkerCase, until
from tests.host.worker.program import LIMIT, Failed
from tests.host.worker.tars import END, file, header


class BootTests(SynchronousTestCase):
    def test_it_goes_into_a_shell(self) -> None:
        self.assertNotIn("'", boot.BOOT)
        self.assertLess(len(boot.BOOT), 500)

    def test_what_is_sent(self) -> None:
        self.assertLess(len(boot.first_frame()), frames.MAX_BOOT)
        self.assertIn("computerd.host.worker.serving", boot.sources())
        self.assertNotIn("computerd.host.worker.boot", boot.sources())

    def test_too_large(self) -> None:
        self.patch(frames, "MAX_BOOT", 1000)
        with self.assertRaises(ValueError):
            boot.first_frame()

    def test_only_the_standard_library(self) -> None:
        """The program runs where nothing of computerd is installed."""
        for name, source in boot.sources().items():
            for line in source.splitlines():
                if line.startswith(("import ", "from ")) and not line.startswith(
                    ("from computerd.host.worker", "from __future__")
                ):
                    self.assertIn(line.split()[1].partition(".")[0], sys.stdlib_module_names, name)


class ServingTests(WorkerCase):
    def test_side_by_side(self) -> None:
        """One that waits keeps no other waiting, and the answers don't mix."""
        (self.top / "f").write_bytes(b"x" * 1_000_000)
        waiting = [self.worker.begin("open", path="f") for _ in range(15)]
        for number in waiting:
            self.worker.answer(number)
        self.assertEqual(["f"], self.worker.names())
        for at, number in enumerate(waiting):
            self.worker.call(number, start=at, length=700_000)
        self.assertEqual([700_000] * 15, [sum(map(len, self.worker.stream(number))) for number in waiting])

    def test_window(self) -> None:
        """No more than the window comes before more is granted."""
        (self.top / "f").write_bytes(b"x" * 1_000_000)
        number = self.worker.begin("open", path="f")
        self.worker.answer(number)
        self.worker.call(number, start=0, length=1_000_000)
        got = 0
        while got < frames.WINDOW:
            got += len(self.worker.frame(number)[1])
        self.assertEqual(frames.WINDOW, got)
        self.worker.names()  # whatever came before this answer has come
        self.assertFalse(self.worker._frames.get(number))
        self.worker.send(number, frames.MORE, (100).to_bytes(4, "big"))
        self.assertEqual((frames.DATA, b"x" * 100), self.worker.frame(number))
        self.worker.send(number, frames.CANCEL)
        self.fails("unavailable", self.worker.answer, number)

    def test_window_of_an_upload(self) -> None:
        """The worker grants what it has dealt with, so that the next piece may always come."""
        data = b"x" * 2_000_000
        self.worker.unpack("new", file(b"f", data) + END, piece=1000)
        self.assertEqual(data, (self.top / "new/f").read_bytes())

    def test_cancelled(self) -> None:
        (self.top / "f").write_bytes(b"x")
        number = self.worker.begin("open", path="f")
        self.worker.answer(number)
        self.worker.send(number, frames.CANCEL)
        self.assertIn("stopped", self.fails("unavailable", self.worker.answer, number))
        self.worker.send(number, frames.CANCEL)  # late, and harmless
        self.worker.send(number, frames.DATA, b"late")
        self.worker.send(99, frames.END)
        self.assertEqual(["f"], self.worker.names())

    def test_too_many(self) -> None:
        (self.top / "f").write_bytes(b"x")
        numbers = [self.worker.begin("open", path="f") for _ in range(serving.MAX_REQUESTS)]
        for number in numbers:
            self.worker.answer(number)
        self.assertIn("requests", self.fails("unavailable", self.worker.names))

    def test_what_it_is_not_asked_for(self) -> None:
        for verb, params in (("none", {}), ("list", {"path": 5}), ("list", {"path": "", "depth": 0}), ("open", {})):
            number = self.worker._next
            self.assertIn(
                "worker failed", self.fails("unavailable", self.worker.ask, verb, **params), f"{verb} {number}"
            )
        self.assertIn("KeyError", self.worker.close())


class EndTests(WorkerCase):
    def uploading(self) -> None:
        """Begins an upload, which has a folder by now."""
        number = self.worker.begin("unpack", path="new", replace=False, coding="identity")
        self.worker.answer(number)
        self.worker.send(number, frames.DATA, file(b"d/f", b"content") + header(b"g", size=100_000))
        until(lambda: bool(list(self.top.glob(".computerd-*/g"))), "it is unpacked")

    def test_with_its_socket(self) -> None:
        """The daemon is gone: what was begun is cleared away."""
        self.uploading()
        self.assertEqual("", self.worker.close())
        self.assertEqual(0, self.worker.child.returncode)
        self.assertEqual([], os.listdir(self.top))

    def test_by_a_signal(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.uploading()
            self.worker.kill(number)
            self.assertEqual(0, self.worker.child.returncode)
            self.assertEqual([], os.listdir(self.top))
            self.worker = self.begin()

    def test_killed(self) -> None:
        """Its folder stays, unseen, until it is a minute old and another upload comes."""
        self.uploading()
        self.worker.kill()
        self.worker = self.begin()
        self.worker.unpack("second", file(b"f") + END)
        self.assertEqual(1, len(self.left()))
        self.assertEqual(["second"], self.worker.names())

    def test_a_frame_that_cant_be(self) -> None:
        self.worker._socket.sendall(b"\xff" * 20)
        self.worker.child.wait(LIMIT)
        self.assertIn("Malformed", self.worker.close())


class SystemTests(NobodyCase):
    """On the Python of the system, as a user who can't read this one."""

    def test_all_of_it(self) -> None:
        archive = file(b"d/f", b"content") + END
        self.worker.unpack("new", archive)
        self.assertEqual(["new", "new/d", "new/d/f"], self.worker.names(depth=3))
        self.assertEqual(b"content", self.worker.read("new/d/f"))
        self.worker.unpack("again", self.worker.pack("new"))
        self.assertEqual(self.tree(self.top / "new"), self.tree(self.top / "again"))
        self.assertEqual({65534}, {path.stat().st_uid for path in self.top.rglob("*")})

    def test_what_the_user_may_not(self) -> None:
        closed = self.top / "closed"
        closed.mkdir(mode=0o755)
        (closed / "secret").touch(0o600)
        self.assertIn("may not read", self.fails("invalid_path", self.worker.read, "closed/secret"))
        self.assertIn("may not write", self.fails("invalid_path", self.worker.unpack, "closed/new", END))
        self.worker.pack()
        self.assertEqual({"entries": 1, "bytes": 0, "skipped": 0, "unreadable": 1}, self.worker.last)

    def test_what_an_archive_lacks_is_counted(self) -> None:
        """What the user may not read, apart from what no archive holds; a folder that is closed comes empty."""
        for name in ("file", "folder", "names"):
            (self.top / name).mkdir()
            (self.top / name / "inside").write_bytes(b"inside")
        os.chmod(self.top / "file/inside", 0)
        os.chmod(self.top / "folder", 0)
        os.chmod(self.top / "names", 0o744)
        os.mkfifo(self.top / "pipe", 0o600)
        for path in ("file", "file/inside", "folder"):
            os.chown(self.top / path, 65534, 65534)
        with tarfile.open(fileobj=io.BytesIO(self.worker.pack())) as archive:
            self.assertEqual(["file", "folder", "names"], archive.getnames())
        self.assertEqual({"entries": 3, "bytes": 0, "skipped": 1, "unreadable": 3}, self.worker.last)
        os.chown(self.top / "names", 65534, 65534)
        self.worker.pack()
        self.assertEqual(2, self.worker.last["unreadable"])

    def test_start(self) -> None:
        """F13: within a tenth of a second, on a machine that has nothing else to do; and below 24 MiB."""
        began = time.monotonic()
        self.begin(python=SYSTEM_PYTHON, user=65534).names()
        self.assertLess(time.monotonic() - began, 3)
        status = Path(f"/proc/{self.worker.pid}/status").read_text()
        self.assertLess(int(status.partition("VmHWM:")[2].split()[0]), 24_000)
        self.assertNotIn(Failed.__name__, status)
