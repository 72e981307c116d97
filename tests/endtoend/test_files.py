"""The files of a workspace with a whole daemon: both addresses, what is listed, read, sent and fetched (F1 to F9)."""

from __future__ import annotations

import io
import os
import socket
import stat
import subprocess
import tarfile
import threading
import time
from pathlib import Path

from computerd.contract import limits
from tests.endtoend import folders
from tests.endtoend.client import http as ask
from tests.endtoend.computer import eventually
from tests.endtoend.files_case import CANARY, MANY, SOON, FilesCase, staged
from tests.endtoend.folders import Remote, tree
from tests.endtoend.test_flow import echo_times


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
