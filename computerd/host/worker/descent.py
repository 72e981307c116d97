"""A place in a tree of folders, reached from its top without following a link, and held by one descriptor however deep it is."""

from __future__ import annotations

import errno
import os
from typing import Final

_FLAGS: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Descent:
    """Goes down into folders, and up again to where it came from.

    To go up it opens `..`, and makes sure by device and inode that it is the folder it came down through: somebody may move folders meanwhile.

    Attributes:
        here: A descriptor of the folder.
        depth: Below the top.
    """

    def __init__(self, top: int, access: int = os.O_RDONLY) -> None:
        """Begins in a folder, whose descriptor it takes over.

        Args:
            top: Opened with `access`.
            access: O_RDONLY or O_PATH, for the folders to come.
        """
        self.here = top
        self._access = access | _FLAGS
        self._above: list[tuple[int, int]] = []

    @property
    def depth(self) -> int:
        """Folders below the top."""
        return len(self._above)

    def down(self, name: bytes) -> None:
        """Goes into a folder. Raises OSError, and stays where it is: ENOTDIR or ELOOP for a link, EACCES for one that may only be listed."""
        below = os.open(name, self._access, dir_fd=self.here)
        if not self._access & os.O_PATH:
            try:
                # as `..` is looked up in it on the way back
                os.stat(b".", dir_fd=below)
            except OSError:
                os.close(below)
                raise
        self._above.append(_identity(self.here))
        self._go(below)

    def up(self) -> None:
        """Goes back. Raises OSError: EXDEV at the top, EAGAIN when it was moved elsewhere."""
        if not self._above:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        self._go(os.open(b"..", self._access, dir_fd=self.here))
        if _identity(self.here) != self._above.pop():
            raise OSError(errno.EAGAIN, "a folder was moved meanwhile")

    def close(self) -> None:
        """Lets go of it."""
        os.close(self.here)

    def _go(self, folder: int) -> None:
        os.close(self.here)
        self.here = folder


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
