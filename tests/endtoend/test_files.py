"""The files of a workspace with a whole daemon: both addresses, `opc`, strangers, deaths, and who swaps files for links (F1 to F13, I9, I10)."""

from __future__ import annotations

import atexit
import contextlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import stat
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from tests.endtoend import folders, tracing
from tests.endtoend.case import ComputerCase
from tests.endtoend.client import WAIT, Client, Reply, Shell
from tests.endtoend.client import http as ask
from tests.endtoend.computer import Account, Computer, alive, eventually
from tests.endtoend.folders import Remote, tree
from tests.endtoend.test_flow import echo_times
from tests.endtoend.test_life import LifeCase
from tests.endtoend.test_opc import opc

SOON = 10.0 if tracing.VARIABLE in os.environ else 1.0
"""Seconds within which whatever a path names is answered (F4); each call costs more when it is traced."""
RACES = float(os.environ.get("COMPUTERD_RACES", "2"))
MANY = 2_000 if tracing.VARIABLE in os.environ else 100_000
"""Entries: as many as an archive may have. More of them are the same calls again."""
BIG = int(os.environ.get("COMPUTERD_BIG", str(256 << 20)))
"""Bytes of the file that is pulled while somebody types."""
CANARY = b"the canary of somebody else"


def workers(remote: Remote) -> list[int]:
    """The processes that work on a session's files."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not process.name.isdigit() or b"\0-I\0-S\0-E\0-c\0" not in (process / "cmdline").read_bytes():
                continue
            if os.readlink(process / "cwd") == str(remote.folder) and alive(int(process.name)):
                found.append(int(process.name))
    return found


def staged(top: Path) -> list[str]:
    """What is on its way anywhere in a folder, or was left there."""
    return [name for _, names, files in os.walk(top) for name in names + files if name.startswith(".computerd-")]


class FilesCase(ComputerCase):
    """Has a workspace. Its daemon is its own: workers outlive a test, and others want to see that nothing is left."""

    own = True
    timeout = 300

    def setUp(self) -> None:
        super().setUp()
        self.remote = Remote(self.computer, self.session)
        self.assertEqual(self.remote.get("files").status, 200)  # the workspace is made
        self.top = self.remote.folder
        self.here = Path(tempfile.mkdtemp(prefix="computerd-test-"))
        self.addCleanup(subprocess.run, ["rm", "-rf", str(self.here)], check=True)

    def echo(self, client: Client) -> Shell:
        """A terminal that sends back what it gets."""
        shell = client.open(self.session, "stty raw -echo; echo go; cat")
        shell.expect(b"go")
        return shell

    def give(self, *paths: Path) -> None:
        """Gives what the test has made to the agent."""
        if self.agent is not None:
            for path in paths:
                subprocess.run(["chown", "-hR", f"{self.agent.name}:", str(path)], check=True)

    def write(self, name: str, data: bytes = b"") -> Path:
        """A file of the agent's."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.give(self.top / name.partition("/")[0])
        return path

    def opc(
        self, *words: str, given: bytes = b"", status: int = 0, wait: float = 120
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs it to its end."""
        command, environ = opc(self.computer, *words)
        done = subprocess.run(
            command, input=given, env=environ, capture_output=True, check=False, timeout=wait, cwd=self.here
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def refused(self, reply: Reply, status: int, code: str, *words: str) -> str:
        """Checks a refusal and returns what it says."""
        self.assertEqual((reply.status, reply.code), (status, code), reply.body)
        message: str = reply.json["error"]["message"]
        for word in words:
            self.assertIn(word, message)
        return message

    def pushed(self, session: str | None = None) -> list[dict[str, Any]]:
        """The events of uploads that landed."""
        return [event for event in self.computer.journal(session or self.session) if event["type"] == "files.pushed"]


class ListingTests(FilesCase):
    """`GET …/files`."""

    def test_both_addresses_say_the_same(self) -> None:
        self.write("d/e/f", b"12345")
        self.write("a.txt", b"hello")
        (self.top / "link").symlink_to("a.txt")
        other = Remote(self.computer, self.session, top="/files/{}")
        answers = [remote.get("files", depth=3).json for remote in (self.remote, other)]
        self.assertEqual(answers[0], answers[1])
        entries = {entry["path"]: entry for entry in answers[0]["entries"]}
        self.assertEqual(list(entries), ["a.txt", "d", "d/e", "d/e/f", "link"])
        found = entries["d/e/f"]
        self.assertEqual((found["name"], found["type"], found["size"], found["mode"]), ("f", "file", 5, "0644"))
        self.assertEqual((entries["d"]["type"], entries["link"]["type"]), ("directory", "symlink"))
        self.assertEqual((entries["link"]["target"], entries["d"].get("target")), ("a.txt", None))
        self.assertEqual(self.remote.names("d"), ["d/e"])

    def test_pages(self) -> None:
        """The cursor survives what comes and goes; nothing that stays is told twice or left out."""
        for number in range(250):
            (self.top / f"n{number:03}").touch()
        first = self.remote.get("files", limit=50).json
        (self.top / "n010").unlink()
        (self.top / "n200").unlink()
        (self.top / "n0495").touch()
        names = [entry["name"] for entry in first["entries"]]
        cursor = first["nextCursor"]
        while cursor is not None:
            page = self.remote.get("files", limit=100, cursor=cursor).json
            names += [entry["name"] for entry in page["entries"]]
            cursor = page["nextCursor"]
        self.assertEqual(sorted(set(names)), names)
        self.assertEqual(set(names), {f"n{number:03}" for number in range(250)} - {"n200"} | {"n0495"})
        self.refused(self.remote.get("files", cursor="nonsense"), 400, "invalid_cursor")
        for query in ({"depth": 0}, {"depth": 11}, {"limit": 0}, {"limit": 101}, {"depth": "x"}):
            self.assertEqual(self.remote.get("files", **query).status, 400, query)

    def test_names_that_are_not_utf8(self) -> None:
        """Spelled with percent signs, and found so."""
        for name, data in ((b"a-\xff", b"one"), (b"%41", b"two"), (b"A", b"three")):
            Path(os.fsdecode(os.fsencode(self.top) + b"/" + name)).write_bytes(data)
        entries = {entry["path"]: entry["encoded"] for entry in self.remote.entries()}
        self.assertEqual(entries, {"%41": False, "A": False, "a-%FF": True})
        for path, data in (("a-%FF", b"one"), ("%41", b"two"), ("A", b"three")):
            self.assertEqual(self.remote.get("file", path).body, data)

    def test_a_large_folder_stalls_nobody(self) -> None:
        """F8: a page of 100,000 entries costs the daemon what a page of 100 costs it, and comes soon; keys come back meanwhile."""
        used = []
        for folder, count in (("small", 100), ("large", MANY)):
            (self.top / folder).mkdir()
            here = os.open(self.top / folder, os.O_RDONLY)
            self.addCleanup(os.close, here)
            for number in range(count):
                os.close(os.open(f"{number:06}", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=here))
            page = self.remote.get("files", folder).json
            self.assertEqual([entry["name"] for entry in page["entries"]], [f"{number:06}" for number in range(100)])
            began = self.computer.cpu()
            for _ in range(50):
                self.remote.get("files", folder)
            used.append(self.computer.cpu() - began)
        self.assertLess(used[1], 2 * used[0] + 0.1, "of the daemon")
        page = self.remote.get("files", "large", cursor=page["nextCursor"]).json
        self.assertEqual(page["entries"][0]["name"], "000100")
        shell = self.echo(self.connect())
        names: list[str] = []
        listing = threading.Thread(target=lambda: names.extend(self.remote.names("large")))
        listing.start()
        slowest = 0.0
        while listing.is_alive():
            slowest = max(slowest, *echo_times(shell, 10))
            listing.join(0)
        self.assertEqual(names, [f"large/{number:06}" for number in range(MANY)])
        self.assertLess(slowest, SOON)


class ReadingTests(FilesCase):
    """`GET …/file`."""

    def test_the_bytes_and_what_is_said_of_them(self) -> None:
        data = bytes(range(256)) * 1000
        self.write("page.html", data)
        os.utime(self.top / "page.html", (1_600_000_000, 1_600_000_000))
        reply = self.remote.get("file", "page.html")
        self.assertEqual((reply.status, reply.body), (200, data))
        self.assertEqual(reply.headers["Content-Length"], str(len(data)))
        self.assertEqual(reply.headers["Last-Modified"], "Sun, 13 Sep 2020 12:26:40 GMT")
        self.assertEqual(reply.headers["Accept-Ranges"], "bytes")
        self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff")
        self.assertIn("sandbox", reply.headers["Content-Security-Policy"])
        self.assertTrue(reply.headers["Content-Disposition"].startswith("attachment"))
        tag = reply.headers["ETag"]
        again = self.remote.get("file", "page.html", If_None_Match=tag)
        self.assertEqual((again.status, again.body, again.headers["ETag"]), (304, b"", tag))
        head = self.remote.get("file", "page.html", method="HEAD")
        self.assertEqual((head.status, head.body, head.headers["Content-Length"]), (200, b"", str(len(data))))
        for asked, status, wanted in (
            ("bytes=0-9", 206, data[:10]),
            ("bytes=255990-", 206, data[255990:]),
            ("bytes=-7", 206, data[-7:]),
            ("bytes=256000-", 416, None),
            ("lines=1-2", 200, data),
        ):
            part = self.remote.get("file", "page.html", Range=asked)
            self.assertEqual(part.status, status, asked)
            if wanted is not None:
                self.assertEqual(part.body, wanted, asked)
            if status == 206:
                self.assertTrue(part.headers["Content-Range"].endswith("/256000"))
        self.write("page.html", b"changed")
        self.assertEqual(self.remote.get("file", "page.html", If_None_Match=tag).status, 200)
        self.assertEqual(self.remote.get("file", "page.html", Range="bytes=0-1", If_Range=tag).body, b"changed")

    def test_what_is_no_file_is_answered_at_once(self) -> None:
        """F3, F4: FIFO, socket, device, /proc, links that lead out, what can't be read: within a second, and it says which."""
        os.mkfifo(self.top / "fifo")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.top / "socket"))
        links = {
            "zero": "/dev/zero", "proc": "/proc/self/environ", "root": "/proc/1/root/etc/shadow", "tty": "/dev/tty",
            "shadow": "/etc/shadow", "up": "../../state", "loop": "loop", "self": "/proc/self/cwd/plain",
        }  # fmt: skip
        for name, target in links.items():
            (self.top / name).symlink_to(target)
        if os.geteuid() == 0:
            os.mknod(self.top / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        self.write("plain", b"plain")
        self.give(self.top)
        if self.agent is not None:
            self.write("roots").chmod(0o600)
            os.chown(self.top / "roots", 0, 0)
            self.refused(self.remote.get("file", "roots"), 400, "invalid_path")
            self.timed("device", "device")
        self.timed("fifo", "FIFO")
        self.timed("socket", "socket")
        for name in links:
            self.timed(name)
        for path in ("/etc/passwd", "..", "../x", "a/../b", "a//b", "./a", "a\0b", "x" * 5000, "a" * 300):
            self.timed(path)
        self.refused(self.remote.get("file", ""), 400, "invalid_request")
        self.refused(self.remote.get("file", "nothing"), 404, "path_not_found")
        self.refused(self.remote.get("file", "plain/x"), 404, "path_not_found")
        self.assertEqual(self.remote.get("file", "plain").body, b"plain")

    def timed(self, path: str, word: str = "") -> None:
        """Each route refuses it, soon."""
        for route in ("file", "files", "archive"):
            began = time.monotonic()
            reply = self.remote.get(route, path)
            self.assertLess(time.monotonic() - began, SOON, (route, path))
            if route == "archive" and reply.status == 200:  # a link is packed as a link
                with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
                    self.assertEqual([entry.type for entry in tar], [tarfile.SYMTYPE], path)
                continue
            self.assertIn((reply.status, reply.code), ((400, "invalid_path"), (404, "path_not_found")), (route, path))
            if route == "file" and word:
                self.assertIn(word, reply.json["error"]["message"])

    def test_large_and_growing_files(self) -> None:
        """F4: over 100 MiB is refused, however little of it is on the disk; a file that grows has the size that it had."""
        with open(self.top / "sparse", "wb") as sparse:
            sparse.truncate(8 << 40)
        with open(self.top / "hundred", "wb") as hundred:
            hundred.truncate(100 << 20)
        self.give(self.top)
        self.refused(self.remote.get("file", "sparse"), 413, "too_large")
        self.assertEqual(len(self.remote.get("file", "hundred").body), 100 << 20)
        growing = self.write("growing", b"x" * 1000)
        ended = threading.Event()

        def grow() -> None:
            with open(growing, "ab", 0) as file:
                while not ended.is_set():
                    file.write(b"y" * 1000)
                    ended.wait(0.001)

        writer = threading.Thread(target=grow)
        writer.start()
        try:
            for _ in range(20):
                reply = self.remote.get("file", "growing")
                self.assertEqual((reply.status, reply.headers["Content-Length"]), (200, str(len(reply.body))))
        finally:
            ended.set()
            writer.join()

    def test_who_may(self) -> None:
        """The owner and admins, with the scope; to others there is no such session."""
        self.write("f", b"mine")
        wrong = Remote(self.computer, "cs_0000000000000000")
        for remote in (wrong, Remote(self.computer, self.session, "bob")):
            for route in ("files", "file", "archive"):
                reply = remote.get(route, "f")
                self.assertIn((reply.status, reply.code), ((403, "forbidden"), (404, "session_not_found")))
            self.assertIn(remote.put("new", folders.of_files(f=b"x")).status, (403, 404))
        self.assertEqual(Remote(self.computer, self.session, "root", ("--admin",)).get("file", "f").body, b"mine")
        url = self.computer.base + self.remote.url("file", "f")
        self.assertEqual(ask(url).status, 401)
        self.assertEqual(ask(url, token=self.computer.token(scopes=("sessions:read",))).code, "forbidden")
        reading = self.computer.token(scopes=("sessions:read", "files:read"))
        self.assertEqual(ask(url, token=reading).body, b"mine")
        self.assertEqual(
            ask(self.computer.base + self.remote.url("archive", "n"), "PUT", token=reading).code, "forbidden"
        )
        self.assertFalse((self.top / "new").exists() or (self.top / "n").exists())


class ArchiveTests(FilesCase):
    """`GET` and `PUT …/archive`."""

    def test_a_round_trip(self) -> None:
        """F6: all that tar keeps is kept, as the agent's, without the set-id bits, whatever the coding; `files.pushed` has the numbers."""
        source = self.here / "source"
        folders.varied(source)
        subprocess.run(["tar", "--format=pax", "-S", "-cf", "a.tar", "-C", "source", "."], cwd=self.here, check=True)
        reply = self.remote.put("up", (self.here / "a.tar").read_bytes())
        self.assertEqual(reply.status, 201, reply.body)
        wanted = folders.without_set_id(tree(source))
        self.assertEqual(wanted, tree(self.top / "up"))
        self.assertLess(folders.allocated(self.top / "up/holes"), 1 << 20)
        files = [what for what in wanted.values() if what[0] != "folder"]
        (event,) = self.pushed()
        self.assertEqual(event["data"], {key: reply.json[key] for key in ("path", "files", "bytes", "replaced")})
        self.assertEqual((reply.json["files"], reply.json["seq"]), (len(files), event["seq"]))
        self.assertEqual(reply.json["bytes"], sum({what[5]: what[3] for what in files if what[0] == "file"}.values()))
        self.assertEqual((event["data"]["path"], event["data"]["replaced"]), ("up", False))
        if self.agent is not None:
            owners = {os.lstat(path).st_uid for path in (self.top / "up").rglob("*")}
            self.assertEqual(owners, {self.agent.uid})
        for coding in ("identity", "gzip", "zstd"):
            with self.subTest(coding):
                self.down(coding, wanted)

    def down(self, coding: str, wanted: folders.Tree) -> None:
        """Downloads it, as tar sees it."""
        reply = self.remote.get("archive", "up", Accept_Encoding=coding)
        self.assertEqual(reply.status, 200)
        used = reply.headers["Content-Encoding"] or "identity"
        self.assertIn(used, {"zstd": ("zstd", "gzip")}.get(coding, (coding,)))
        target = self.here / coding
        target.mkdir()
        data = reply.body
        if used == "zstd":
            data = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True).stdout
        subprocess.run(["tar", *(["-z"] if used == "gzip" else []), "-xpf", "-"], input=data, cwd=target, check=True)
        self.assertEqual(wanted, tree(target))

    def test_a_place_that_is_taken(self) -> None:
        """F5: 409 unless it is to be replaced, and then as a whole; with a link there, it is the link that goes."""
        old, new = folders.of_files(old=b"old", both=b"old"), folders.of_files(new=b"new", both=b"new")
        self.assertEqual(self.remote.put("d", old).status, 201)
        self.refused(self.remote.put("d", new), 409, "path_exists")
        self.assertEqual(sorted(os.listdir(self.top / "d")), ["both", "old"])
        reply = self.remote.put("d", new, replace=True)
        self.assertEqual((reply.status, reply.json["replaced"]), (201, True))
        self.assertEqual(
            {path.name: path.read_bytes() for path in (self.top / "d").iterdir()}, {"new": b"new", "both": b"new"}
        )
        (self.here / "outside").mkdir()
        (self.here / "outside/old").write_bytes(CANARY)
        (self.top / "link").symlink_to(self.here / "outside")
        os.mkfifo(self.top / "fifo")
        self.write("file", b"x")
        self.give(self.top)
        for name in ("link", "fifo", "file"):
            self.refused(self.remote.put(name, new), 409, "path_exists")
            self.assertEqual(self.remote.put(name, new, replace=True).json["replaced"], True)
            self.assertEqual(sorted(os.listdir(self.top / name)), ["both", "new"])
        self.assertEqual(tree(self.here / "outside", times=False)[b"old"][3], len(CANARY))
        self.assertEqual([event["data"]["replaced"] for event in self.pushed()], [False, True, True, True, True])
        self.assertEqual(staged(self.top), [])

    def test_places_that_are_none(self) -> None:
        """F3: and nothing is written."""
        data = folders.of_files(f=b"x")
        (self.top / "out").symlink_to("/tmp")
        self.write("file", b"x")
        before = tree(self.top, times=False)
        for path, status in (
            ("", 400), ("/abs", 400), ("..", 400), ("../x", 400), ("a/../b", 400), ("a//b", 400), (".", 400), ("n\0", 400),
            ("x" * 300, 400), ("out/x", 400), ("nothing/x", 404), ("file/x", 404),
        ):  # fmt: skip
            self.assertEqual(self.remote.put(path, data).status, status, path)
        self.assertEqual(before, tree(self.top, times=False))
        self.assertEqual(self.pushed(), [])

    def test_archives_that_are_none(self) -> None:
        """F7: what can't be is refused, and nothing of it stays."""
        good = folders.of_files(f=b"x" * 1000)
        bad = {
            "no archive": b"x" * 2000, "cut": good[:700], "empty": b"", "no end": good[:1536],
            "a device": self.entry("d", tarfile.CHRTYPE), "a FIFO": self.entry("p", tarfile.FIFOTYPE),
            "absolute": self.entry("/etc/x"), "above": self.entry("a/../../x"),
            "out": self.entry("l", tarfile.SYMTYPE, "../../etc"), "out by name": self.entry("l", tarfile.SYMTYPE, "/etc"),
            "a hard link out": self.entry("h", tarfile.LNKTYPE, "/etc/passwd"),
        }  # fmt: skip
        before = tree(self.top)
        for name, data in bad.items():
            reply = self.remote.put("bad", data)
            self.assertEqual((reply.status, reply.code), (400, "invalid_archive"), name)
            self.assertEqual(before, tree(self.top), name)
        self.refused(self.remote.put("bad", good, Content_Encoding="gzip"), 400, "invalid_archive")
        reply = self.remote.put("bad", good, Content_Encoding="br")
        self.assertIn(reply.status, (400, 415))
        many = io.BytesIO()
        with tarfile.open(fileobj=many, mode="w:gz") as tar:
            for number in range(MANY + 1):
                tar.addfile(tarfile.TarInfo(f"{number}"))
        reply = self.remote.put("bad", many.getvalue(), Content_Encoding="gzip")
        if MANY == limits.MAX_ARCHIVE_ENTRIES:
            self.refused(reply, 413, "too_large")
            # it is answered before all of it is removed
            eventually(lambda: not staged(self.top), "nothing is left", 120)
            self.assertEqual(before, tree(self.top))

    def entry(self, name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
        """An archive with one of that kind."""
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as tar:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            tar.addfile(entry)
        return made.getvalue()

    def test_a_client_that_goes(self) -> None:
        """F5: an upload that is cut leaves nothing, and what was there stays."""
        self.write("d/old", b"old")
        before = tree(self.top)
        for _ in range(3):
            raw = self.remote.begin("d", replace=True)
            raw.sendall(folders.chunk(folders.of_files(new=b"x" * 500_000)[:300_000]))
            eventually(lambda: staged(self.top), "it is on its way")
            raw.close()
            eventually(lambda: not staged(self.top), "nothing is left")
        self.assertEqual(before, tree(self.top))
        self.assertEqual(self.pushed(), [])

    def test_ten_thousand_small_files(self) -> None:
        source = self.here / "many"
        count = MANY // 10
        for number in range(count):
            path = source / f"{number % 100:02}" / f"{number:05}"
            if number < 100:
                path.parent.mkdir(parents=True)
            path.write_bytes(b"%d" % number * 100)
        self.opc("push", self.session, str(source))
        self.assertEqual(tree(source), tree(self.top / "many"))
        self.opc("pull", self.session, "many", "back")
        self.assertEqual(tree(source), tree(self.here / "back"))
        (event,) = self.pushed()
        self.assertEqual(event["data"]["files"], count)


class LifeTests(FilesCase):
    """Sessions that are suspended or archived, and the worker's life (F13)."""

    def test_suspended_and_archived(self) -> None:
        """F13: their worker ends with them; a suspended one's files are there without waking it; an archived one's can be read."""
        client = self.connect()
        self.write("f", b"mine")
        self.assertEqual(self.remote.get("file", "f").body, b"mine")
        self.assertEqual(len(workers(self.remote)), 1)
        client.ask("sessions.suspend", sessionId=self.session)
        eventually(lambda: not workers(self.remote), "the worker is gone")
        self.assertEqual(self.remote.put("up", folders.of_files(n=b"new")).status, 201)
        self.assertEqual(self.remote.get("file", "up/n").body, b"new")
        self.assertEqual(self.computer.get(self.session)["status"], "suspended")
        client.ask("sessions.update", sessionId=self.session, archived=True)
        eventually(lambda: not workers(self.remote), "the worker is gone")
        self.assertEqual(self.remote.get("file", "up/n").body, b"new")
        self.assertEqual(self.remote.get("archive", "up").status, 200)
        self.refused(self.remote.put("more", folders.of_files(n=b"new")), 409, "feature_unavailable")
        self.assertFalse((self.top / "more").exists())

    def test_one_each_and_a_dead_one_is_replaced(self) -> None:
        """F13, I9: however many ask; a worker that is killed in an upload costs that one, and leaves nothing that is seen."""
        self.write("f", b"x")
        done: list[int] = []
        asking = [threading.Thread(target=lambda: done.append(self.remote.get("files").status)) for _ in range(10)]
        for one in asking:
            one.start()
        for one in asking:
            one.join()
        self.assertEqual(done, [200] * 10)
        (worker,) = workers(self.remote)
        if self.agent is not None:
            self.assertEqual(os.stat(f"/proc/{worker}").st_uid, self.agent.uid)
        raw = self.remote.begin("d")
        raw.sendall(folders.chunk(folders.of_files(new=b"x" * 500_000)[:300_000]))
        eventually(lambda: staged(self.top), "it is on its way")
        os.kill(worker, signal.SIGKILL)
        raw.settimeout(WAIT)
        self.assertIn(b"computer_unavailable", raw.recv(65536))
        raw.close()
        self.assertEqual(self.remote.names(), ["f"])
        self.assertNotEqual(workers(self.remote), [worker])
        self.assertEqual(self.remote.put("d", folders.of_files(new=b"x")).status, 201)

    def test_a_stopped_worker(self) -> None:
        """I9, I10: the one who asks is told within the deadline, and meanwhile nobody else waits."""
        other = Remote(self.computer, self.computer.session())
        self.assertEqual(other.get("files").status, 200)
        (worker,) = workers(self.remote)
        os.kill(worker, signal.SIGSTOP)
        told: list[Reply] = []
        asking = threading.Thread(target=lambda: told.append(self.remote.get("files")))
        began = time.monotonic()
        asking.start()
        while asking.is_alive():
            moment = time.monotonic()
            self.assertEqual(other.get("files").status, 200)
            self.assertLess(time.monotonic() - moment, SOON)
            self.assertLess(moment, began + 15)
            asking.join(0.2)
        self.refused(told[0], 503, "computer_unavailable")
        eventually(lambda: not alive(worker), "it is killed")
        self.assertEqual(self.remote.get("files").status, 200)


class OpcFilesTests(FilesCase):
    """`opc push`, `pull`, `ls`, `cat`."""

    def test_push_and_pull(self) -> None:
        """F6: what lands is what was sent; a second run sends nothing; a changed file with --force."""
        source = self.here / "source"
        folders.varied(source)
        wanted = folders.without_set_id(tree(source))
        done = json.loads(self.opc("push", self.session, "--json", "source").stdout)
        (event,) = self.pushed()
        self.assertEqual(
            (done["files"], done["bytes"], done["seq"]), (event["data"]["files"], event["data"]["bytes"], event["seq"])
        )
        self.assertEqual(wanted, tree(self.top / "source"))
        self.assertIn(b"there already", self.opc("push", self.session, "source").stderr)
        (source / "text.txt").write_text("other\n")
        self.opc("push", self.session, "source", status=255)
        self.opc("push", self.session, "--force", "-C", "source")
        wanted = folders.without_set_id(tree(source))
        self.assertEqual(wanted, tree(self.top / "source"))
        self.assertEqual([event["data"]["replaced"] for event in self.pushed()], [False, True])
        for number, options in enumerate(([], ["-C"])):
            self.opc("pull", self.session, *options, "source", f"back{number}")
            self.assertEqual(folders.without_set_id(tree(self.here / f"back{number}")), self.open(wanted))
        self.assertIn(b"Nothing was fetched", self.opc("pull", self.session, "source", "back0").stderr)
        self.write("source/empty", b"no longer")
        self.opc("pull", self.session, "--force", "source", "back0")
        self.assertEqual((self.here / "back0/empty").read_bytes(), b"no longer")

    def open(self, found: folders.Tree) -> folders.Tree:
        """Folders that are pulled can be changed by who pulled them."""
        return {
            name: (what[0], what[1] | 0o700, *what[2:]) if what[0] == "folder" else what for name, what in found.items()
        }

    def test_only_what_differs_is_sent(self) -> None:
        """F5: and what is replaced is replaced as a whole; a file that the agent has changed meanwhile comes anew."""
        source = self.here / "source"
        for number in range(50):
            path = source / f"{number % 5}" / f"{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(200_000))
        self.opc("push", self.session, "source")
        landed = self.top / "source"
        before = (landed / "1/1").stat().st_ino
        (source / "0/0").write_text("changed")
        (source / "0/5").unlink()
        (landed / "new").write_text("the agent's")
        received = 'computerd_file_bytes_total{direction="received"}'
        count = self.computer.metrics()[received]
        self.assertIn(b"7 B of it sent", self.opc("push", self.session, "--force", "source").stderr)
        self.assertLess(self.computer.metrics()[received] - count, 100_000)
        self.assertEqual(tree(source), tree(landed))
        self.assertEqual((before, 1), ((landed / "1/1").stat().st_ino, (landed / "1/1").stat().st_nlink))
        self.assertEqual([event["data"]["replaced"] for event in self.pushed()], [False, True])
        self.assertEqual(self.pushed()[-1]["data"]["files"], 49)
        (landed / "1/1").write_text("the agent's")
        self.opc("push", self.session, "--force", "source")
        self.assertEqual(tree(source), tree(landed))

    def test_streams(self) -> None:
        archive = folders.of_files(a=b"one", b=b"two")
        self.opc("push", self.session, "-", "from stdin", given=archive)
        self.assertEqual((self.top / "from stdin/b").read_bytes(), b"two")
        out = self.opc("pull", self.session, "from stdin", "-").stdout
        with tarfile.open(fileobj=io.BytesIO(out)) as tar:
            self.assertEqual(sorted(tar.getnames()), ["a", "b"])
        self.assertEqual(self.opc("cat", self.session, "from stdin/a", "from stdin/b").stdout, b"onetwo")
        self.assertIn(b"from stdin", self.opc("ls", self.session).stdout)
        listed = self.opc("ls", self.session, "-R").stdout
        self.assertEqual(listed.count(b"\n"), 3)
        self.opc("cat", self.session, "nothing", status=255)
        self.opc("pull", self.session, "nothing", status=255)
        self.opc("push", self.session, "-", "from stdin", given=archive, status=255)
        self.assertEqual(os.listdir(self.here), [])

    def test_interrupted(self) -> None:
        """F5: Ctrl-C leaves nothing half, here or there."""
        with open(self.here / "big", "wb") as big:
            for _ in range(200):
                big.write(os.urandom(1 << 20))
        for words in (["push", self.session, "big", "place"], ["pull", self.session, "place/big", "back"]):
            command, environ = opc(self.computer, *words)
            if words[0] == "pull":
                self.opc("push", self.session, "big", "place")
            child = subprocess.Popen(command, env=environ, cwd=self.here, stderr=subprocess.PIPE)
            assert child.stderr is not None
            self.addCleanup(child.stderr.close)
            where = self.top if words[0] == "push" else self.here
            eventually(lambda where=where: len(os.listdir(where)) > 1 or staged(where), "it is on its way")
            child.send_signal(signal.SIGINT)
            self.assertIn(child.wait(WAIT), (130, -signal.SIGINT), child.stderr.read())
            eventually(lambda: not staged(self.top), "nothing is left")
            self.assertEqual(os.listdir(self.here), ["big"])
            self.assertEqual((self.top / "place").exists(), words[0] == "pull")

    def test_an_echo_meanwhile(self) -> None:
        """W15: keys come back while a large file is pulled; the daemon's memory stays."""
        with open(self.top / "big", "wb") as big:
            for _ in range(BIG >> 20):
                big.write(os.urandom(1 << 20))
        self.give(self.top)
        shell = self.echo(self.connect())
        idle = statistics.quantiles(echo_times(shell, 200), n=100)[98]
        before = self.computer.memory()
        command, environ = opc(self.computer, "pull", self.session, "big", "-")
        with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as pull:
            times: list[float] = []
            most = 0
            while pull.poll() is None:
                times += echo_times(shell, 20)
                most = max(most, self.computer.memory())
        self.assertEqual(pull.returncode, 0)
        self.assertLess(most - before, 64 << 20)
        self.assertLess(statistics.quantiles(times, n=100)[98], max(SOON / 10, 10 * idle))


class DeathTests(LifeCase):
    """The daemon dies, and the disk is full."""

    timeout = 120

    def test_a_killed_daemon(self) -> None:
        """F5, L1: the workspace is as it was, and its worker ends; so after a stop in order."""
        computer = self.computer()
        remote = Remote(computer, computer.session())
        self.assertEqual(remote.put("d", folders.of_files(old=b"old")).status, 201)
        before = tree(remote.folder)
        for number in (signal.SIGKILL, signal.SIGTERM):
            raw = remote.begin("d", replace=True)
            raw.sendall(folders.chunk(folders.of_files(new=b"x" * 500_000)[:300_000]))
            eventually(lambda: staged(remote.folder), "it is on its way")
            (worker,) = workers(remote)
            computer.stop(number)
            raw.close()
            eventually(lambda worker=worker: not alive(worker), "the worker ends")
            self.assertEqual(before, tree(remote.folder))
            computer.start()
            self.assertEqual(remote.names(depth=2), ["d", "d/old"])
        self.assertEqual(len([e for e in computer.journal(remote.session) if e["type"] == "files.pushed"]), 1)

    def test_a_full_disk(self) -> None:
        """F5, F12: `unavailable`, nothing half, what was there is whole, and the journal goes on."""
        if os.geteuid() != 0:
            self.skipTest("needs root: it mounts a small file system")
        computer = Computer(agent=self.agent)
        self.addCleanup(computer.remove)
        disk = computer.folder / "workspaces"
        disk.mkdir(mode=0o755)
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", str(disk)], capture_output=True, check=False
        )
        if made.returncode:
            self.skipTest("needs a kernel that lets it mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=True)
        computer.start()
        remote = Remote(computer, computer.session())
        self.assertEqual(remote.put("d", folders.of_files(old=b"old")).status, 201)
        before = tree(remote.folder)
        for path, replace in (("d", True), ("e", False)):
            reply = remote.put(path, folders.of_files(new=os.urandom(12 << 20)), replace=replace)
            self.assertEqual((reply.status, reply.code), (503, "unavailable"), reply.body)
            self.assertEqual(before, tree(remote.folder))
            self.assertEqual(staged(remote.folder), [])
        self.assertEqual(remote.put("e", folders.of_files(new=os.urandom(4 << 20))).status, 201)
        free = os.statvfs(disk)
        (remote.folder / "filler").write_bytes(bytes((free.f_bavail - 10) * free.f_bsize))
        self.assertEqual(remote.put("f", folders.of_files(new=b"x")).code, "unavailable")
        self.assertEqual(remote.get("file", "d/old").body, b"old")
        self.assertEqual(ask(f"{computer.base}/sessions/{computer.session()}", token=computer.token()).status, 200)


class TwoUsersCase(FilesCase):
    """Alice's and bob's files belong to Unix users of their own."""

    root_only = True
    bob: ClassVar[Account]

    @classmethod
    def arrange(cls, agent: Account) -> None:
        cls.bob = Account.make()
        cls.computer.environ["COMPUTERD_AGENT_USERS"] = f"bob={cls.bob.name}"
        atexit.register(cls.bob.remove)

    def setUp(self) -> None:
        super().setUp()
        self.bobs = Remote(self.computer, self.computer.session("bob"), "bob")
        self.assertEqual(self.bobs.get("files").status, 200)
        self.canary = self.bobs.folder / "canary"
        self.canary.write_bytes(CANARY)
        os.chown(self.canary, self.bob.uid, -1)
        (self.bobs.folder / "f").write_bytes(CANARY)
        self.rooted = self.here / "rooted"
        self.rooted.mkdir()
        for name in ("canary", "f"):
            (self.rooted / name).write_bytes(CANARY)
            (self.rooted / name).chmod(0o600)
        self.here.chmod(0o711)

    def intact(self) -> None:
        """Nobody has written where the canaries are."""
        for folder in (self.bobs.folder, self.rooted):
            self.assertEqual(sorted(os.listdir(folder)), ["canary", "f"])
            self.assertEqual({(folder / name).read_bytes() for name in ("canary", "f")}, {CANARY})


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


class TracingTests(SynchronousTestCase):
    """F1: what root does in a workspace."""

    timeout = 900

    def test_root_does_nothing_in_a_workspace(self) -> None:
        """F1, D10: no system call of root names a path in one, not even to look, while all tests of this module run; its user's are seen."""
        if os.geteuid() != 0 or shutil.which("strace") is None:
            self.skipTest("needs root and strace")
        if tracing.VARIABLE in os.environ:
            self.skipTest("this is the run that is traced")
        folder = tempfile.mkdtemp(prefix="computerd-test-")
        self.addCleanup(shutil.rmtree, folder)
        classes = [
            each for each in globals().values() if isinstance(each, type) and issubclass(each, SynchronousTestCase)
        ]
        names = [
            f"{__name__}.{each.__name__}" for each in classes if each.__module__ == __name__ and each is not type(self)
        ]
        done = subprocess.run(
            [sys.executable, "-m", "twisted.trial", f"--temp-directory={folder}/trial", *names],
            env={**os.environ, tracing.VARIABLE: folder, "COMPUTERD_RACES": "1", "COMPUTERD_BIG": str(64 << 20)},
            capture_output=True, check=False, text=True, cwd=os.getcwd(),
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        seen = tracing.Account()
        for trace in Path(folder).glob("*.strace"):
            seen.add(trace)
        print(f"calls on paths: {dict(seen.calls)}; in workspaces: {seen.users} of users, {len(seen.roots)} of root")
        self.assertEqual(seen.roots, [])
        self.assertGreater(seen.users, 10_000)
        self.assertGreater(seen.making["mkdirat"], 10)
        self.assertGreater(seen.making["fchownat"], 10)
