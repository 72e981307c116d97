"""Issued credentials and revocations, written by the daemon and by `computerctl` into the same file.

Everything here works on a path, opens a connection of its own that commits with an fsync, and closes it again. The daemon's
`Revocations` notice within half a second. It is no place for the reactor's thread.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence

import msgspec
from attrs import frozen

from computerd.api.credentials import Revocation
from computerd.journal.database import opened

_ISSUE = """
    INSERT INTO tokens (id, member, name, email, admin, scopes, issued_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO NOTHING
"""
_ISSUED = """
    SELECT id, member, name, email, admin, scopes, issued_at, expires_at, EXISTS (
        SELECT 1 FROM revocations WHERE revocations.token_id = tokens.id
            OR revocations.token_id IS NULL AND revocations.at >= tokens.issued_at
                AND (revocations.member IS NULL OR revocations.member = tokens.member)
    )
    FROM tokens ORDER BY issued_at DESC, id
"""
_REVOKE = "INSERT INTO revocations (token_id, member, at) VALUES (?, ?, ?)"
_REVOCATIONS = "SELECT token_id, member, at FROM revocations ORDER BY number"


@frozen
class Issued:
    """A credential that this host has minted. The credential itself is kept nowhere.

    Attributes:
        token_id: Its `jti`.
        member: The member id that it speaks for.
        issued_at: Seconds since the epoch.
        expires_at: Seconds since the epoch, or None: never.
        revoked: Whether it no longer counts.
    """

    token_id: str
    member: str
    name: str | None
    email: str | None
    admin: bool
    scopes: tuple[str, ...]
    issued_at: float
    expires_at: float | None
    revoked: bool = False


def issue(path: str, credential: Issued) -> None:
    """Writes down that a credential was minted. On the disk when it returns.

    Raises:
        JournalError: The journal can't be used.
        DamagedError: It is broken.
    """
    with opened(path) as connection:
        connection.execute(_ISSUE, _row(credential))


def issued(path: str) -> list[Issued]:
    """What was minted and is not known to have been cleared away, newest first; nothing if there is no journal yet.

    Raises:
        JournalError: The journal can't be used.
        DamagedError: It is broken.
    """
    if not os.path.lexists(path):
        return []
    with opened(path) as connection:
        return all_issued(connection)


def revoke(path: str, *, token_id: str | None = None, member: str | None = None, at: float) -> int:
    """Ends one credential, or all that a member was issued up to `at`. On the disk when it returns.

    `iat` has whole seconds: a credential that the member gets within the same second after a revocation is revoked too.

    Args:
        path: The journal.
        token_id: One credential's `jti`. It need not be one that this host has minted.
        member: The member id, if `token_id` is None.
        at: Now, in seconds since the epoch.

    Returns:
        How many credentials of the list this ends.

    Raises:
        ValueError: Not exactly one of the two is given.
        JournalError: The journal can't be used.
        DamagedError: It is broken.
    """
    if (token_id is None) == (member is None):
        raise ValueError("either token_id or member")
    with opened(path) as connection:
        before = _still_good(connection)
        connection.execute(_REVOKE, (token_id, member, round(at * 1000)))
        return before - _still_good(connection)


def revocations(connection: sqlite3.Connection) -> list[Revocation]:
    """All of them, oldest first."""
    return [Revocation(token_id, member, at / 1000) for token_id, member, at in connection.execute(_REVOCATIONS)]


def restore(connection: sqlite3.Connection, credentials: Sequence[Issued], revoked: Iterable[Revocation]) -> None:
    """Writes what could be saved from a damaged journal, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_ISSUE, [_row(credential) for credential in credentials])
    connection.executemany(_REVOKE, [(item.token_id, item.member, round(item.at * 1000)) for item in revoked])
    connection.execute("COMMIT")


def all_issued(connection: sqlite3.Connection) -> list[Issued]:
    """As `issued`, on a connection that is open."""
    return [_issued(*row) for row in connection.execute(_ISSUED)]


def _still_good(connection: sqlite3.Connection) -> int:
    return sum(not credential.revoked for credential in all_issued(connection))


def _row(credential: Issued) -> tuple[object, ...]:
    return (
        credential.token_id,
        credential.member,
        credential.name,
        credential.email,
        credential.admin,
        msgspec.json.encode(credential.scopes).decode(),
        round(credential.issued_at * 1000),
        None if credential.expires_at is None else round(credential.expires_at * 1000),
    )


def _issued(
    token_id: str,
    member: str,
    name: str | None,
    email: str | None,
    admin: int,
    scopes: str,
    issued_at: int,
    expires_at: int | None,
    revoked: int,
) -> Issued:
    return Issued(
        token_id=token_id,
        member=member,
        name=name,
        email=email,
        admin=bool(admin),
        scopes=msgspec.json.decode(scopes, type=tuple[str, ...]),
        issued_at=issued_at / 1000,
        expires_at=None if expires_at is None else expires_at / 1000,
        revoked=bool(revoked),
    )
