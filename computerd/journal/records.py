"""Sessions in and out of the table. Runs on the journal's thread, inside a transaction of its caller."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import msgspec
from attrs import evolve, fields

from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Origin, Person, Settings
from computerd.journal.excerpts import excerpt
from computerd.journal.refusal import DamagedRowError
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
AWAKE = """
    SELECT id FROM sessions INDEXED BY sessions_awake
    WHERE archived = 0 AND status <> 'suspended' AND id > ? ORDER BY id LIMIT ?
"""
# one statement for all of them: see `events.insert`
_PAIRS: Final = "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)"
_OPENED = f"INSERT OR IGNORE INTO open_terminals (session_id, terminal_id) {_PAIRS}"  # no input in it
_CLOSED = f"DELETE FROM open_terminals WHERE (session_id, terminal_id) IN ({_PAIRS})"  # noqa: S608
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


def note_terminals(connection: sqlite3.Connection, pairs: Sequence[tuple[str, str]], are_open: bool) -> None:
    """Writes down whether terminals are open. Each is named by its session and itself."""
    connection.execute(_OPENED if are_open else _CLOSED, (msgspec.json.encode(pairs).decode(),))


def read(connection: sqlite3.Connection, session_id: str) -> Record | None:
    """The session, or None.

    Raises:
        DamagedRowError: Its row makes no sense.
    """
    with _readable(session_id):
        row = connection.execute(_SELECT, (session_id,)).fetchone()
    return None if row is None else from_row(*row)


def newest(
    connection: sqlite3.Connection, archived: bool, limit: int, before: tuple[float, str] | None
) -> Excerpt[Record]:
    """Up to `limit` sessions, newest first, that sort after `before`.

    Raises:
        DamagedRowError: One of the rows makes no sense.
    """
    created_at, session_id = _END_OF_TIME if before is None else (round(before[0] * 1000), before[1])
    with _readable(None), closing(connection.execute(_NEWEST, (archived, created_at, session_id, limit + 1))) as rows:
        return excerpt(rows, limit, from_row)


def awake(connection: sqlite3.Connection, limit: int, after: str) -> list[str]:
    """The ids of up to `limit` sessions that are neither suspended nor archived, in order."""
    return [session_id for (session_id,) in connection.execute(AWAKE, (after, limit))]


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


def from_row(session_id: str, *columns: Any) -> Record:
    """The session of a row: its columns in the order of the table.

    Raises:
        DamagedRowError: It makes no sense.
    """
    try:
        record = _record(session_id, *columns)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise DamagedRowError(session_id, None) from error
    numbers = (record.first_seq, record.last_seq)
    if not all(isinstance(number, int) for number in numbers) or not isinstance(session_id, str):
        raise DamagedRowError(str(session_id), None)
    return record


@contextmanager
def _readable(session_id: str | None) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        # of Python's own module: a text that is not UTF-8
        if hasattr(error, "sqlite_errorcode"):
            raise
        raise DamagedRowError(session_id, None) from error


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
