"""`list`: a page of what is below a folder, in the byte order of whole paths.

That order is not the order of names, folder by folder: `a-b` comes between `a` and `a/b`. So a folder is read as a list of keys: each name, and
each name of a folder with a slash, where its contents come. The keys that a page can need are the smallest above the last path of the page
before, which is what the cursor says; a folder of any size costs one reading and a fixed number of keys, and a page is right whatever was
made or removed since the page before.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import stat
import zlib
from typing import Any, Final

from computerd.host.worker import limits
from computerd.host.worker.failures import INVALID_CURSOR, INVALID_PATH, Refused, kind_of, of_path
from computerd.host.worker.keys import Keys
from computerd.host.worker.paths import Root, join, spell
from computerd.host.worker.request import Request

_MAX_BYTES: Final = 48_000
"""Of a page's entries as JSON: the whole of it must go into one frame."""
_NAME_MAX: Final = 255
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
_keys: Final = Keys()


def run(request: Request, root: Root) -> None:
    """The verb."""
    depth, limit = request.number_of("depth", 1, limits.DEPTH), request.number_of("limit", 1, limits.PAGE)
    try:
        path, folder = root.find(request.text("path"), os.O_PATH)
    except OSError as error:
        raise of_path(error) from None
    try:
        cursor = request.params.get("cursor")
        after = b"" if cursor is None else parse_cursor(request.text("cursor"), path)
        page = Page(request, path, limit)
        page.fill(open_folder(folder), b"", after, depth)
    finally:
        os.close(folder)
    more = write_cursor(path, page.last) if page.more else None
    request.result({"path": spell(path)[0], "entries": page.entries, "cursor": more})


def open_folder(path: int) -> int:
    """Opens a folder for reading that was found. Raises Refused."""
    mode = os.fstat(path).st_mode
    if not stat.S_ISDIR(mode):
        raise Refused(INVALID_PATH, f"It is {kind_of(mode)}, and no folder.", "path")
    try:
        return os.open(b".", _OPEN, dir_fd=path)
    except OSError as error:
        raise of_path(error) from None


def write_cursor(folder: bytes, last: bytes) -> str:
    """A cursor: after that path, relative to the folder."""
    return base64.urlsafe_b64encode(zlib.crc32(folder).to_bytes(4, "big") + last).rstrip(b"=").decode()


def parse_cursor(text: str, folder: bytes) -> bytes:
    """The path that a cursor is after. Raises Refused, invalid_cursor."""
    try:
        data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
    except (ValueError, binascii.Error):
        data = b""
    last = data[4:]
    parts = last.split(b"/")
    bad = b"\0" in last or len(parts) > limits.DEPTH or not all(0 < len(part) <= _NAME_MAX for part in parts)
    if data[:4] != zlib.crc32(folder).to_bytes(4, "big") or bad:
        raise Refused(INVALID_CURSOR, "It is no cursor of this folder.", "cursor")
    return last


class Page:
    """What is found, up to the limit.

    Attributes:
        more: Whether there is more, after `last`, relative to the folder.
    """

    def __init__(self, request: Request, folder: bytes, limit: int) -> None:
        self._request = request
        self._folder = folder
        self._limit = limit
        self._room = _MAX_BYTES
        self.entries: list[list[Any]] = []
        self.last = b""
        self.more = False

    def fill(self, folder: int, prefix: bytes, after: bytes, depth: int) -> None:
        """Adds what is in a folder, and closes it.

        Args:
            folder: A descriptor of it.
            prefix: Of what is in it; ends with a slash.
            after: Only what comes after that, relative to it.
            depth: Levels that are wanted.

        A page needs as many names as it has entries left, and one to know of more; each may be a folder; and what is below a folder may come
        after a path that the folder itself comes before. Those folders' names are beginnings of that path, so that there are no more than 255.
        """
        try:
            while not self.more:
                number = 2 * (self._limit + 1 - len(self.entries)) + _NAME_MAX
                found = _keys.after(folder, after, depth > 1, number)
                self._go(folder, prefix, found, after, depth)
                if len(found) < number:
                    return
                after = found[-1]  # many of them have gone meanwhile
        finally:
            os.close(folder)

    def _go(self, folder: int, prefix: bytes, found: list[bytes], after: bytes, depth: int) -> None:
        for key in found:
            self._request.check()
            if not key.endswith(b"/"):
                self._add(folder, prefix, key)
            elif (below := _below(folder, key)) is not None:
                self.fill(below, prefix + key, after[len(key) :] if after.startswith(key) else b"", depth - 1)
            if self.more:
                return

    def _add(self, folder: int, prefix: bytes, name: bytes) -> None:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            target = os.readlink(name, dir_fd=folder) if stat.S_ISLNK(found.st_mode) else None
        except OSError:
            return  # it has gone meanwhile
        path, encoded = spell(join(self._folder, prefix + name))
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
        link = None if target is None else spell(target)[0]
        entry = [
            path,
            path.rpartition("/")[2],
            kind,
            found.st_size,
            stat.S_IMODE(found.st_mode),
            found.st_mtime_ns,
            link,
            encoded,
        ]
        size = len(json.dumps(entry, ensure_ascii=False).encode())
        if len(self.entries) == self._limit or (size > self._room and self.entries):
            self.more = True
            return
        if size > self._room:
            entry[6] = (
                None  # the longest of paths and of targets, all of control characters: it is cut rather than refused
            )
        self._room -= size
        self.entries.append(entry)
        self.last = prefix + name


def _below(folder: int, key: bytes) -> int | None:
    """A folder that is still one and that may be read, or None."""
    try:
        return os.open(key[:-1], _OPEN, dir_fd=folder)
    except OSError:
        return None
