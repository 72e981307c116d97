"""When the log is written back to the database. Only the journal's thread touches it.

SQLite does that by itself in the commit that fills the log, whose caller then waits for the disk. Here the thread does it between two
groups, when nobody waits for the answer to a commit.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from typing import Final

from attrs import define, field

from computerd.journal.database import WAL_BYTES

PAGES: Final = 1000
"""Of the log, after which it is written back: SQLite's own default for `wal_autocheckpoint`."""
_PAGE: Final = 4096
_PAGES_OF_A_COMMIT: Final = 3


@define(eq=False)
class Checkpoints:
    """How full the log is, about.

    Attributes:
        path: The database.
    """

    path: str
    _pages: int = field(default=0, init=False)

    def committed(self, rows: int, size: int) -> None:
        """A commit has written or removed so many rows, with so many bytes."""
        self._pages += _PAGES_OF_A_COMMIT + rows // 8 + size // _PAGE

    def write_back(self, connection: sqlite3.Connection) -> None:
        """Writes the log back if it has grown to `PAGES`. This is what waits for the disk."""
        if self._pages < PAGES:
            return
        self._pages = 0
        how = "PRAGMA wal_checkpoint(PASSIVE)"
        with suppress(OSError):
            if os.path.getsize(self.path + "-wal") > WAL_BYTES // 2:
                how = "PRAGMA wal_checkpoint(TRUNCATE)"
        # a reader in another process may keep it from finishing: the next one goes on
        connection.execute(how).fetchone()
