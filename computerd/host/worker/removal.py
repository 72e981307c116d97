"""Removes a tree by descriptors, without following a link and without recursion."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from itertools import islice
from typing import Final

from computerd.host.worker.descent import Descent

_BATCH: Final = 10_000
"""Names that are held of one folder at a time."""
_FOLDERS: Final = (errno.EISDIR, errno.EPERM)
"""What unlink(2) says of a folder; POSIX has EPERM."""


def remove(folder: int, name: bytes, tick: Callable[[], None]) -> bool:
    """Removes a name in a folder, and what is below it.

    Args:
        folder: A descriptor, perhaps with O_PATH.
        name: Of a file, a link or a folder.
        tick: Called before each entry; what it raises ends the removal.

    Returns:
        Whether nothing is left. What the user may not remove is left, and so is what is moved elsewhere meanwhile.
    """
    try:
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        return _remove_folder(folder, name, tick) if error.errno in _FOLDERS else error.errno == errno.ENOENT
    return True


def _remove_folder(folder: int, name: bytes, tick: Callable[[], None]) -> bool:
    try:
        descent = Descent(_open(folder, name))
    except OSError:
        return False
    try:
        _empty(descent, tick)
    except OSError:
        return False
    finally:
        descent.close()
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


class _Level:
    """What is left to do in a folder. Of a very large one it holds a part at a time, and asks again as long as something of it could go."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self._names: list[bytes] = []
        self._again = True
        self.removed = True

    def next(self, folder: int) -> bytes | None:
        """The next name, or None."""
        if not self._names and self._again and self.removed:
            with os.scandir(folder) as entries:
                self._names = [os.fsencode(entry.name) for entry in islice(entries, _BATCH)]
            self._again = len(self._names) == _BATCH
            self.removed = False
        return self._names.pop() if self._names else None


def _empty(descent: Descent, tick: Callable[[], None]) -> None:
    """Removes what is in a folder. Raises OSError when it can't find its way any more."""
    levels = [_Level(b"")]
    while levels:
        tick()
        name = levels[-1].next(descent.here)
        if name is None:
            done = levels.pop()
            if levels:
                descent.up()
                levels[-1].removed |= _done(os.rmdir, done.name, descent.here)
        elif _done(os.unlink, name, descent.here):
            levels[-1].removed = True
        elif _enter(descent, name):
            levels.append(_Level(name))


def _done(remove: Callable[..., None], name: bytes, folder: int) -> bool:
    try:
        remove(name, dir_fd=folder)
    except OSError:
        return False
    return True


def _enter(descent: Descent, name: bytes) -> bool:
    """Goes into what could not be unlinked, if it is a folder."""
    try:
        _allow(descent.here, name)
        descent.down(name)
    except OSError:
        return False
    return True


def _open(folder: int, name: bytes) -> int:
    _allow(folder, name)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _allow(folder: int, name: bytes) -> None:
    """Lets the user into a folder of his own that keeps him out. By a descriptor, so that it is not what a link names."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(found).st_mode
        if stat.S_IMODE(mode) & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{found}", 0o700)
    finally:
        os.close(found)
