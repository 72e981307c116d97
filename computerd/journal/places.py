"""Where the journal's open files lie: an open file can be taken away or replaced under its name, and works on unseen."""

from __future__ import annotations

import os
from contextlib import suppress

from attrs import define, field

LOG = "-wal"
INDEX = "-shm"


@define(eq=False)
class Places:
    """The device and inode of the database and its log. Only the journal's thread touches it.

    Attributes:
        path: The database.
    """

    path: str
    _known: dict[str, tuple[int, int]] = field(factory=dict, init=False)

    def remember(self) -> None:
        """The file at the path is the one that is open."""
        place = _place(self.path)
        self._known = {} if place is None else {"": place}

    def displaced(self) -> str | None:
        """Whether the file at the path, or its log, is no longer the one that is open. How, or None."""
        for suffix in ("", LOG):
            try:
                before, now = self._known.get(suffix), _place(self.path + suffix)
            except OSError:
                # no telling
                continue
            if before is None and now is not None:
                # the log is made at the first write
                self._known[suffix] = now
            elif before != now:
                return f"{self.path}{suffix} was {'deleted' if now is None else 'replaced'} while it was in use"
        return None

    def disown_log(self) -> None:
        """If somebody else's file lies at the path, takes the log away from beside it: with one that is not its own it would be spoilt."""
        with suppress(OSError):
            if _place(self.path) in (None, self._known.get("")):
                return
            if _place(self.path + LOG) == self._known.get(LOG):
                os.unlink(self.path + LOG)
            os.unlink(self.path + INDEX)


def _place(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
