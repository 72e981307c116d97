"""Files of the folder that an archive replaces, which the new folder is to have as well: by a second name, without a byte that moves.

The archive says what each is like, and it is taken only if it is so. Between the look and the landing the user's other programs may do to it
what they like, as they may at any time: it is their file.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from computerd.host.worker.archive import Entry, invalid, shown
from computerd.host.worker.failures import FULL, Refused

_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TOLERANCE_NS: Final = 2_000_000
"""Listings have times in milliseconds, and whoever compares them may have rounded once more."""
_SET_ID: Final = 0o7000


class Old:
    """The folder that is replaced.

    Args:
        parent: A descriptor of the folder that it is in.
        name: Of it.
    """

    def __init__(self, parent: int, name: bytes) -> None:
        self._parent = parent
        self._name = name
        self._top: int | None = None
        self._here: tuple[bytes, int] | None = None

    def link(self, path: bytes, entry: Entry, folder: int, name: bytes) -> None:
        """Makes a file of the old folder known by a name in another folder too.

        Args:
            path: Of the file, in the old folder.
            entry: What it is like.
            folder: A descriptor of the other folder, where nobody else makes names.
            name: The new name.

        Raises:
            Refused: There is no such file.
            FileExistsError: The new name is taken.
            OSError: The disk is full: a name takes room too.
        """
        above, _, base = path.rpartition(b"/")
        try:
            os.link(base, name, src_dir_fd=self._find(above), dst_dir_fd=folder, follow_symlinks=False)
            # what was linked, whatever has the old name by now
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno in FULL:
                raise
            raise _not_there(path) from None
        # the kernel may let the user link what is somebody else's (proc(5), protected_hardlinks)
        right = (
            stat.S_ISREG(found.st_mode)
            and found.st_uid == os.geteuid()
            and found.st_nlink == 2
            and not found.st_mode & _SET_ID
            and (found.st_mode ^ entry.mode) & stat.S_IXUSR == 0
            and found.st_size == entry.size
            and abs(found.st_mtime_ns - entry.mtime_ns) <= _TOLERANCE_NS
        )
        if not right:
            raise _not_there(path)

    def close(self) -> None:
        """Lets go of it."""
        self._leave()
        if self._top is not None:
            os.close(self._top)
            self._top = None

    def _leave(self) -> None:
        if self._here is not None:
            os.close(self._here[1])
            self._here = None

    def _find(self, path: bytes) -> int:
        """A descriptor of a folder in it, good until the next call. Raises OSError."""
        if self._top is None:
            self._top = os.open(self._name, _FOLDER, dir_fd=self._parent)
        if not path:
            return self._top
        if self._here is None or self._here[0] != path:
            self._leave()
            self._here = path, _descend(self._top, path)
        return self._here[1]


def _descend(top: int, path: bytes) -> int:
    here = top
    for part in path.split(b"/"):
        try:
            below = os.open(part, _FOLDER, dir_fd=here)
        finally:
            if here != top:
                os.close(here)
        here = below
    return here


def _not_there(path: bytes) -> Refused:
    return invalid(f"{shown(path)} is not in the folder that is replaced as the archive says.")
