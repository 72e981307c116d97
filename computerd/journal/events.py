"""Events in and out of the table. Runs on the journal's thread, inside a transaction of its caller."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Sequence
from contextlib import closing
from typing import Any, Final

import msgspec

from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Actor, Event
from computerd.contract.shapes import timestamp
from computerd.journal.excerpts import excerpt
from computerd.session.drafts import Stamped
from computerd.session.port import Excerpt

OPENED: Final = "terminal.opened"
CLOSED: Final = "terminal.closed"

# two statements, because RETURNING fills a temporary table and costs 10 µs more
_LAST = "SELECT last_seq FROM sessions WHERE id = ?"
_ADVANCE = "UPDATE sessions SET last_seq = ?, active_at = ?, status = coalesce(?, status) WHERE id = ?"
_INSERT = """
    INSERT INTO events (session_id, seq, id, created_at, turn_id, actor, type, data, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_SELECT = """
    SELECT seq, id, created_at, turn_id, actor, type, data, checksum FROM events
    WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?
"""
_SELECT_TYPES = """
    SELECT seq, id, created_at, turn_id, actor, type, data, checksum FROM events
    WHERE session_id = ? AND seq > ? AND type IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?
"""


class DamagedRowError(Exception):
    """A row that is not what was written. `PRAGMA quick_check` does not see flipped bits in a text."""


def append(
    connection: sqlite3.Connection, session_id: str, stamped: Sequence[Stamped], status: str | None
) -> Sequence[Event]:
    """Writes events with the next numbers.

    Raises:
        ApiError: `session_not_found`, with nothing written.
    """
    row = connection.execute(_LAST, (session_id,)).fetchone()
    if row is None:
        raise ApiError(Code.SESSION_NOT_FOUND, "There is no such session; list the sessions to see which there are.")
    first = row[0] + 1
    connection.execute(_ADVANCE, (row[0] + len(stamped), stamped[-1].at, status, session_id))
    for seq, item in enumerate(stamped, first):
        connection.execute(_INSERT, _row(session_id, seq, item))
        _note_terminal(connection, session_id, item)
    return [item.event(session_id, seq) for seq, item in enumerate(stamped, first)]


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
        rows = connection.execute(_SELECT_TYPES, (session_id, after, wanted, limit + 1))
    with closing(rows):  # what is not read to its end would hold the log
        return excerpt(rows, limit, lambda *row: _event(session_id, *row))


def _row(session_id: str, seq: int, item: Stamped) -> tuple[Any, ...]:
    actor = None if item.draft.actor is None else msgspec.json.encode(item.draft.actor).decode()
    columns = (session_id, seq, item.id, item.at, item.draft.turn_id, actor, item.draft.type, item.data.decode())
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
    if checksum != _checksum((session_id, seq, event_id, at, turn_id, actor, kind, data)):
        raise DamagedRowError(f"event {seq} of {session_id}")
    return Event(
        id=event_id,
        seq=seq,
        created_at=timestamp(at / 1000),
        session_id=session_id,
        turn_id=turn_id,
        actor=None if actor is None else msgspec.json.decode(actor, type=Actor),
        type=kind,
        data=msgspec.json.decode(data),
    )


def _checksum(columns: tuple[Any, ...]) -> int:
    return zlib.crc32(repr(columns).encode())


def _note_terminal(connection: sqlite3.Connection, session_id: str, item: Stamped) -> None:
    if item.draft.type == OPENED:
        connection.execute(
            "INSERT OR IGNORE INTO open_terminals (session_id, terminal_id) VALUES (?, ?)",
            (session_id, item.draft.data["terminalId"]),
        )
    elif item.draft.type == CLOSED:
        connection.execute(
            "DELETE FROM open_terminals WHERE session_id = ? AND terminal_id = ?",
            (session_id, item.draft.data["terminalId"]),
        )
