"""Whether the journal still is the one that its readers knew.

A `logEpoch` names one history. Events that were committed may be gone at the next start: the file was restored from a copy, its write-ahead
log was deleted, a power cut took the last commits back. Numbers that clients have seen would then be given out again. Two signs are kept:

* the witness, a small file beside the journal that says how many events this epoch has committed. It is written without haste, at most
  every quarter of a second, so it may know of fewer than the journal, but never of more;
* the number of the journal's own inode, inside the journal: a copy put in its place has another.

When one of them disagrees, a new epoch begins, and each session's part of it begins after its last event that is still there.
"""

from __future__ import annotations

import os
import re
import sqlite3
from typing import Final

from attrs import define, field

from computerd.contract.identifiers import LOG_EPOCH
from computerd.session.port import Random

_LINE: Final = re.compile(r"(le_[0-9A-Za-z]{12}) ([0-9]{1,19}) *\n")
_WIDTH: Final = 40
"""Bytes of the witness: always the same, so that one write replaces all of it."""


@define
class Witness:
    """The file that remembers how many events were committed. Only the journal's thread touches it.

    Attributes:
        path: The file.
    """

    path: str
    _fd: int | None = field(default=None, init=False)
    _said: tuple[str, int] | None = field(default=None, init=False)

    def read(self) -> tuple[str, int] | None:
        """The epoch and how many events it had, or None if there is no telling."""
        try:
            with open(self.path, encoding="ascii", errors="replace") as file:
                match = _LINE.fullmatch(file.read(2 * _WIDTH))
        except OSError:
            return None
        return None if match is None else (match[1], int(match[2]))

    def say(self, epoch: str, total: int) -> None:
        """Writes both down if they are news. A disk that does not take it is no error: the next call tries again."""
        if (epoch, total) == self._said:
            return
        try:
            if self._fd is None:
                self._fd = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            os.pwrite(self._fd, f"{epoch} {total}".ljust(_WIDTH - 1).encode() + b"\n", 0)
        except OSError:
            return
        self._said = epoch, total

    def close(self) -> None:
        """Closes the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def total(connection: sqlite3.Connection) -> int:
    """How many events were ever committed."""
    (events,) = connection.execute("SELECT coalesce(sum(last_seq), 0) FROM sessions").fetchone()
    return int(events)


def settle(connection: sqlite3.Connection, path: str, witness: Witness, random: Random) -> tuple[str, str | None]:
    """The epoch that goes on or begins, and if one begins although there was one before: why."""
    known = _meta(connection, "log_epoch")
    why = None if known is None else _broken(connection, path, witness, known)
    if known is not None and why is None:
        return known, None
    return begin(connection, path, random), why


def begin(connection: sqlite3.Connection, path: str, random: Random, lost: tuple[str, int] | None = None) -> str:
    """Begins an epoch, in one transaction, and returns it.

    Args:
        connection: To the journal.
        path: Its file.
        random: For the epoch's name.
        lost: The session and number of an event that can't be read any more: from now on neither it nor those before it are given.
    """
    epoch = LOG_EPOCH.new(random)
    connection.execute("BEGIN IMMEDIATE")
    try:
        _set_meta(connection, "log_epoch", epoch)
        _set_meta(connection, "inode", str(os.stat(path).st_ino))
        connection.execute("UPDATE sessions SET first_seq = last_seq + 1 WHERE last_seq > 0")
        if lost is not None:
            connection.execute("UPDATE sessions SET lost_seq = max(lost_seq, ?) WHERE id = ?", (lost[1], lost[0]))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return epoch


def _broken(connection: sqlite3.Connection, path: str, witness: Witness, known: str) -> str | None:
    if _meta(connection, "inode") != str(os.stat(path).st_ino):
        return "the file was replaced by a copy"
    said = witness.read()
    if said is None:
        return None
    if said[0] != known:
        return "the file is from another epoch"
    missing = said[1] - total(connection)
    return f"{missing} committed events are missing" if missing > 0 else None


def _meta(connection: sqlite3.Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def _set_meta(connection: sqlite3.Connection, key: str, value: str) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )
