"""The fake daemon's files: section 7 of the API on a folder, with tarfile, so on other code than the client's."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
from asyncio import IncompleteReadError, StreamReader, StreamWriter, sleep
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote_from_bytes, unquote_to_bytes

from attrs import define, field

from computerd.contract.errors import ApiError, Code

KEPT = b"U"
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}


class Answers(Protocol):
    """What the daemon does for us."""

    def fault(self, what: str) -> dict[str, Any] | None: ...

    def reply(self, writer: StreamWriter, status: int, body: dict[str, Any]) -> None: ...


@define(eq=False)
class Files:
    """The workspaces, each in a folder that is called like its session."""

    server: Answers
    root: Path = field(factory=Path.cwd)
    pushed: list[dict[str, Any]] = field(factory=list)
    """Of each upload: its query, its coding, whether its body was waited for, and how many bytes of it came."""
    lists: int = 0
    fetched: list[str] = field(factory=list)

    async def serve(
        self,
        verb: str,
        session: str,
        route: str,
        query: dict[str, str],
        headers: dict[str, str],
        reader: StreamReader,
        writer: StreamWriter,
    ) -> None:
        """One request, whose body is not read yet."""
        try:
            if (fault := self.server.fault(f"{verb} {route}")) is not None and "code" in fault:
                raise ApiError(Code(fault["code"]), "Not now.")
            if verb == "PUT":
                await self.put(session, query, headers, reader, writer, fault or {})
            elif route == "files":
                self.server.reply(writer, 200, self.list(session, query))
            else:
                await self.get(session, route, query, headers, writer, fault or {})
        except ApiError as error:
            self.server.reply(writer, error.status, {"error": error.body("rq_1")})

    def place(self, session: str, path: str) -> Path:
        """Where a path is."""
        top = (self.root / session).resolve()
        top.mkdir(exist_ok=True)
        if path.startswith("/") or ".." in path.split("/"):
            raise ApiError(Code.INVALID_PATH, "A path is relative to the workspace.")
        found = top / path
        if not os.path.lexists(found):
            with contextlib.suppress(ValueError):
                spelled = top / os.fsdecode(unquote_to_bytes(path))
                found = spelled if os.path.lexists(spelled) else found
        return found

    # --- from the workspace

    def list(self, session: str, query: dict[str, str]) -> dict[str, Any]:
        assert 1 <= int(query["depth"]) <= 10
        assert 1 <= int(query["limit"]) <= 100
        self.lists += 1
        place = self.place(session, query["path"])
        if not os.path.lexists(place):
            raise ApiError(Code.PATH_NOT_FOUND, "There is nothing at that path.")
        if not place.is_dir():
            raise ApiError(Code.INVALID_PATH, "That is no folder.")
        prefix = b"" if query["path"] == "" else query["path"].encode() + b"/"
        found = sorted(self.walk(place, prefix, int(query["depth"])))
        after = base64.b64decode(query.get("cursor", ""))
        rest = [one for one in found if one[0] > after]
        page = rest[: int(query["limit"])]
        cursor = base64.b64encode(page[-1][0]).decode() if len(rest) > len(page) else None
        return {"path": query["path"], "entries": [self.entry(*one) for one in page], "nextCursor": cursor}

    def walk(self, place: Path, prefix: bytes, depth: int) -> Iterator[tuple[bytes, Path]]:
        for child in place.iterdir():
            name = prefix + os.fsencode(child.name)
            yield name, child
            if depth > 1 and child.is_dir() and not child.is_symlink():
                yield from self.walk(child, name + b"/", depth - 1)

    def entry(self, name: bytes, place: Path) -> dict[str, Any]:
        found = place.lstat()
        encoded = not _is_utf8(name)
        path = quote_from_bytes(name) if encoded else name.decode()
        when = datetime.fromtimestamp(found.st_mtime_ns // 1_000_000 / 1000, UTC).isoformat(timespec="milliseconds")
        return {
            "path": path,
            "name": path.rpartition("/")[2],
            "type": KINDS.get(stat.S_IFMT(found.st_mode), "other"),
            "size": found.st_size,
            "mode": f"{stat.S_IMODE(found.st_mode):04o}",
            "modifiedAt": when.replace("+00:00", "Z"),
            "target": os.readlink(place) if place.is_symlink() else None,
            "encoded": encoded,
        }

    async def get(
        self,
        session: str,
        route: str,
        query: dict[str, str],
        headers: dict[str, str],
        writer: StreamWriter,
        fault: dict[str, Any],
    ) -> None:
        place = self.place(session, query["path"])
        if not place.exists():
            raise ApiError(Code.PATH_NOT_FOUND, "There is nothing at that path.")
        self.fetched.append(f"{route} {query['path']}")
        more = b""
        if route == "file":
            if not place.is_file():
                raise ApiError(Code.INVALID_PATH, "That is no regular file.")
            body = place.read_bytes()
            more = b"ETag: %s\r\n" % hashlib.sha256(body).hexdigest().encode()
        else:
            body = base64.b64decode(fault["body"]) if "body" in fault else _packed(place)
            if "gzip" in headers.get("accept-encoding", ""):
                body, more = gzip.compress(body), b"Content-Encoding: gzip\r\n"
        trailer = b""
        if route == "archive" and fault.get("unreadable", 0) is not None:
            trailer = b"Computer-Unreadable: %s\r\n" % str(fault.get("unreadable", 0)).encode()
            more += b"Trailer: Computer-Unreadable\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + more + b"\r\n")
        sent = body[: fault.get("cut", len(body))]
        for start in range(0, len(sent), 65536):
            piece = sent[start : start + 65536]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await sleep(fault.get("pause", 0))
        if "cut" in fault:
            writer.close()
            return
        writer.write(b"0\r\n" + trailer + b"\r\n")

    # --- into the workspace

    async def put(
        self,
        session: str,
        query: dict[str, str],
        headers: dict[str, str],
        reader: StreamReader,
        writer: StreamWriter,
        fault: dict[str, Any],
    ) -> None:
        place = self.place(session, query["path"])
        replace = query.get("replace") == "true"
        note: dict[str, Any] = {"query": query, "coding": headers.get("content-encoding"), "bytes": 0}
        self.pushed.append(note)
        if not place.parent.is_dir():
            raise ApiError(Code.PATH_NOT_FOUND, "The folder above it is not there; make it first.")
        if _there(place) and not replace:
            raise ApiError(Code.PATH_EXISTS, "There is something at that path; say replace=true.")
        await sleep(0.05)
        note["waited"] = headers.get("expect") == "100-continue" and not reader._buffer  # type: ignore[attr-defined]
        if not fault.get("silent"):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = io.BytesIO()
        try:
            while size := int(await reader.readline(), 16):
                body.write(await reader.readexactly(size))
                await reader.readexactly(2)
                note["bytes"] = body.tell()
                await sleep(fault.get("pause", 0))
                if "middle" in fault and body.tell() > fault["after"]:
                    raise ApiError(Code(fault["middle"]), "That is too much.")
                if "cut" in fault and body.tell() > fault["cut"]:
                    writer.transport.abort()
                    return
            await reader.readline()
        except (IncompleteReadError, ValueError):
            note["bytes"], note["cut"] = body.tell(), True
            return
        body.seek(0)
        answer = self.landed(session, place, query["path"], body, note)
        if fault.get("deaf"):
            writer.transport.abort()
            return
        self.server.reply(writer, 201, answer)

    def landed(self, session: str, place: Path, path: str, body: io.BytesIO, note: dict[str, Any]) -> dict[str, Any]:
        beside = Path(tempfile.mkdtemp(dir=self.root))
        try:
            plain: Any = gzip.GzipFile(fileobj=body) if note["coding"] == "gzip" else body
            plain = io.BytesIO(plain.read())
            with tarfile.open(fileobj=plain, mode="r:") as archive:
                members = archive.getmembers()
                archive.extractall(beside / "new", [one for one in members if one.type != KEPT], filter="tar")
                for member in members:
                    if member.type == KEPT:
                        self.keep(place, beside / "new", member)
                        note["kept"] = note.get("kept", 0) + 1
        except (tarfile.TarError, OSError, EOFError):
            shutil.rmtree(beside)
            raise ApiError(Code.INVALID_ARCHIVE, "The archive is damaged.") from None
        replaced = os.path.lexists(place)
        if replaced:
            place.rename(beside / "old")
        (beside / "new").mkdir(exist_ok=True)
        (beside / "new").rename(place)
        shutil.rmtree(beside)
        files = [one for one in place.rglob("*") if one.is_symlink() or one.is_file()]
        size = sum(one.lstat().st_size for one in files if not one.is_symlink())
        return {"path": path, "files": len(files), "bytes": size, "replaced": replaced, "seq": 1}

    def keep(self, old: Path, new: Path, member: tarfile.TarInfo) -> None:
        """A file of the old folder, if it is as the archive says."""
        found = (old / member.name).lstat()
        if found.st_size != int(member.pax_headers["COMPUTERD.size"]) or abs(found.st_mtime - member.mtime) > 0.002:
            raise OSError("it is not so")
        (new / member.name).parent.mkdir(parents=True, exist_ok=True)
        os.link(old / member.name, new / member.name)


def _there(place: Path) -> bool:
    return os.path.lexists(place)


def _packed(place: Path) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w", format=tarfile.PAX_FORMAT) as archive:
        if place.is_dir():
            for child in sorted(place.iterdir()):
                archive.add(child, child.name)
        else:
            archive.add(place, place.name)
    return body.getvalue()


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
