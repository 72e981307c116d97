"""`pack`: a pax tar of a file or of what a folder holds, as it is read, with flat memory.

The tree is walked by descriptors that never follow a link, so that what is swapped for a link meanwhile is at most packed as one. An archive
either is whole and valid, or its stream fails: a file that becomes shorter while it is read, or a folder that is moved away, ends it.
Sockets, FIFOs and devices are left out, and so is what the user may not read, of a folder what it holds; the end says how many it was of the
former (`skipped`) and of the latter (`unreadable`).
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Any, Final

from computerd.host.worker import coding, holes, limits, staging, ustar
from computerd.host.worker.descent import Descent
from computerd.host.worker.failures import INVALID_PATH, TOO_LARGE, UNAVAILABLE, Refused, kind_of, of_path, of_system
from computerd.host.worker.listing import open_folder
from computerd.host.worker.opening import READ
from computerd.host.worker.output import Output
from computerd.host.worker.paths import Root, spell
from computerd.host.worker.request import Request

_PERMISSIONS: Final = 0o777
"""Without set-user-id, set-group-id and sticky."""
_SMALL: Final = 65_536
"""Bytes of a file that is read at once."""
_TRIES: Final = 16
"""Of an entry that becomes something else while it is opened."""
_NOT_ALLOWED: Final = (errno.EACCES, errno.EPERM, errno.EAGAIN)
"""The last is for a file with a lease (fcntl(2), F_SETLEASE)."""
_CHANGED: Final = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.ENODEV)
_FILE: Final = READ | os.O_NOFOLLOW


def run(request: Request, root: Root) -> None:
    """The verb."""
    try:
        path, found = root.find(request.text("path"), os.O_PATH)
    except OSError as error:
        raise of_path(error) from None
    name = path.rpartition(b"/")[2]
    answer: dict[str, Any] = {"name": spell(path)[0].rpartition("/")[2]}
    try:
        packer = Packer(request, coding.encoder(request.text("coding")))
        if stat.S_ISREG(os.fstat(found).st_mode):
            file = _open_file(root, path)
            request.result({**answer, "folder": False}, stream=True)
            packer.file(file, name)
        else:
            descent = Descent(open_folder(found))
            request.result({**answer, "folder": True}, stream=True)
            packer.folder(descent)
    finally:
        os.close(found)
    request.end(packer.end())


def _open_file(root: Root, path: bytes) -> int:
    """Opens it. Raises Refused, also when it is larger than an archive may be."""
    try:
        file = root.open(path, READ)
    except OSError as error:
        raise of_path(error) from None
    now = os.fstat(file)
    if not stat.S_ISREG(now.st_mode):
        os.close(file)
        raise Refused(INVALID_PATH, f"It is {kind_of(now.st_mode)}, and no file.", "path")
    if now.st_size > limits.ARCHIVE_BYTES:
        os.close(file)
        raise Refused(TOO_LARGE, f"It has {now.st_size} bytes; an archive holds at most {limits.ARCHIVE_BYTES}.")
    return file


class Packer:
    """An archive on its way out."""

    def __init__(self, request: Request, encoder: coding.Encoder) -> None:
        self._request = request
        self._output = Output(request, encoder)
        self._entries = 0
        self._bytes = 0
        self._skipped = 0
        self._unreadable = 0
        self._links: dict[tuple[int, int], bytes] = {}

    def end(self) -> dict[str, Any]:
        """Writes the end. Returns what is to be said of it."""
        self._output.write(ustar.END)
        self._output.end()
        found = {"entries": self._entries, "bytes": self._bytes}
        return {**found, "skipped": self._skipped, "unreadable": self._unreadable}

    def folder(self, descent: Descent) -> None:
        """Packs what is in a folder, and closes it."""
        prefixes = [b""]
        left = [self._names(descent.here)]
        try:
            while True:
                if left[-1]:
                    name, likely = left[-1].pop()
                    if self._entry(descent, prefixes[-1], name, likely):
                        prefixes.append(prefixes[-1] + name + b"/")
                        left.append(self._names(descent.here))
                    continue
                left.pop()
                prefixes.pop()
                if not left:
                    return
                descent.up()
        finally:
            descent.close()

    def file(self, file: int, path: bytes, now: os.stat_result | None = None) -> None:
        """Packs a file, and closes it."""
        try:
            now = now or os.fstat(file)
            if now.st_nlink > 1:
                first = self._links.setdefault((now.st_dev, now.st_ino), path)
                if first is not path:
                    self._header(path, ustar.HARD_LINK, now, link=first)
                    return
            self._bytes += now.st_size
            if self._bytes > limits.ARCHIVE_BYTES:
                raise Refused(
                    TOO_LARGE,
                    f"The files have more than {limits.ARCHIVE_BYTES} bytes together, with `{spell(path)[0]}`.",
                )
            segments = holes.segments(file, now)
            try:
                if segments is None:
                    self._whole(file, path, now)
                else:
                    self._sparse(file, path, now, segments)
            except OSError as error:  # what was written of it can't be taken back
                raise of_system(error) from None
        finally:
            os.close(file)

    def _names(self, folder: int) -> list[tuple[bytes, bool]]:
        """What is in a folder, last first; and whether each is likely a regular file."""
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if not staging.is_name(name):
                    found.append((name, entry.is_file(follow_symlinks=False)))
                if len(found) + self._entries > limits.ARCHIVE_ENTRIES:
                    raise Refused(TOO_LARGE, f"There are more than {limits.ARCHIVE_ENTRIES} entries.")
        found.sort(reverse=True)
        return found

    def _entry(self, descent: Descent, prefix: bytes, name: bytes, likely: bool) -> bool:
        """Packs an entry. True: it is a folder, and `descent` is in it now."""
        self._request.check()
        for _ in range(_TRIES):
            try:
                if likely:
                    return self._regular(descent.here, prefix + name, name)
                return self._other(descent, prefix + name, name)
            except FileNotFoundError:
                return False
            except OSError as error:
                if error.errno in _NOT_ALLOWED:
                    self._unreadable += 1
                    return False
                if error.errno not in _CHANGED:
                    raise
                likely = False
        raise Refused(UNAVAILABLE, f"`{spell(prefix + name)[0]}` changes all the time.")

    def _regular(self, folder: int, path: bytes, name: bytes) -> bool:
        """Packs what is a regular file. Raises OSError, ENXIO when it is none."""
        file = os.open(name, _FILE, dir_fd=folder)
        now = os.fstat(file)
        if not stat.S_ISREG(now.st_mode):
            os.close(file)
            raise OSError(errno.ENXIO, "no file")
        self.file(file, path, now)
        return False

    def _other(self, descent: Descent, path: bytes, name: bytes) -> bool:
        """Packs whatever it is."""
        now = os.stat(name, dir_fd=descent.here, follow_symlinks=False)
        if stat.S_ISREG(now.st_mode):
            return self._regular(descent.here, path, name)
        if stat.S_ISLNK(now.st_mode):
            try:
                target = os.readlink(name, dir_fd=descent.here)
            except OSError as error:  # EINVAL: no link any more
                raise OSError(errno.ELOOP if error.errno == errno.EINVAL else error.errno, "no link") from None
            self._header(path, ustar.SYMLINK, now, link=target)
        elif stat.S_ISDIR(now.st_mode):
            return self._down(descent, path, name)
        else:
            self._skipped += 1
        return False

    def _down(self, descent: Descent, path: bytes, name: bytes) -> bool:
        """Packs a folder that is there, and goes into it if the user may."""
        try:
            descent.down(name)
        except PermissionError:
            self._header(path + b"/", ustar.FOLDER, os.stat(name, dir_fd=descent.here, follow_symlinks=False))
            self._unreadable += 1
            return False
        self._header(path + b"/", ustar.FOLDER, os.fstat(descent.here))
        return True

    def _count(self) -> None:
        self._entries += 1
        if self._entries > limits.ARCHIVE_ENTRIES:
            raise Refused(TOO_LARGE, f"There are more than {limits.ARCHIVE_ENTRIES} entries.")

    def _header(self, path: bytes, kind: bytes, now: os.stat_result, size: int = 0, link: bytes = b"") -> None:
        self._count()
        records = ustar.records(path, now.st_mtime_ns, link)
        if records:
            self._output.write(ustar.pax(records))
        self._output.write(
            ustar.header(path, kind, now.st_mode & _PERMISSIONS, size, now.st_mtime_ns // 1_000_000_000, link)
        )

    def _sparse(self, file: int, path: bytes, now: os.stat_result, segments: list[tuple[int, int]]) -> None:
        """Packs a file with holes as GNU tar does in pax archives, its format 1.0: the map of its data comes first in what it holds."""
        table = b"".join([b"%d\n" % len(segments), *(b"%d\n%d\n" % segment for segment in segments)])
        table += ustar.padding(len(table))
        size = len(table) + sum(length for _, length in segments)
        records = [record for record in ustar.records(path, now.st_mtime_ns) if record[0] != b"path"]
        sparse = [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", path)]
        sparse.append((b"GNU.sparse.realsize", b"%d" % now.st_size))
        self._count()
        self._output.write(ustar.pax(records + sparse))
        short = b"GNUSparseFile.0/" + path.rpartition(b"/")[2]
        self._output.write(
            ustar.header(short, ustar.FILE, now.st_mode & _PERMISSIONS, size, now.st_mtime_ns // 1_000_000_000)
        )
        self._output.write(table)
        for start, length in segments:
            self._output.copy(file, start, length, path)
        self._output.write(ustar.padding(size))

    def _whole(self, file: int, path: bytes, now: os.stat_result) -> None:
        """Packs a file without holes."""
        self._count()
        size = now.st_size
        head = ustar.file_header(path, now.st_mode & _PERMISSIONS, size, now.st_mtime_ns)
        if size <= _SMALL:
            data = os.read(file, size) if size else b""
            if len(data) == size:
                self._output.write(b"%b%b%b" % (head, data, bytes(-size % ustar.BLOCK)))
                return
        self._output.write(head)
        self._output.copy(file, 0, size, path)
        self._output.write(ustar.padding(size))
