"""What the rights of a second user and of root are worth, also while names are swapped (F1 to F3, F9)."""

from __future__ import annotations

import http.client
import io
import os
import stat
import subprocess
import tarfile
import time
from typing import Any

from tests.endtoend import folders
from tests.endtoend.client import Reply
from tests.endtoend.files_case import CANARY, RACES, TwoUsersCase
from tests.endtoend.folders import Remote


class RightsTests(TwoUsersCase):
    """F2: the second user."""

    def test_nothing_of_another_user_is_reached(self) -> None:
        """F1, F3: by no route, through no link, for an admin neither; their own workspaces are closed to one another."""
        for name, target in (
            ("absolute", str(self.canary)), ("relative", f"../{self.bobs.session}/canary"), ("rooted", str(self.rooted / "canary")),
            ("folder", str(self.bobs.folder)), ("above", ".."), ("cwd", "/proc/self/cwd/../" + self.bobs.session),
        ):  # fmt: skip
            (self.top / name).symlink_to(target)
        admin = Remote(self.computer, self.session, "root", ("--admin",))
        for remote in (self.remote, admin):
            for path in (
                "absolute",
                "relative",
                "rooted",
                "folder/canary",
                f"above/{self.bobs.session}/canary",
                "cwd/canary",
            ):
                for route in ("file", "files", "archive"):
                    reply = remote.get(route, path)
                    self.assertNotIn(CANARY, reply.body)
                    self.assertTrue(route == "archive" or reply.status == 400, (route, path, reply.status))
            for path in ("folder/new", f"above/{self.bobs.session}/new", "folder"):
                self.assertEqual(remote.put(path, folders.of_files(evil=b"x")).status, 409 if path == "folder" else 400)
            self.assertNotIn(CANARY, remote.get("archive", "").body)
        self.assertEqual(self.remote.put("folder", folders.of_files(evil=b"x"), replace=True).status, 201)
        self.intact()
        self.assertEqual(stat.S_IMODE(self.bobs.folder.stat().st_mode), 0o700)
        reply = Remote(self.computer, self.session, "bob").get("file", "x")
        self.assertIn(reply.status, (403, 404))


FLIPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
top = os.open(sys.argv[1], os.O_RDONLY)
one, other = (word.encode() for word in sys.argv[2:4])
print("go", flush=True)
while True:
    libc.syscall(316, top, one, top, other, 2)
"""
"""renameat2(2) with RENAME_EXCHANGE: system call 316 of x86_64."""


class RaceTests(TwoUsersCase):
    """F2, F9: the agent's own process swaps a file or a folder for a link to what it must not reach, as fast as it can, against each route.

    COMPUTERD_RACES: seconds for each route.
    """

    def setUp(self) -> None:
        super().setUp()
        if os.uname().machine != "x86_64":
            self.skipTest("needs x86_64, whose number of renameat2 it knows")
        self.write("f", b"mine")
        self.write("d/f", b"mine")
        targets = (("rooted", self.rooted), ("bob", self.bobs.folder))
        for name, target in targets:
            (self.top / f"file-{name}").symlink_to(target / "canary")
            (self.top / f"folder-{name}").symlink_to(target)
        self.give(self.top)
        for one, other in (("f", "file-rooted"), ("f", "file-bob"), ("d", "folder-rooted"), ("d", "folder-bob")):
            self.flip(one, other)
        self.outcomes: dict[int, int] = {}

    def flip(self, one: str, other: str) -> None:
        """Swaps them from now on."""
        assert self.agent is not None
        child = subprocess.Popen(
            ["setpriv", f"--reuid={self.agent.uid}", f"--regid={self.agent.uid}", "--clear-groups", "nice", "-n", "5",
             "/usr/bin/python3", "-I", "-c", FLIPPER, str(self.top), one, other],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert child.stdout is not None
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertEqual(child.stdout.readline(), b"go\n")

    def race(self, attempt: Any) -> None:
        """Tries again and again: it is answered, with no canary in it, now with success and now without."""
        limit = time.monotonic() + RACES
        hits = 0
        while time.monotonic() < limit or (len(self.outcomes) < 2 and time.monotonic() < limit + 30):
            reply: Reply = attempt()
            self.outcomes[reply.status] = self.outcomes.get(reply.status, 0) + 1
            hits += CANARY in reply.body
        self.intact()
        self.assertEqual(hits, 0)
        self.assertLessEqual(set(self.outcomes), {200, 201, 400, 404, 409, 503}, self.outcomes)
        self.assertGreater(len(self.outcomes), 1, self.outcomes)
        print(
            f"{self.id().rpartition('.')[2]}: {sum(self.outcomes.values())} attempts, {self.outcomes}, 0 leaks, 0 writes"
        )

    def test_read(self) -> None:
        """F2: `GET …/file`."""
        paths = ["f", "d/f", "d/canary"]
        self.race(lambda: self.remote.get("file", self.turn(paths)))

    def test_list(self) -> None:
        """F2: `GET …/files`: no name of another folder either."""

        def attempt() -> Reply:
            reply = self.remote.get("files", self.turn(["d", "f", "d"]), depth=5)
            self.assertNotIn(b"canary", reply.body)
            return reply

        self.race(attempt)

    def test_download(self) -> None:
        """F2, F9: `GET …/archive`: an archive that is whole, or one that is seen to be cut."""

        def attempt() -> Reply:
            path = self.turn(["d", "f", ""])
            try:
                reply = self.remote.get("archive", path, Accept_Encoding="identity")
            except (http.client.HTTPException, OSError):
                return Reply(503, {}, b"")
            if reply.status == 200:
                with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
                    names = tar.getnames()
                self.assertFalse([name for name in names if os.path.basename(name) == "canary"], names)
            return reply

        self.race(attempt)

    def test_upload(self) -> None:
        """F2: `PUT …/archive`: into a folder that is now a link, and in place of one."""
        archive = folders.of_files(f=b"new", canary=b"evil")
        count = iter(range(10**9))

        def attempt() -> Reply:
            number = next(count)
            if number % 3 == 2:
                return self.remote.put("d", archive)
            return self.remote.put("d/new", archive, replace=True)

        self.race(attempt)

    def turn(self, paths: list[str]) -> str:
        """The next of them."""
        paths.append(paths.pop(0))
        return paths[-1]
