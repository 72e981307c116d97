"""A journal that is damaged: kept aside for whoever wants to look, while a new one takes its place.

The new one is made beside the old one, under another name, and takes its place only when all that could be saved is in it and on the disk.
A kill at any moment leaves either the damaged journal, which the next start finds again, or the whole new one.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from attrs import frozen

from computerd.journal.database import SUFFIXES, connect
from computerd.journal.salvage import Salvaged, salvage
from computerd.session.port import Seconds

BUILDING: Final = ".building"
READY: Final = ".ready"


@frozen
class Anew:
    """What `begin_anew` has done.

    Attributes:
        aside: Where the damaged file is now.
        saved: What was saved from it.
    """

    aside: str
    saved: Salvaged


def begin_anew(path: str, known: int, seconds: Seconds, old: sqlite3.Connection | None = None) -> Anew:
    """Puts a new journal in the place of a damaged one.

    Args:
        path: The damaged one, which is opened to be read, if it can be.
        known: How many events it had in all, as far as is known.
        seconds: The wall clock.
        old: A connection to the damaged one that is still open, and stays open. It can also read a file that was deleted.

    Raises:
        JournalError: No new file can be made.
        sqlite3.Error: It can't be written.
    """
    building = path + BUILDING
    _remove(building)
    new = connect(building, durable=True)
    reading = old or _read_only(path)
    try:
        saved = salvage(reading, new, known, seconds)
    finally:
        new.close()
        if reading is not None and reading is not old:
            reading.close()
    os.rename(building, path + READY)
    _sync(path)
    aside = move_aside(path, seconds)
    os.rename(path + READY, path)
    _sync(path)
    return Anew(aside, saved)


def finish(path: str) -> None:
    """Ends what a kill has interrupted in `begin_anew`."""
    _remove(path + BUILDING)
    if os.path.lexists(path):
        _remove(path + READY)
    elif os.path.lexists(path + READY):
        for suffix in SUFFIXES[1:]:
            # of the damaged one, whose file has its new name already
            with suppress(FileNotFoundError):
                os.unlink(path + suffix)
        os.rename(path + READY, path)
        _sync(path)


def move_aside(path: str, seconds: Seconds) -> str:
    """Renames the file and its log. Returns the new path of the file."""
    moment = datetime.fromtimestamp(seconds(), UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = f"{path}.damaged-{moment}"
    number = 1
    while any(os.path.lexists(aside + suffix) for suffix in SUFFIXES):
        number += 1
        aside = f"{path}.damaged-{moment}-{number}"
    for suffix in SUFFIXES:
        if os.path.lexists(path + suffix):
            os.rename(path + suffix, aside + suffix)
    return aside


def sound(connection: sqlite3.Connection) -> str | None:
    """What `PRAGMA quick_check` finds first, or None.

    It reads the whole file: the caller interrupts the connection when it takes too long, and it raises sqlite3.OperationalError then.
    """
    (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return None if finding == "ok" else str(finding)


def _read_only(path: str) -> sqlite3.Connection | None:
    # read only, so that the file stays as it was found; without a log also no file is made beside it
    how = "?mode=ro" if os.path.lexists(path + "-wal") else "?mode=ro&immutable=1"
    try:
        return sqlite3.connect(Path(path).absolute().as_uri() + how, uri=True, isolation_level=None)
    except sqlite3.Error:
        return None


def _remove(path: str) -> None:
    for suffix in SUFFIXES:
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


def _sync(path: str) -> None:
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
