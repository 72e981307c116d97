"""Names of the workspace: how they are spelled, and how they are opened without ever leaving it.

A path is bytes, relative to the workspace, without empty parts, `.` and `..`; `b""` is the workspace. Where its bytes are UTF-8, it is spelled
as they are. Otherwise all bytes that are not ASCII and all percent signs in it are spelled `%XX`, and it is called encoded.

openat2(2) follows links in the kernel and refuses to go above the root. Where there is none, `_Walk` goes from folder to folder with O_NOFOLLOW
and reads links itself.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from computerd.host.worker import kernel, limits
from computerd.host.worker.descent import Descent
from computerd.host.worker.failures import INVALID_PATH, Refused

_MAX_LINKS: Final = 40
"""Links in one path, as the kernel counts them (path_resolution(7))."""
_TRIES: Final = 64
"""Of a path that changes while it is opened."""
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)


def parse(text: str) -> bytes:
    """The bytes of a path as it was given. Raises Refused, invalid_path."""
    try:
        path = text.encode()
    except UnicodeEncodeError:
        raise _invalid("It is not UTF-8.") from None
    _check(path)
    return path


def spell(path: bytes) -> tuple[str, bool]:
    """How the API spells it, and whether it is encoded."""
    try:
        return path.decode(), False
    except UnicodeDecodeError:
        return "".join(chr(byte) if byte < 0x80 and byte != 0x25 else f"%{byte:02X}" for byte in path), True


def unspell(path: bytes) -> bytes | None:
    """What it says if it is an encoded spelling; None if it is none, as only paths that are not UTF-8 have one."""
    first, *parts = path.split(b"%")
    found = bytearray(first)
    try:
        for part in parts:
            found.append(int(part[:2], 16) if part[:2].isalnum() and len(part) > 1 else -1)
            found += part[2:]
        _check(bytes(found))
    except (ValueError, Refused):
        return None
    if found.count(b"/") != path.count(b"/"):
        return None
    try:
        found.decode()
    except UnicodeDecodeError:
        return bytes(found)
    return None


def candidates(text: str) -> list[bytes]:
    """What a path that was given may name: itself, or else what it spells."""
    path = parse(text)
    other = unspell(path) if b"%" in path else None
    return [path] if other is None else [path, other]


def join(folder: bytes, name: bytes) -> bytes:
    """The path of a name in a folder."""
    return folder + b"/" + name if folder else name


class Root:
    """A folder that nothing leads out of: the workspace."""

    def __init__(self, descriptor: int, *, walk: bool = False) -> None:
        """Args: `walk`: Do without openat2."""
        self._descriptor = descriptor
        self._walk = walk

    @classmethod
    def here(cls) -> Root:
        """The folder that the process is in."""
        return cls(os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))

    def open(self, path: bytes, flags: int) -> int:
        """Opens a path. Links in it are followed as long as they stay beneath; the last part too, unless `flags` have O_NOFOLLOW.

        Raises:
            OSError: EXDEV when it leads out.
        """
        for _ in range(_TRIES):
            try:
                if self._walk:
                    return _Walk(self._descriptor).open(path, flags)
                return kernel.open_beneath(self._descriptor, path or b".", flags)
            except OSError as error:
                if error.errno in (errno.ENOSYS, errno.EPERM) and not self._walk and not _works(self._descriptor):
                    self._walk = True
                elif error.errno != errno.EAGAIN:
                    raise
        raise OSError(errno.EBUSY, "it changes all the time")

    def find(self, text: str, flags: int) -> tuple[bytes, int]:
        """Opens a path as it was given, or else as a spelling. Returns what it was, and the descriptor. Raises OSError, Refused."""
        path, *others = candidates(text)
        try:
            return path, self.open(path, flags)
        except OSError as error:
            if not others or error.errno not in _MISSING:
                raise
        return others[0], self.open(others[0], flags)

    def find_parent(self, text: str) -> tuple[bytes, int]:
        """The path that was given, and its parent folder with O_PATH; the path need not be there.

        The one that is there, of the path and what it spells; or else the first that could be. Raises OSError, Refused.
        """
        paths = candidates(text)
        for path in paths:
            try:
                os.close(self.open(path, os.O_PATH | os.O_NOFOLLOW))
            except OSError as error:
                if error.errno not in _MISSING:
                    raise
            else:
                return path, self.open(path.rpartition(b"/")[0], os.O_PATH | os.O_DIRECTORY)
        for path in paths[:-1]:
            try:
                return path, self.open(path.rpartition(b"/")[0], os.O_PATH | os.O_DIRECTORY)
            except OSError as error:
                if error.errno not in _MISSING:
                    raise
        return paths[-1], self.open(paths[-1].rpartition(b"/")[0], os.O_PATH | os.O_DIRECTORY)


class _Walk(Descent):
    """One path, resolved part by part."""

    def __init__(self, root: int) -> None:
        super().__init__(os.dup(root), os.O_PATH)
        self._links = 0

    def open(self, path: bytes, flags: int) -> int:
        """As `Root.open`, once."""
        parts = path.split(b"/")[::-1] if path else []
        try:
            while parts:
                found = self._step(parts.pop(), parts, flags)
                if found is not None:
                    return found
            return os.open(b".", flags | os.O_CLOEXEC, dir_fd=self.here)
        finally:
            self.close()

    def _step(self, name: bytes, parts: list[bytes], flags: int) -> int | None:
        """Goes on by one part; the rest is `parts`, last first. Returns what was to be opened, at the end."""
        if name in (b"", b"."):
            return None
        if name == b"..":
            self.up()
            return None
        last = not parts
        link = self._link(name) if not (last and flags & os.O_NOFOLLOW) else None
        if link is not None:
            parts += link.split(b"/")[::-1]
        elif last:
            return self._last(name, flags)
        else:
            self.down(name)
        return None

    def _link(self, name: bytes) -> bytes | None:
        """The target of a link; None if it is none. Raises OSError for one that may not be followed."""
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.here)
        try:
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                return None
            target = os.readlink(b"", dir_fd=found)
        finally:
            os.close(found)
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith(b"/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return target

    def _last(self, name: bytes, flags: int) -> int:
        """Opens the last part, which was no link a moment ago."""
        try:
            found = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.here)
        except OSError as error:
            if error.errno == errno.ELOOP and not flags & os.O_NOFOLLOW:
                raise OSError(errno.EAGAIN, "it has become a link") from None
            raise
        if flags & os.O_PATH and not flags & os.O_NOFOLLOW and stat.S_ISLNK(os.fstat(found).st_mode):
            os.close(found)
            raise OSError(errno.EAGAIN, "it has become a link")
        return found


def _works(root: int) -> bool:
    """Whether there is openat2, after it has failed."""
    try:
        os.close(kernel.open_beneath(root, b".", os.O_PATH))
    except OSError:
        return False
    return True


def _invalid(message: str) -> Refused:
    return Refused(INVALID_PATH, message, "path")


def _check(path: bytes) -> None:
    """Raises Refused for what names no place."""
    if not path:
        return
    if len(path) > limits.PATH_BYTES:
        raise _invalid(f"It is longer than {limits.PATH_BYTES} bytes.")
    if b"\0" in path:
        raise _invalid("It holds a NUL.")
    if path.startswith(b"/"):
        raise _invalid("It is absolute; it must be relative to the workspace.")
    parts = path.split(b"/")
    if b".." in parts:
        raise _invalid("It holds `..`.")
    if b"" in parts or b"." in parts:
        raise _invalid("It holds an empty part or a `.`.")
