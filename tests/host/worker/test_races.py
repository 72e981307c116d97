"""F2, F9: a process of the same user swaps files and folders for links, as fast as it can, while the worker is at work.

Each test takes a second; `COMPUTERD_RACES` says how many instead.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import computerd
from computerd.host.worker import frames
from tests.host.worker.case import WorkerCase, until
from tests.host.worker.program import Failed
from tests.host.worker.tars import END, file

_SECONDS = float(os.environ.get("COMPUTERD_RACES", "1"))
_CANARY = b"the canary of another user"
_FLIPPER = """
import os, sys
from computerd.host.worker import kernel
top = os.open(sys.argv[1], os.O_RDONLY)
print("go", flush=True)
while True:
    kernel.rename(sys.argv[2].encode(), sys.argv[3].encode(), top, kernel.EXCHANGE)
"""


class RaceTests(WorkerCase):
    walk = False

    def setUp(self) -> None:
        super().setUp()
        self.worker = self.begin(walk=self.walk)
        (self.outside / "secret").write_bytes(_CANARY)
        (self.outside / "f").write_bytes(_CANARY)
        (self.top / "d").mkdir()
        (self.top / "d/f").write_bytes(b"mine")
        (self.top / "f").write_bytes(b"mine")
        (self.top / "file-link").symlink_to("../outside/secret")
        (self.top / "folder-link").symlink_to("../outside")
        self.outside_before = self.tree(self.outside)
        for one, other in (("f", "file-link"), ("d", "folder-link")):
            self.flip(one, other)

    def flip(self, one: str, other: str) -> None:
        """Swaps two names from now on."""
        top = str(Path(computerd.__file__).parent.parent)
        child = subprocess.Popen(
            [sys.executable, "-c", _FLIPPER, self.top, one, other],
            env={**os.environ, "PYTHONPATH": top},
            stdout=subprocess.PIPE,
        )
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        assert child.stdout is not None
        self.addCleanup(child.stdout.close)
        self.assertEqual(b"go\n", child.stdout.readline())

    def race(self, attempt: Callable[[], None]) -> None:
        """Tries it again and again, both with what is there and with a link in its place; it may fail, but by itself."""
        end = time.monotonic() + _SECONDS
        done = failed = 0
        while time.monotonic() < end or not (done and failed):
            try:
                attempt()
                done += 1
            except Failed as error:
                self.assertIn(error.code, ("invalid_path", "unavailable", "path_not_found"), error.message)
                failed += 1
            self.assertLess(time.monotonic(), end + 30, f"done {done} times, failed {failed} times")
        self.assertEqual(self.outside_before, self.tree(self.outside))
        self.assertEqual([], self.left())

    def test_read(self) -> None:
        self.race(lambda: self.assertEqual(b"mine", self.worker.read("f")))
        self.race(lambda: self.assertEqual(b"mine", self.worker.read("d/f")))

    def test_list(self) -> None:
        self.race(lambda: self.assertEqual(["d/f"], self.worker.names("d")))

    def test_list_from_above(self) -> None:
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            found = [name for name in self.worker.names(depth=10) if "/" in name]
            self.assertLessEqual({*found}, {"d/f", "folder-link/f"})

    def test_pack(self) -> None:
        self.race(lambda: self.assertNotIn(_CANARY, self.worker.pack("d")))
        self.race(lambda: self.assertNotIn(_CANARY, self.worker.pack("f")))

    def test_pack_from_above(self) -> None:
        """F9: the archive is whole, and links in it are links."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(Failed):  # trial takes a name `suppress` of a module for its own
                archive = self.worker.pack()
                self.assertNotIn(_CANARY, archive)
                with tarfile.open(fileobj=io.BytesIO(archive)) as found:
                    self.assertNotIn("secret", {os.path.basename(name) for name in found.getnames()})

    def test_unpack(self) -> None:
        self.race(lambda: self.unpack("d/new"))

    def unpack(self, path: str) -> None:
        self.worker.unpack(path, file(b"f", b"new") + file(b"g/h", b"new") + END, replace=True)

    def test_unpack_in_its_place(self) -> None:
        """What is replaced is now this, now that."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            self.unpack("d")
        self.assertEqual(self.outside_before, self.tree(self.outside))
        self.assertEqual([], self.left())

    def test_inside_of_what_is_unpacked(self) -> None:
        """The folder that an archive is unpacked in is the user's too: whatever is swapped in there, nothing is written outside."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            number = self.worker.begin("unpack", path="new", replace=True, coding="identity")
            self.worker.answer(number)
            self.worker.send(number, frames.DATA, file(b"a/f", b"new"))
            until(lambda: bool(list(self.top.glob(".computerd-*/a/f"))), "it is unpacked")
            (place,) = self.top.glob(".computerd-*")
            (place / "a").rename(place / "b")
            (place / "a").symlink_to(self.outside)
            self.worker.send(
                number, frames.DATA, file(b"b/g", b"new") + file(b"a/secret", b"evil") + file(b"a/evil", b"evil")
            )
            self.worker.send(number, frames.END)
            with self.assertRaises(Failed):
                self.worker.answer(number)
            self.assertEqual(self.outside_before, self.tree(self.outside))


class WalkRaceTests(RaceTests):
    """Where the kernel has no openat2."""

    walk = True
