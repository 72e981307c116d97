"""The tree that an archive makes: everything in it is made anew, by descriptors that follow no link.

So nothing is written that was there before, and a folder that somebody swaps for a link is found out (ENOTDIR). Permission bits pass through the
umask; set-user-id, set-group-id and sticky never come out of an archive. What a folder's mode and time are to be is done at the end.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from computerd.host.worker import limits
from computerd.host.worker.archive import invalid, shown
from computerd.host.worker.failures import TOO_LARGE, UNAVAILABLE, Refused, of_system
from computerd.host.worker.paths import Root, join

_PERMISSIONS: Final = 0o777
_OWN: Final = 0o700
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FOLDERS: Final = 64
_MAX_NAMES: Final = 16 << 20
"""Bytes of the paths of folders, and of links that must be looked at again, which are kept until the end."""
_NOT_PLAIN: Final = (b"", b".", b"/")
_CANT_BE: Final = {
    errno.EEXIST: "is in it twice",
    errno.ENOTDIR: "leads through what is no folder",
    errno.ELOOP: "leads through a link",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.EINVAL: "has a name that can't be here",
}


def clean(name: bytes) -> bytes:
    """A name as a path in the tree, `b""` for its top. Raises Refused."""
    name = name.removeprefix(b"./")
    if (
        b"/." not in name
        and b"//" not in name
        and b"\0" not in name
        and name[:1] not in _NOT_PLAIN
        and name[-1:] != b"/"
        and len(name) <= limits.PATH_BYTES
    ):
        return name  # as nearly all are
    if b"\0" in name or name.startswith(b"/"):
        raise invalid(f"{shown(name)} is absolute." if name.startswith(b"/") else "A name in it holds a NUL.")
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise invalid(f"{shown(name)} leads out of the archive.")
    path = b"/".join(parts)
    if len(path) > limits.PATH_BYTES:
        raise invalid(f"{shown(path)} is longer than {limits.PATH_BYTES} bytes.")
    return path


def umask() -> int:
    """The process's umask, read without changing it, as other threads make files."""
    with suppress(OSError), open("/proc/self/status", "rb") as lines:
        for line in lines:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    return 0o022


