"""The table of the audit trail. The daemon writes it through `trail`; `computerctl` writes and reads it on a connection of its own."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Sequence
from typing import Any

from attrs import astuple, frozen

from computerd.api.audit import Entry
from computerd.journal.database import opened

_LAST = "SELECT coalesce(max(number), 0) FROM audit"
_INSERT = """
    INSERT INTO audit (number, at, action, result, member, token_id, session_id, subject, count, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_SELECT = """
    SELECT number, at, action, result, member, token_id, session_id, subject, count, checksum FROM audit
    WHERE (?1 IS NULL OR at >= ?1) AND (?2 IS NULL OR at < ?2) AND (?3 IS NULL OR member = ?3) AND (?4 IS NULL OR session_id = ?4)
        AND (?5 IS NULL OR action = ?5)
    ORDER BY number DESC LIMIT ?6
"""


@frozen
class Line:
    """A row of the trail as it was found.

    Attributes:
        number: Counts up; a gap in the middle means that rows were taken away.
        entry: What it says. As text, whatever damage has made of it.
        sound: Whether it is what was written.
    """

    number: int
    entry: Entry
    sound: bool


def append(path: str, entry: Entry) -> None:
    """Writes a row. On the disk when it returns.

    Raises:
        JournalError: The journal can't be used.
        DamagedError: It is broken.
    """
    with opened(path) as connection:
        write(connection, [entry])


def entries(
    path: str,
    *,
    since: float | None = None,
    until: float | None = None,
    member: str | None = None,
    session_id: str | None = None,
    action: str | None = None,
    limit: int = 1000,
) -> list[Line]:
    """The newest `limit` rows that match, oldest first; nothing if there is no journal yet.

    Control characters are as they were given: whoever prints a row escapes them.

    Args:
        path: The journal.
        since: Seconds since the epoch: rows from then on.
        until: Seconds since the epoch: rows before.
        member: Of this member only.
        session_id: About this session only.
        action: With this action only.
        limit: How many at most.

    Raises:
        JournalError: The journal can't be used.
        DamagedError: It is broken.
    """
    if not os.path.lexists(path):
        return []
    begin, end = (None if moment is None else round(moment * 1000) for moment in (since, until))
    with opened(path) as connection:
        # what is damaged may be no text at all
        connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
        found = connection.execute(_SELECT, (begin, end, member, session_id, action, limit)).fetchall()
    return [_line(*row) for row in reversed(found)]


def write(connection: sqlite3.Connection, written: Sequence[Entry]) -> None:
    """Writes rows in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (last,) = connection.execute(_LAST).fetchone()
        connection.executemany(_INSERT, [_row(number, entry) for number, entry in enumerate(written, last + 1)])
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _row(number: int, entry: Entry) -> tuple[Any, ...]:
    at, *rest = astuple(entry)
    # a lone surrogate, as in the name of a file, is no text for SQLite
    texts = (item.encode("utf-8", "backslashreplace").decode() if isinstance(item, str) else item for item in rest)
    columns = (number, round(at * 1000), *texts)
    return (*columns, _checksum(columns))


def _line(*row: Any) -> Line:
    number, at, *texts, count, checksum = row
    sound = checksum == _checksum(row[:-1])
    action, result, member, token_id, session_id, subject = (
        item if item is None or sound else str(item) for item in texts
    )
    entry = Entry(
        at=at / 1000 if isinstance(at, int) else 0.0,
        action=action,
        result=result,
        member=member,
        token_id=token_id,
        session_id=session_id,
        subject=subject,
        count=count if isinstance(count, int) else 0,
    )
    return Line(number, entry, sound)


def _checksum(columns: tuple[Any, ...]) -> int:
    return zlib.crc32(repr(columns).encode())
