"""Sessions in and out of the table. Runs on the journal's thread, inside a transaction of its caller."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec

from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Event, Origin, Person, Settings
from computerd.journal import events
from computerd.journal.excerpts import excerpt
from computerd.session.drafts import Stamped
from computerd.session.port import Excerpt, Record

_INSERT = """
    INSERT INTO sessions (
        id, owner, origin, settings, metadata, title, status, archived, body_hash, created_at, active_at,
        first_seq, last_seq
    )
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0) ON CONFLICT (id) DO NOTHING
"""
_SELECT = """
    SELECT id, owner, origin, settings, metadata, title, status, archived, body_hash, created_at, active_at,
        first_seq, last_seq
    FROM sessions WHERE id = ?
"""
_NEWEST = """
    SELECT id, owner, origin, settings, metadata, title, status, archived, body_hash, created_at, active_at,
        first_seq, last_seq
    FROM sessions WHERE archived = ? AND (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?
"""
# later than every session
_END_OF_TIME = (2**62, "")


def create(connection: sqlite3.Connection, record: Record, stamped: Sequence[Stamped]) -> Sequence[Event]:
    """Writes a new session and its first events.

    Raises:
        ApiError: `id_conflict`, with nothing written.
    """
    if connection.execute(_INSERT, _row(record)).rowcount == 0:
        raise ApiError(Code.ID_CONFLICT, "There is a session with this id already; choose another id.", field="id")
    return events.append(connection, record.id, stamped, None)


def read(connection: sqlite3.Connection, session_id: str) -> Record | None:
    """The session, or None."""
    row = connection.execute(_SELECT, (session_id,)).fetchone()
    return None if row is None else _record(*row)


def newest(
    connection: sqlite3.Connection, archived: bool, limit: int, before: tuple[float, str] | None
) -> Excerpt[Record]:
    """Up to `limit` sessions, newest first, that sort after `before`."""
    created_at, session_id = _END_OF_TIME if before is None else (round(before[0] * 1000), before[1])
    with closing(connection.execute(_NEWEST, (archived, created_at, session_id, limit + 1))) as rows:
        return excerpt(rows, limit, _record)


def _row(record: Record) -> tuple[Any, ...]:
    objects = (record.owner, record.origin, record.settings, record.metadata)
    return (
        record.id,
        *(msgspec.json.encode(item).decode() for item in objects),
        record.title,
        record.status,
        record.archived,
        record.body_hash,
        round(record.created_at * 1000),
        round(record.active_at * 1000),
    )


def _record(
    session_id: str,
    owner: str,
    origin: str,
    settings: str,
    metadata: str,
    title: str | None,
    status: str,
    archived: int,
    body_hash: str | None,
    created_at: int,
    active_at: int,
    first_seq: int,
    last_seq: int,
) -> Record:
    return Record(
        id=session_id,
        owner=msgspec.json.decode(owner, type=Person),
        origin=msgspec.json.decode(origin, type=Origin),
        settings=msgspec.json.decode(settings, type=Settings),
        metadata=msgspec.json.decode(metadata, type=dict[str, str]),
        title=title,
        status=status,
        archived=bool(archived),
        body_hash=body_hash,
        created_at=created_at / 1000,
        active_at=active_at / 1000,
        first_seq=first_seq,
        last_seq=last_seq,
    )
