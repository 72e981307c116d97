"""The tables, as numbered migrations. `PRAGMA user_version` says how many of them a file has been through."""

from __future__ import annotations

import sqlite3
from typing import Final

from computerd.journal.refusal import NewerSchemaError

# A migration that was released is never edited.
# Each is one transaction and ends by saying its number, so that a kill at any moment leaves it undone or done.
# Times are milliseconds since the epoch. `events` has no rowid: a commit then touches one page of it and not two.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """
        CREATE TABLE meta (
            key TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            origin TEXT NOT NULL,
            settings TEXT NOT NULL,
            metadata TEXT NOT NULL,
            title TEXT,
            status TEXT NOT NULL,
            archived INTEGER NOT NULL,
            body_hash TEXT,
            created_at INTEGER NOT NULL,
            active_at INTEGER NOT NULL,
            first_seq INTEGER NOT NULL,
            last_seq INTEGER NOT NULL
        )
        """,
        "CREATE INDEX sessions_newest ON sessions (archived, created_at, id)",
        "CREATE INDEX sessions_at_work ON sessions (status) WHERE status IN ('starting', 'running')",
        """
        CREATE TABLE events (
            session_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            id TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            turn_id TEXT,
            actor TEXT,
            type TEXT NOT NULL,
            data TEXT NOT NULL,
            checksum INTEGER NOT NULL,
            PRIMARY KEY (session_id, seq)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE open_terminals (
            session_id TEXT NOT NULL,
            terminal_id TEXT NOT NULL,
            PRIMARY KEY (session_id, terminal_id)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE tokens (
            id TEXT PRIMARY KEY,
            member TEXT NOT NULL,
            name TEXT,
            email TEXT,
            admin INTEGER NOT NULL,
            scopes TEXT NOT NULL,
            issued_at INTEGER NOT NULL,
            expires_at INTEGER
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE revocations (
            number INTEGER PRIMARY KEY,
            token_id TEXT,
            member TEXT,
            at INTEGER NOT NULL
        )
        """,
        "PRAGMA user_version = 1",
    ),
    (
        # Events up to `lost_seq` can't be given, because one of them is damaged (see `epoch`).
        "ALTER TABLE sessions ADD COLUMN lost_seq INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX sessions_awake ON sessions (id) WHERE archived = 0 AND status <> 'suspended'",
        """
        CREATE TABLE keys (
            member TEXT NOT NULL,
            method TEXT NOT NULL,
            key TEXT NOT NULL,
            digest TEXT NOT NULL,
            answer BLOB NOT NULL,
            expires_at INTEGER NOT NULL,
            PRIMARY KEY (member, method, key)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX keys_expiry ON keys (expires_at)",
        """
        CREATE TABLE audit (
            number INTEGER PRIMARY KEY,
            at INTEGER NOT NULL,
            action TEXT NOT NULL,
            result TEXT NOT NULL,
            member TEXT,
            token_id TEXT,
            session_id TEXT,
            subject TEXT,
            count INTEGER NOT NULL,
            checksum INTEGER NOT NULL
        )
        """,
        "CREATE INDEX audit_age ON audit (at)",
        "PRAGMA user_version = 2",
    ),
)


def migrate(connection: sqlite3.Connection) -> None:
    """Brings a file up to this release. Two processes may do it at once.

    Raises:
        NewerSchemaError: The file is from a later release.
    """
    while _version(connection) < len(MIGRATIONS):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # read again now that nobody else can be at it
            version = _version(connection)
            if version < len(MIGRATIONS):
                for statement in MIGRATIONS[version]:
                    connection.execute(statement)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise NewerSchemaError(
            f"the journal has schema {version} and this release knows {len(MIGRATIONS)}: install the newer release again"
        )
    return int(version)
