"""A journal that SQLite can't read: kept aside for whoever wants to look, while a new one takes its place."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from computerd.api.credentials import Revocation
from computerd.journal import credentials
from computerd.journal.database import SUFFIXES
from computerd.session.port import Seconds


def move_aside(path: str, seconds: Seconds) -> str:
    """Renames the file and its log. Returns the new path of the file."""
    moment = datetime.fromtimestamp(seconds(), UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = f"{path}.damaged-{moment}"
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = f"{path}.damaged-{moment}-{number}"
    for suffix in SUFFIXES:
        if os.path.lexists(path + suffix):
            os.rename(path + suffix, aside + suffix)
    return aside


def salvage(aside: str, connection: sqlite3.Connection, seconds: Seconds) -> bool:
    """Brings issued credentials and revocations over into the new journal. Says whether they could be read.

    If they could not, every credential that was issued up to now is revoked: nobody whose access was taken away gets it back because
    a disk failed.
    """
    try:
        # read only, so that the file stays as it was found; without a log also no file is made beside it
        how = "?mode=ro" if os.path.lexists(aside + "-wal") else "?mode=ro&immutable=1"
        old = sqlite3.connect(Path(aside).absolute().as_uri() + how, uri=True, isolation_level=None)
    except sqlite3.Error:
        return _trust_nobody(connection, seconds)
    try:
        revoked = credentials.revocations(old)
        with suppress(sqlite3.Error, ValueError):
            credentials.restore(connection, credentials.all_issued(old), ())
    except (sqlite3.Error, TypeError):
        return _trust_nobody(connection, seconds)
    finally:
        old.close()
    credentials.restore(connection, (), revoked)
    return True


def _trust_nobody(connection: sqlite3.Connection, seconds: Seconds) -> bool:
    credentials.restore(connection, (), [Revocation(None, None, seconds())])
    return False


def sound(connection: sqlite3.Connection) -> str | None:
    """What `PRAGMA quick_check` finds first, or None.

    It reads the whole file: the caller interrupts the connection when it takes too long, and it raises sqlite3.OperationalError then.
    """
    (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return None if finding == "ok" else str(finding)
