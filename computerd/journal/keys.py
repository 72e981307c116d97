"""Idempotency keys and their answers. Runs on the journal's thread, inside a transaction of its caller."""

from __future__ import annotations

import sqlite3
from hmac import compare_digest
from typing import Final

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code

KEPT_MS: Final = limits.IDEMPOTENCY_KEY_SECONDS * 1000

_SELECT = "SELECT digest, answer FROM keys WHERE member = ? AND method = ? AND key = ? AND expires_at > ?"
_KEEP = """
    INSERT INTO keys (member, method, key, digest, answer, expires_at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (member, method, key) DO UPDATE
    SET digest = excluded.digest, answer = excluded.answer, expires_at = excluded.expires_at
"""
_PURGE = """
    DELETE FROM keys WHERE (member, method, key) IN (
        SELECT member, method, key FROM keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
    )
"""


def find(connection: sqlite3.Connection, member: str, method: str, key: str, digest: str, now: int) -> bytes | None:
    """The answer that is kept with a key at `now`, in milliseconds since the epoch, or None.

    Raises:
        ApiError: `idempotency_conflict` when the key came with other params.
    """
    row = connection.execute(_SELECT, (member, method, key, now)).fetchone()
    if row is None:
        return None
    if not compare_digest(str(row[0]).encode(), digest.encode()):
        raise ApiError(
            Code.IDEMPOTENCY_CONFLICT,
            "This idempotencyKey was used with other parameters in the last 24 hours; use another key for another call.",
            field="idempotencyKey",
        )
    return bytes(row[1])


def keep(
    connection: sqlite3.Connection, member: str, method: str, key: str, digest: str, answer: bytes, now: int
) -> None:
    """Keeps an answer, in the place of one that has expired."""
    connection.execute(_KEEP, (member, method, key, digest, answer, now + KEPT_MS))


def purge(connection: sqlite3.Connection, now: int, limit: int) -> int:
    """Removes up to `limit` keys that have expired, and returns how many."""
    return connection.execute(_PURGE, (now, limit)).rowcount