class Tree:
    """A tree below a folder.

    Attributes:
        files: Regular files and links, so far.
    """

    def __init__(self, top: int, most: int) -> None:
        """Begins.

        Args:
            top: A descriptor of the folder.
            most: Entries that it may have, with the folders that are made because something is said to be in them.
        """
        self._top = top
        self._most = most
        self._entries = 0
        self._names = 0
        self._umask = umask()
        self._folders: dict[bytes, tuple[int, int | None]] = {b"": (_PERMISSIONS, None)}
        self._open: dict[bytes, int] = {}
        self._doubtful: list[bytes] = []
        self.files = 0

    def close(self) -> None:
        """Lets go of its descriptors."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def folder(self, path: bytes, mode: int, mtime_ns: int) -> None:
        """Adds a folder; one that is there gets these bits and this time."""
        before = self._entries
        self._at(path, make=True)
        if self._entries == before:  # it was there, or it is the top
            self._count()
        self._remember(path)
        self._folders[path] = (mode & _PERMISSIONS, mtime_ns)

    def file(self, path: bytes, mode: int, mtime_ns: int, content: bytes | Callable[[int], None]) -> None:
        """Adds a file: with that in it, or filled by what takes its descriptor."""
        folder, name = self._place(path)
        try:
            file = os.open(name, _NEW, mode & _PERMISSIONS, dir_fd=folder)
        except OSError as error:
            raise _refused(error, path) from None
        try:
            if not isinstance(content, bytes):
                content(file)
            elif content and os.write(file, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.utime(file, ns=(mtime_ns, mtime_ns))
        finally:
            os.close(file)
        self.files += 1

    def kept(self, path: bytes, link: Callable[[int, bytes], None]) -> None:
        """Adds a file that is somewhere else already: `link` gives it the name in the folder."""
        folder, name = self._place(path)
        try:
            link(folder, name)
        except FileExistsError as error:
            raise _refused(error, path) from None
        self.files += 1

    def symlink(self, path: bytes, target: bytes, mtime_ns: int) -> None:
        """Adds a link, which must lead to a place in the tree, be it one that is not there."""
        depth = path.count(b"/")
        if not target or b"\0" in target:
            raise invalid(f"{shown(path)} is a link to nothing.")
        parts = [part for part in target.split(b"/") if part not in (b"", b".")]
        if target.startswith(b"/") or _climbs(parts, depth):
            raise invalid(f"{shown(path)} is a link that leads out of the archive.")
        if b".." in parts[_leading(parts) :]:
            self._remember(path)
            self._doubtful.append(path)
        folder, name = self._place(path)
        try:
            os.symlink(target, name, dir_fd=folder)
        except OSError as error:
            raise _refused(error, path) from None
        os.utime(name, ns=(mtime_ns, mtime_ns), dir_fd=folder, follow_symlinks=False)
        self.files += 1

    def hard_link(self, path: bytes, first: bytes) -> None:
        """Adds another name of a file that is in the tree."""
        above, _, name = first.rpartition(b"/")
        try:
            source = os.dup(self._at(above, make=False))
        except Refused:
            raise _no_such(path) from None
        try:
            if stat.S_ISDIR(os.stat(name or b".", dir_fd=source, follow_symlinks=False).st_mode):
                raise invalid(f"{shown(path)} is a hard link to a folder.")
            folder, new = self._place(path)
            os.link(name, new, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise _no_such(path) from None
        except OSError as error:
            raise _refused(error, path) from None
        finally:
            os.close(source)
        self.files += 1

    def finish(self, check: Callable[[], None]) -> None:
        """Makes sure of the links, and gives folders their modes and times. Raises Refused; and what `check` raises, which is called often."""
        root = Root(self._top)
        for path in self._doubtful:
            check()
            try:
                os.close(root.open(path, os.O_PATH))
            except OSError as error:  # one that leads nowhere now may lead out when something else is put there
                where = (
                    "out of the archive" if error.errno == errno.EXDEV else "through `..` to what is not in the archive"
                )
                raise invalid(f"{shown(path)} is a link that leads {where}.") from None
        for path in sorted(self._folders, reverse=True):  # what is below a folder comes before it
            check()
            mode, mtime_ns = self._folders[path]
            descriptor = self._at(path, make=False)
            now = stat.S_IMODE(os.fstat(descriptor).st_mode)
            wanted = mode & ~self._umask | now & ~_PERMISSIONS
            if now != wanted:
                os.chmod(descriptor, wanted)
            if mtime_ns is not None:
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))

    def _count(self) -> None:
        """Counts an entry. Raises Refused."""
        self._entries += 1
        if self._entries > self._most:
            raise Refused(TOO_LARGE, f"It has more than {self._most} entries.")

    def _remember(self, path: bytes) -> None:
        self._names += len(path)
        if self._names > _MAX_NAMES:
            raise Refused(TOO_LARGE, "The names of its folders are too long, all of them together.")

    def _place(self, path: bytes) -> tuple[int, bytes]:
        """The folder of a new entry, and its name there."""
        self._count()
        above, _, name = path.rpartition(b"/")
        if not name:
            raise invalid("The top of it is no folder.")
        return self._at(above, make=True), name

    def _at(self, path: bytes, *, make: bool) -> int:
        """A descriptor of a folder, good until the next call."""
        found = self._open.get(path) if path else self._top
        if found is not None:
            return found
        above, left = path, []
        while above and above not in self._open:
            above, _, name = above.rpartition(b"/")
            left.append(name)
        here = self._open[above] if above else self._top
        for name in reversed(left):
            above = join(above, name)
            here = self._down(here, name, above, make=make)
            self._open[above] = here
            if len(self._open) > _OPEN_FOLDERS:
                os.close(self._open.pop(next(iter(self._open))))
        return here

    def _down(self, folder: int, name: bytes, path: bytes, *, make: bool) -> int:
        try:
            try:
                return os.open(name, _FOLDER, dir_fd=folder)
            except FileNotFoundError:
                if not make:
                    raise
            self._count()
            os.mkdir(name, _PERMISSIONS & ~self._umask | _OWN, dir_fd=folder)
            return os.open(name, _FOLDER, dir_fd=folder)
        except OSError as error:
            raise _refused(error, path) from None


def _leading(parts: Iterable[bytes]) -> int:
    """How many `..` it begins with."""
    number = 0
    for part in parts:
        if part != b"..":
            break
        number += 1
    return number


def _climbs(parts: Iterable[bytes], depth: int) -> bool:
    """Whether a path goes above the top, seen from so many folders below it and as if there were no links."""
    for part in parts:
        depth += -1 if part == b".." else 1
        if depth < 0:
            return True
    return False


def _no_such(path: bytes) -> Refused:
    return invalid(f"{shown(path)} is a hard link to what is not in the archive before it.")


def _refused(error: OSError, path: bytes) -> Refused:
    words = _CANT_BE.get(error.errno or 0)
    if words is not None:
        return invalid(f"{shown(path)} {words}.")
    if error.errno == errno.ENOENT:
        return Refused(UNAVAILABLE, "Somebody has removed what was unpacked.")
    return of_system(error)
