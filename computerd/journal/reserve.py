"""Disk space held back, so that a full disk still takes the events that end what has begun (requirement S3)."""

from __future__ import annotations

import os
from typing import Final

from attrs import define, field

BYTES: Final = 16 * 1024 * 1024
"""Threat model, section 2.10."""
ROOM: Final = 2 * BYTES
"""Free bytes from which the space is taken (back)."""


@define
class Reserve:
    """A file of zeros beside the journal. Only the journal's thread touches it.

    Attributes:
        path: The file.
    """

    path: str
    _held: bool = field(default=False, init=False)

    def hold(self) -> bool:
        """Takes the space, if the disk has twice as much. Says whether it is held now."""
        if self._held:
            return True
        try:
            if not self._has_room():
                return False
            self._allocate()
        except OSError:
            # no room after all, or a file system that can't do it: then closing events wait until there is room
            return False
        self._held = True
        return True

    def release(self) -> bool:
        """Gives the space to whoever needs it now. Says whether there was any."""
        try:
            with os.fdopen(self._open(), "wb") as file:
                had = os.fstat(file.fileno()).st_size > 0
                file.truncate(0)
        except OSError:
            return False
        self._held = False
        return had

    def _has_room(self) -> bool:
        status = os.statvfs(os.path.dirname(self.path))
        return status.f_bavail * status.f_frsize >= ROOM or os.path.getsize(self.path) >= BYTES

    def _allocate(self) -> None:
        with os.fdopen(self._open(), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, BYTES)

    def _open(self) -> int:
        return os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
