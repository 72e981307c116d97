"""What a damaged journal can still be asked for is brought over into the new one: credentials, sessions, idempotency keys, audit rows.

Events stay in the file that is kept aside. A session goes on in a new epoch after the highest number that was ever given out: that is the
highest one that can be read, plus as many as are missing from the total that the witness knows (see `epoch`), because any of them may have
been this session's. Two limits stay: numbers of the last quarter of a second before a power cut, which the witness may not know of, and a
session whose row can't be read is gone; one that is made anew with its id begins at 1, in another epoch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import evolve, frozen

from computerd.api.credentials import Revocation
from computerd.contract.errors import ApiError
from computerd.journal import credentials, records
from computerd.journal.refusal import DamagedRowError
from computerd.session.port import Record, Seconds

_FIELDS: Final = """id, owner, origin, settings, metadata, title, status, archived, body_hash, created_at, active_at,
    first_seq, last_seq"""
_SESSIONS = f"SELECT rowid, {_FIELDS} FROM sessions WHERE rowid > ? ORDER BY rowid"  # noqa: S608  # no input in it
_AUDIT = """
    SELECT number, at, action, result, member, token_id, session_id, subject, count, checksum FROM audit
    WHERE number > ? ORDER BY number
"""
_KEEP_AUDIT = "INSERT OR IGNORE INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_KEYS = (
    "SELECT member, method, key, digest, answer, expires_at FROM keys ORDER BY member, method, key",
    "SELECT member, method, key, digest, answer, expires_at FROM keys ORDER BY member DESC, method DESC, key DESC",
)
_KEEP_KEY = "INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?, ?, ?)"
_HIGHEST = "SELECT max(seq) FROM events WHERE session_id = ?"
_PLACE = "UPDATE sessions SET last_seq = ? WHERE id = ?"
_RAISE = "UPDATE sessions SET last_seq = last_seq + ?, first_seq = last_seq + ? + 1"
_MAX_SEQ: Final = 2**53 - 1


@frozen
class Salvaged:
    """What could be saved.

    Attributes:
        revocations: Whether they could be read. If not, every credential that was issued up to now is revoked: nobody whose access was taken
            away gets it back because a disk failed.
        sessions: How many.
    """

    revocations: bool
    sessions: int


def salvage(old: sqlite3.Connection | None, new: sqlite3.Connection, known: int, seconds: Seconds) -> Salvaged:
    """Brings over what can be read.

    Args:
        old: The damaged journal. None: it can't even be opened.
        new: An empty journal of this release's schema.
        known: How many events there were in all, as far as is known.
        seconds: The wall clock.
    """
    trusted = _credentials(old, new, seconds)
    if old is None:
        return Salvaged(trusted, 0)
    saved = _in_one(new, lambda: _sessions(old, new, known))
    _in_one(new, lambda: _rest(old, new))
    return Salvaged(trusted, saved)


def _credentials(old: sqlite3.Connection | None, new: sqlite3.Connection, seconds: Seconds) -> bool:
    revoked: Sequence[Revocation] | None = None
    if old is not None:
        with suppress(sqlite3.Error, TypeError):
            revoked = credentials.revocations(old)
    if old is None or revoked is None:
        credentials.restore(new, (), [Revocation(None, None, seconds())])
        return False
    with suppress(sqlite3.Error, ValueError, TypeError):
        credentials.restore(new, credentials.all_issued(old), ())
    credentials.restore(new, (), revoked)
    return True


def _sessions(old: sqlite3.Connection, new: sqlite3.Connection, known: int) -> int:
    saved = numbers = 0
    for _, *row in _rows(old, _SESSIONS):
        record = _record(old, row)
        if record is None:
            continue
        with suppress(ApiError, sqlite3.IntegrityError):
            records.insert(new, record)
            new.execute(_PLACE, (record.last_seq, record.id))
            saved += 1
            numbers += record.last_seq
    missing = max(0, known - numbers)
    new.execute(_RAISE, (missing, missing))
    return saved


def _record(old: sqlite3.Connection, row: Sequence[Any]) -> Record | None:
    try:
        record = records.from_row(*row)
        highest = record.last_seq
        with suppress(sqlite3.Error):
            (seq,) = old.execute(_HIGHEST, (record.id,)).fetchone()
            highest = max(highest, seq or 0)
    except (DamagedRowError, TypeError):
        return None
    return evolve(record, first_seq=1, last_seq=highest) if 0 <= highest <= _MAX_SEQ else None


def _rest(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    for query in _KEYS:
        # from both ends up to what can't be read
        for row in _until_damage(old, query):
            new.execute(_KEEP_KEY, row)
    for row in _rows(old, _AUDIT):
        new.execute(_KEEP_AUDIT, row)


def _until_damage(old: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    with suppress(sqlite3.Error):
        yield from old.execute(query)


def _rows(old: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """The rows that can be read, of a query over a number that begins each row. What can't be read is skipped in growing steps."""
    after, step = -1, 1
    while after < 2**62:
        try:
            for row in old.execute(query, (after,)):
                yield row
                after, step = row[0], 1
        except sqlite3.Error:
            after += step
            step *= 2
        else:
            return


def _in_one(connection: sqlite3.Connection, work: Callable[[], Any]) -> Any:
    connection.execute("BEGIN IMMEDIATE")
    done = work()
    connection.execute("COMMIT")
    return done
