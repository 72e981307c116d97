"""Writes an archive's members into a new folder, and nowhere else, whoever made the archive.

Every folder on the way to a name is opened by itself and never through a link; no name is written twice; nothing gets a set-id bit, an owner
or a device. A symbolic link stays only if it can't lead out: its target is relative and goes up, by `..` at its beginning only, no further
than the top. The folder of a link is a real one, so those steps are what they seem; what comes after them goes down, through links of which
the same is true. By induction no chain of links leaves the top.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from computerd.contract import limits
from computerd.opc.failure import Failure
from computerd.opc.plain import shortened, visible
from computerd.opc.unpack import Member, invalid

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_DEPTH: Final = 1000
MAX_LINK: Final = 4095
MAX_NAMES: Final = 16 * limits.MIB
"""Characters of the paths of folders, and of links that are left out, which are kept until the end."""


class Members(Protocol):
    """What is to be written, one after the other."""

    def __iter__(self) -> Iterator[Member]:
        """Each of them."""

    def data(self) -> Iterator[bytes]:
        """The contents of the current one, if it is a file."""


class Landing:
    """Into one folder.

    Args:
        top: An empty folder that nobody else writes to.
        counted: Told of the bytes as they are written.
    """

    def __init__(self, top: str, counted: Callable[[int], None]) -> None:
        self._top = os.open(top, _FOLDER)
        self._counted = counted
        self._umask = _umask()
        self._folder: tuple[tuple[str, ...], int] = ((), self._top)
        self._folders: dict[str, tuple[int, int]] = {}
        self._names = 0
        self._made = 0
        self.files = 0
        self.kept = 0
        self.bytes = 0
        self.refused: list[str] = []
        """The links that were left out because they lead outside; long names are shortened."""

    def close(self) -> None:
        """Lets go of the folder."""
        self._leave()
        os.close(self._top)

    def take(self, archive: Members) -> None:
        """Writes all of it.

        Raises:
            Failure: It holds what it must not.
            OSError: Something can't be written.
        """
        for count, member in enumerate(archive, 1):
            if count > limits.MAX_ARCHIVE_ENTRIES:
                raise invalid(f"it holds more than {limits.MAX_ARCHIVE_ENTRIES} entries")
            parts = _parts(member.name)
            if member.kind == "directory":
                self._make(parts, member)
            elif not parts:
                raise invalid("its top is no folder")
            else:
                try:
                    self._write(parts, member, archive.data())
                except FileExistsError:
                    raise invalid(f"{_shown(member.name)} is there twice") from None
        self._finish()

    def _write(self, parts: tuple[str, ...], member: Member, data: Iterator[bytes]) -> None:
        folder = self._open(parts[:-1])
        if member.kind == "file":
            self._file(parts[-1], folder, member, data)
        elif member.kind == "symlink":
            self._link(parts, folder, member)
        elif member.kind == "kept":
            self._keep(parts[-1], folder, member)
        else:
            self._hard_link(parts[-1], folder, member)

    def _file(self, name: str, folder: int, member: Member, data: Iterator[bytes]) -> None:
        self.bytes += member.size
        if self.bytes > limits.MAX_ARCHIVE_BYTES:
            raise Failure("too_large", f"the archive holds more than {limits.MAX_ARCHIVE_BYTES} bytes.")
        # the kernel takes the umask off; one system call more for each file would be felt. What is made can be written, whatever its mode
        fd = os.open(name, _NEW, member.mode & 0o777, dir_fd=folder)
        try:
            if member.holes is None:
                self._plain(fd, data)
            else:
                self._sparse(fd, member, data)
            os.utime(fd, ns=(member.mtime_ns, member.mtime_ns))
        finally:
            os.close(fd)
        self.files += 1

    def _plain(self, fd: int, data: Iterator[bytes]) -> None:
        for piece in data:
            _all(fd, piece)
            self._counted(len(piece))

    def _sparse(self, fd: int, member: Member, data: Iterator[bytes]) -> None:
        piece = b""
        for place, length in member.holes or ():
            os.lseek(fd, place, os.SEEK_SET)
            left = length
            while left:
                piece = piece or next(data)
                _all(fd, piece[:left])
                self._counted(len(piece[:left]))
                left, piece = left - len(piece[:left]), piece[left:]
        os.ftruncate(fd, member.size)

    def _link(self, parts: tuple[str, ...], folder: int, member: Member) -> None:
        if not stays(member.target, len(parts) - 1):
            self.refused.append(shortened(member.name, 200))
            self._remember(self.refused[-1])
            return
        os.symlink(member.target, parts[-1], dir_fd=folder)
        os.utime(parts[-1], ns=(member.mtime_ns, member.mtime_ns), dir_fd=folder, follow_symlinks=False)
        self.files += 1

    def _hard_link(self, name: str, folder: int, member: Member) -> None:
        source = _parts(member.target)
        try:
            there = self._descend(source[:-1], make=False)
        except OSError:
            raise invalid(f"{_shown(member.name)} is a link to what is not in it") from None
        try:
            found = os.stat(source[-1], dir_fd=there, follow_symlinks=False) if source else None
            if found is None or not stat.S_ISREG(found.st_mode):
                raise invalid(f"{_shown(member.name)} is a hard link to no file")
            os.link(source[-1], name, src_dir_fd=there, dst_dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise invalid(f"{_shown(member.name)} is a link to what is not in it") from None
        finally:
            os.close(there)
        self.files += 1

    def _keep(self, name: str, folder: int, member: Member) -> None:
        """A file of this host, at `target`: by a second name, or by a copy where the file system has none."""
        self.kept += 1
        try:
            os.link(member.target, name, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:
            there = os.open(member.target, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            made = os.open(name, _NEW, member.mode & 0o777, dir_fd=folder)
            with open(there, "rb") as old, open(made, "wb") as new:
                shutil.copyfileobj(old, new)
                new.flush()
                os.utime(new.fileno(), ns=(member.mtime_ns, member.mtime_ns))

    # --- folders

    def _make(self, parts: tuple[str, ...], member: Member) -> None:
        self._open(parts)
        name = "/".join(parts)
        if name not in self._folders:
            self._remember(name)
        self._folders[name] = ((member.mode | 0o700) & ~self._umask, member.mtime_ns)

    def _remember(self, name: str) -> None:
        self._names += len(name)
        if self._names > MAX_NAMES:
            raise invalid("the names of its folders are too long, all of them together")

    def _mkdir(self, name: str, above: int) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
            self._made += 1
            if self._made > limits.MAX_ARCHIVE_ENTRIES:  # an entry may have a thousand above it
                raise invalid(f"it holds more than {limits.MAX_ARCHIVE_ENTRIES} folders")

    def _open(self, parts: tuple[str, ...]) -> int:
        """The folder, made if it is not there. It stays open until another is asked for."""
        if self._folder[0] != parts:
            fd = self._descend(parts, make=True)
            self._leave()
            self._folder = (parts, fd)
        return self._folder[1]

    def _leave(self) -> None:
        if self._folder[1] != self._top:
            os.close(self._folder[1])
        self._folder = ((), self._top)

    def _descend(self, parts: tuple[str, ...], *, make: bool) -> int:
        start, rest = self._top, parts
        known = self._folder[0]
        if known and parts[: len(known)] == known:
            start, rest = self._folder[1], parts[len(known) :]
        fd = os.dup(start)
        try:
            for name in rest:
                if make:
                    self._mkdir(name, fd)
                below = os.open(name, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
        except NotADirectoryError:
            os.close(fd)
            raise invalid(f"{_shown('/'.join(parts))} is a folder and something else") from None
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _finish(self) -> None:
        """Modes and times of the folders, those below first: until now they had to be open for us."""
        self._leave()
        for name in sorted(self._folders, key=_depth, reverse=True):
            mode, mtime = self._folders[name]
            fd = self._descend(_parts(name), make=False)
            try:
                os.fchmod(fd, mode)
                os.utime(fd, ns=(mtime, mtime))
            finally:
                os.close(fd)


def stays(target: str, depth: int) -> bool:
    """Whether a link in a folder at `depth` below the top can lead nowhere else than below the top."""
    if not target or target.startswith("/") or "\0" in target or len(os.fsencode(target)) > MAX_LINK:
        return False
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    return ups <= depth and ".." not in parts[ups:]


def _parts(name: str) -> tuple[str, ...]:
    if name.startswith("/") or "\0" in name:
        raise invalid(f"{_shown(name)} is no place in it")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts or len(parts) > MAX_DEPTH:
        raise invalid(f"{_shown(name)} is no place in it")
    return parts


def _depth(name: str) -> int:
    return name.count("/") + 1 if name else 0


def _all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _shown(name: str) -> str:
    return visible(shortened(name, 200))
