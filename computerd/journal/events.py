"""Events as rows of the table. Runs on the journal's thread, inside a transaction of its caller."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

import msgspec

from computerd.contract.objects import Actor, Event
from computerd.journal.excerpts import excerpt
from computerd.journal.refusal import DamagedRowError
from computerd.session.drafts import Stamped, moment
from computerd.session.port import Excerpt

OPENED: Final = "terminal.opened"
CLOSED: Final = "terminal.closed"
COLUMNS: Final = 9

_encode: Final = msgspec.json.Encoder().encode

_INSERT = """
    INSERT INTO events (session_id, seq, id, created_at, turn_id, actor, type, data, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_FURTHER = ", (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MAX_ROWS: Final = 64
# events up to `lost_seq` are behind one that can't be read any more
_SELECT = """
    SELECT seq, id, created_at, turn_id, actor, type, data, checksum FROM events
    WHERE session_id = ?1 AND seq > max(?2, (SELECT lost_seq FROM sessions WHERE id = ?1)) ORDER BY seq LIMIT ?3
"""
_SELECT_TYPES = """
    SELECT seq, id, created_at, turn_id, actor, type, data, checksum FROM events
    WHERE session_id = ?1 AND seq > max(?2, (SELECT lost_seq FROM sessions WHERE id = ?1))
        AND type IN (SELECT value FROM json_each(?4)) ORDER BY seq LIMIT ?3
"""


def insert(connection: sqlite3.Connection, values: list[Any]) -> None:
    """Writes rows, given by the columns of one after the other.

    Each statement lets the other thread have the interpreter, which can take milliseconds to get back from one that is busy. So there are
    few: rows go in by 64, and the rest by powers of two, which makes seven statements that SQLite has to prepare once.
    """
    place, size = 0, _MAX_ROWS
    while place < len(values):
        while size * COLUMNS > len(values) - place:
            size //= 2
        connection.execute(_statement(size), values[place : place + size * COLUMNS])
        place += size * COLUMNS


@lru_cache(maxsize=8)
def _statement(rows: int) -> str:
    return _INSERT + _FURTHER * (rows - 1)


def read(
    connection: sqlite3.Connection, session_id: str, after: int, limit: int, types: Collection[str] | None
) -> Excerpt[Event]:
    """Up to `limit` events with a number over `after`, in order.

    Raises:
        DamagedRowError: One of them has changed on the disk.
    """
    if types is None:
        rows = connection.execute(_SELECT, (session_id, after, limit + 1))
    else:
        wanted = msgspec.json.encode(list(types)).decode()
        rows = connection.execute(_SELECT_TYPES, (session_id, after, limit + 1, wanted))
    try:
        with closing(rows):  # what is not read to its end would hold the log
            return excerpt(rows, limit, lambda *row: _event(session_id, *row))
    except sqlite3.OperationalError as error:
        # of Python's own module: a text that is not UTF-8
        if hasattr(error, "sqlite_errorcode"):
            raise
        raise DamagedRowError(session_id, last_damaged(connection, session_id, after, limit + 1)) from error


def last_damaged(connection: sqlite3.Connection, session_id: str, after: int, limit: int) -> int:
    """The last of the damaged events among the `limit` ones after a number; `after`, if there is none."""
    last = after
    connection.text_factory = bytes
    try:
        for seq, *columns, checksum in connection.execute(_SELECT, (session_id, after, limit)):
            try:
                texts = (item.decode() if isinstance(item, bytes) else item for item in columns)
                damaged = checksum != _checksum((session_id, seq, *texts))
            except UnicodeDecodeError:
                damaged = True
            last = seq if damaged else last
    finally:
        connection.text_factory = str
    return last


def row(session_id: str, seq: int, item: Stamped) -> tuple[Any, ...]:
    """The columns of an event."""
    draft = item.draft
    actor = None if draft.actor is None else _encode(draft.actor).decode()
    columns = (session_id, seq, item.id, item.at, draft.turn_id, actor, draft.type, item.data.decode())
    return (*columns, _checksum(columns))


def _event(
    session_id: str,
    seq: int,
    event_id: str,
    at: int,
    turn_id: str | None,
    actor: str | None,
    kind: str,
    data: str,
    checksum: int,
) -> Event:
    # what is no text or number any more is no longer what was written either
    if checksum != _checksum((session_id, seq, event_id, at, turn_id, actor, kind, data)):
        raise DamagedRowError(session_id, seq)
    return Event(
        id=event_id,
        seq=seq,
        created_at=moment(at),
        session_id=session_id,
        turn_id=turn_id,
        actor=None if actor is None else msgspec.json.decode(actor, type=Actor),
        type=kind,
        data=msgspec.json.decode(data),
    )


def _checksum(columns: tuple[Any, ...]) -> int:
    return crc32(repr(columns).encode())
