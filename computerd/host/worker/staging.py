"""A hidden folder beside the place where an archive is to land: it is filled there, and then renamed.

Nobody sees it in a listing or in an archive. Who fills it holds a lock on it (flock(2)), which the kernel takes back when the process dies;
what a worker left that was killed is removed by the next one that unpacks beside it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from computerd.host.worker import kernel
from computerd.host.worker.failures import PATH_EXISTS, Refused
from computerd.host.worker.removal import remove

_PREFIX: Final = b".computerd-"
_NAME: Final = re.compile(rb"\.computerd-[0-9a-f]{32}\Z")
_OLD: Final = 60.0
"""Seconds after which a folder that nobody holds a lock on is a leftover."""
_TRIES: Final = 16
"""Of a place that comes and goes meanwhile."""
_CANT: Final = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_name(name: bytes) -> bool:
    """Whether a folder of this name is not to be seen, because it is not in its place yet."""
    return name.startswith(_PREFIX) and _NAME.match(name) is not None


def exists(folder: int, name: bytes) -> bool:
    """Whether anything has that name, be it a link that leads nowhere."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def taken() -> Refused:
    """The place is not free."""
    return Refused(
        PATH_EXISTS, "Something is at that path already; say `replace=true` to put this in its place.", "path"
    )


class Staging:
    """One such folder.

    Attributes:
        folder: A descriptor of it.
    """

    def __init__(self, parent: int) -> None:
        """Makes it in `parent`, which may be a descriptor with O_PATH. Raises OSError."""
        self._parent = parent
        self._name = _PREFIX + os.urandom(16).hex().encode()
        os.mkdir(self._name, 0o700, dir_fd=parent)
        try:
            self.folder = os.open(self._name, _FOLDER, dir_fd=parent)
        except OSError:
            self.remove(_nothing)
            raise
        with suppress(OSError):  # where there are no locks, leftovers stay
            fcntl.flock(self.folder, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def land(self, name: bytes, replace: bool) -> bool:
        """Renames it; returns whether something was there, which has the folder's old name now, for `remove`.

        Raises:
            Refused: `path_exists`.
            OSError: It stays where it is.
        """
        for _ in range(_TRIES):
            try:
                if replace and self._exchange(name):
                    return True
                self._rename(name)
            except FileExistsError:
                if not replace:
                    raise taken() from None
            else:
                return False
        raise OSError(errno.EBUSY, "it comes and goes")

    def remove(self, tick: Callable[[], None]) -> bool:
        """Removes what has its name, and whether nothing of it is left; see `removal.remove`."""
        return remove(self._parent, self._name, tick)

    def close(self) -> None:
        """Lets go of its descriptor, and of the lock."""
        os.close(self.folder)

    def _exchange(self, name: bytes) -> bool:
        """Swaps it with what is there; False when there is nothing."""
        try:
            kernel.rename(self._name, name, self._parent, kernel.EXCHANGE)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in _CANT:
                raise
            return self._exchange_in_steps(name)
        return True

    def _exchange_in_steps(self, name: bytes) -> bool:
        """Where the file system can't swap: for a moment nothing is there."""
        if not exists(self._parent, name):
            return False
        aside = _PREFIX + os.urandom(16).hex().encode()
        os.rename(name, aside, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        try:
            os.rename(self._name, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except OSError:
            os.rename(aside, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
            raise
        self._name = aside
        return True

    def _rename(self, name: bytes) -> None:
        """Raises FileExistsError."""
        try:
            kernel.rename(self._name, name, self._parent, kernel.NOREPLACE)
        except OSError as error:
            if error.errno not in _CANT:
                raise
            if exists(self._parent, name):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
            os.rename(self._name, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)


def sweep(parent: int, tick: Callable[[], None], age: float = _OLD) -> None:
    """Removes leftovers in a folder.

    Args:
        parent: A descriptor, perhaps with O_PATH.
        tick: See `removal.remove`.
        age: Seconds that they must have.
    """
    with suppress(OSError):
        folder = os.open(b".", _FOLDER, dir_fd=parent)
        try:
            with os.scandir(folder) as entries:
                names = [name for name in (os.fsencode(entry.name) for entry in entries) if is_name(name)]
            for name in names:
                if _is_leftover(folder, name, age):
                    remove(folder, name, tick)
        finally:
            os.close(folder)


def _is_leftover(folder: int, name: bytes, age: float) -> bool:
    try:
        now = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if now.st_uid != os.geteuid() or time.time() - now.st_ctime < age:
            return False
        if not stat.S_ISDIR(now.st_mode):
            return True
        found = os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        return True  # it has the modes of what was replaced: nobody fills it
    except OSError:
        return False
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(found)
    return True


def _nothing() -> None:
    """For a removal that nothing ends."""
