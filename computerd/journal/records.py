"""Sessions in and out of the table. Runs on the journal's thread, inside a transaction of its caller."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any, Final

import msgspec
from attrs import evolve, fields

from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Origin, Person, Settings
from computerd.journal.excerpts import excerpt
from computerd.session.port import Change, Excerpt, Record

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
_CHANGE = """
    UPDATE sessions SET status = coalesce(?, status), title = coalesce(?, title), settings = coalesce(?, settings),
        metadata = coalesce(?, metadata), archived = coalesce(?, archived)
    WHERE id = ?
"""
_AWAKE = """
    SELECT id FROM sessions WHERE archived = 0 AND status <> 'suspended' AND id > ? ORDER BY id LIMIT ?
"""
_OPENED = "INSERT OR IGNORE INTO open_terminals (session_id, terminal_id) VALUES (?, ?)"
_CLOSED = "DELETE FROM open_terminals WHERE session_id = ? AND terminal_id = ?"
_CHANGES: Final = tuple(attribute.name for attribute in fields(Change))
# later than every session
_END_OF_TIME = (2**62, "")


def insert(connection: sqlite3.Connection, record: Record) -> None:
    """Writes a new session, without events.

    Raises:
        ApiError: `id_conflict`, with nothing written.
    """
    if connection.execute(_INSERT, _row(record)).rowcount == 0:
        raise ApiError(Code.ID_CONFLICT, "There is a session with this id already; choose another id.", field="id")


def change(connection: sqlite3.Connection, session_id: str, change: Change) -> None:
    """Writes what changes of a session beside its events."""
    settings, metadata = (
        None if item is None else msgspec.json.encode(item).decode() for item in (change.settings, change.metadata)
    )
    connection.execute(_CHANGE, (change.status, change.title, settings, metadata, change.archived, session_id))


def changed(record: Record, change: Change) -> Record:
    """The record after a change."""
    given = {name: value for name in _CHANGES if (value := getattr(change, name)) is not None}
    return evolve(record, **given)


def note_terminal(connection: sqlite3.Connection, session_id: str, terminal_id: str, is_open: bool) -> None:
    """Writes down whether a terminal is open."""
    connection.execute(_OPENED if is_open else _CLOSED, (session_id, terminal_id))


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


def awake(connection: sqlite3.Connection, limit: int, after: str) -> list[str]:
    """The ids of up to `limit` sessions that are neither suspended nor archived, in order."""
    return [session_id for (session_id,) in connection.execute(_AWAKE, (after, limit))]


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
