"""The files of a session over HTTP, by a client that shares no code with the daemon; and trees of all that a folder can hold."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import io
import os
import socket
import stat
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from attrs import frozen

from tests.endtoend.client import WAIT, Reply
from tests.endtoend.computer import Computer

Tree = dict[bytes, tuple[Any, ...]]


@frozen
class Remote:
    """The workspace of a session, for a member.

    Attributes:
        top: What the address begins with; the session's id is `{}`.
    """

    computer: Computer
    session: str
    member: str = "alice"
    arguments: tuple[str, ...] = ()
    top: str = "/sessions/{}/workspace"

    @property
    def folder(self) -> Path:
        """Where it is on this host."""
        return self.computer.folder / "workspaces" / self.session

    def url(self, route: str, path: str = "", **query: object) -> str:
        """An address, without the host."""
        words = {name: value for name, value in {"path": path, **query}.items() if value is not None}
        return f"{self.top.format(self.session)}/{route}?{urlencode(words)}"

    def get(self, route: str, path: str = "", *, method: str = "GET", **more: Any) -> Reply:
        """One request; headers are words with a capital, such as `If_None_Match`."""
        headers = {name.replace("_", "-"): value for name, value in more.items() if name[0].isupper()}
        query = {name: value for name, value in more.items() if not name[0].isupper()}
        return self.send(method, self.url(route, path, **query), None, headers)

    def put(self, path: str, archive: bytes, *, replace: bool = False, **headers: str) -> Reply:
        """Sends an archive."""
        url = self.url("archive", path, **({"replace": "true"} if replace else {}))
        return self.send("PUT", url, archive, {name.replace("_", "-"): value for name, value in headers.items()})

    def send(self, method: str, url: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.computer.port, timeout=6 * WAIT)
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is refused before all of it was sent
                connection.request(method, url, body, {**self.credential, **headers})
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    @property
    def credential(self) -> dict[str, str]:
        """The header that says who asks."""
        return {"Authorization": f"Bearer {self.computer.token(self.member, *self.arguments)}"}

    def begin(self, path: str, *, replace: bool = False) -> socket.socket:
        """An upload whose head is sent, and of whose body nothing is."""
        raw = socket.create_connection(("127.0.0.1", self.computer.port), WAIT)
        url = self.url("archive", path, **({"replace": "true"} if replace else {}))
        lines = [
            f"PUT {url} HTTP/1.1",
            f"Host: 127.0.0.1:{self.computer.port}",
            "Transfer-Encoding: chunked",
            *(f"{name}: {value}" for name, value in self.credential.items()),
        ]
        raw.sendall("\r\n".join([*lines, "", ""]).encode())
        return raw

    def names(self, path: str = "", **query: Any) -> list[str]:
        """The paths of all pages."""
        return [entry["path"] for entry in self.entries(path, **query)]

    def entries(self, path: str = "", **query: Any) -> list[dict[str, Any]]:
        """All pages."""
        found: list[dict[str, Any]] = []
        cursor = None
        while True:
            page = self.get("files", path, cursor=cursor, **query)
            assert page.status == 200, page.body
            found += page.json["entries"]
            cursor = page.json["nextCursor"]
            if cursor is None:
                return found


def chunk(data: bytes) -> bytes:
    """As a chunked body has it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def archive(source: Path) -> bytes:
    """A pax archive of what a folder holds."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(os.listdir(source)):
            tar.add(source / name, name)
    return made.getvalue()


def of_files(**files: bytes) -> bytes:
    """A pax archive of files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def varied(top: Path) -> None:
    """All that a folder can hold and an archive keeps: links, hard links, holes, modes, names that are not UTF-8, nothing at all."""
    top.mkdir()
    (top / "empty folder").mkdir()
    (top / "empty").touch()
    (top / "text.txt").write_text("hello\n")
    (top / "binary").write_bytes(os.urandom(300_001))
    deep = top.joinpath(*"abcdefghij")
    deep.mkdir(parents=True)
    (deep / ("n" * 200)).write_bytes(b"deep")
    (top / "ünï © 文件 \n name").write_bytes(b"unicode")
    Path(os.fsdecode(os.fsencode(top) + b"/latin-\xfc-100%")).write_bytes(b"not UTF-8")
    folder = Path(os.fsdecode(os.fsencode(top) + b"/folder-\xff"))
    folder.mkdir()
    (folder / "inside").write_bytes(b"in a folder that is not UTF-8")
    (top / "link").symlink_to("text.txt")
    (top / "a/up").symlink_to("../text.txt")
    (top / "dangling").symlink_to("nothing/there")
    os.link(top / "binary", top / "second name")
    os.link(top / "text.txt", top / "a/third")
    with open(top / "holes", "wb") as holes:
        holes.write(b"begin")
        holes.seek(8 << 20)
        holes.write(b"middle")
        holes.truncate(20 << 20)
    for name, mode in (
        ("script", 0o755),
        ("private", 0o600),
        ("read only", 0o444),
        ("set-id", 0o6755),
        ("sticky", 0o1644),
    ):
        (top / name).write_bytes(name.encode())
        (top / name).chmod(mode)
    (top / "closed").mkdir()
    (top / "closed/f").write_bytes(b"closed")
    (top / "closed").chmod(0o500)
    for at, path in enumerate(sorted(p for p in top.rglob("*") if not p.is_symlink())):
        os.utime(path, ns=(0, 1_600_000_000_123_456_789 + at * 1_000_000_007))


def tree(top: Path | str, *, times: bool = True) -> Tree:
    """What a folder holds: kind, mode, time, content; names of one file have each other's."""
    found: Tree = {}
    inodes: dict[tuple[int, int], bytes] = {}
    start = os.fsencode(top)
    for folder, folders, files in os.walk(start):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            key = os.path.relpath(path, start)
            mode, time = stat.S_IMODE(status.st_mode), status.st_mtime_ns if times else 0
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                found[key] = ("folder", mode, time)
            else:
                with open(path, "rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                first = inodes.setdefault((status.st_dev, status.st_ino), key)
                found[key] = ("file", mode, time, status.st_size, digest, first)
    return found


def without_set_id(found: Tree) -> Tree:
    """As it must land: nothing has the bits over 0777."""
    return {
        name: (what[0], what[1] & 0o777, *what[2:]) if what[0] in ("file", "folder") else what
        for name, what in found.items()
    }


def allocated(path: Path) -> int:
    """Bytes of the disk that a file takes."""
    return path.stat().st_blocks * 512
