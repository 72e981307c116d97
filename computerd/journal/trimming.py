"""What need not be kept any longer goes, a little at a time. Lives on the journal's thread.

A pass visits every session once, in the order of the ids, and each call does a part of it, so that no commit waits long. A session's events
go from the oldest on: what is left is always a piece without a gap, and `first_seq` says where it begins. Numbers are never given out again,
because `last_seq` stays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from attrs import define, field

from computerd.journal import keys
from computerd.journal.group import Group

_END: Final = "\uffff"
_NEXT = "SELECT id, last_seq FROM sessions WHERE id > ? ORDER BY id LIMIT ?"
_OLDEST = "SELECT seq, created_at FROM events WHERE session_id = ? ORDER BY seq LIMIT ?"
_REMOVE = "DELETE FROM events WHERE session_id = ? AND seq <= ?"
_MOVE = "UPDATE sessions SET first_seq = max(first_seq, ?) WHERE id = ?"
_FIRST = "SELECT first_seq FROM sessions WHERE id = ?"
_PURGE_AUDIT = "DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE at < ? ORDER BY at LIMIT ?)"


@define(eq=False)
class Trimmer:
    """Where the pass is."""

    _after: str = field(default="", init=False)

    def trim(
        self, group: Group, keep: int, before: int | None, limit: int, now: int, audit_before: int
    ) -> Mapping[str, int] | None:
        """Does a part of the pass.

        Args:
            group: Of the transaction.
            keep: The newest events of a session that stay.
            before: Milliseconds since the epoch: events that are older go too. None: age does not matter.
            limit: How many rows are looked at or removed, roughly.
            now: Milliseconds since the epoch, for keys that have expired.
            audit_before: Milliseconds since the epoch: audit rows that are older go.

        Returns:
            The new `first_seq` of each session that has lost events; None at the end of the pass.
        """
        connection = group.connection
        left = limit - keys.purge(connection, now, limit)
        left -= connection.execute(_PURGE_AUDIT, (audit_before, max(left, 0))).rowcount
        group.removed += limit - left
        moved: dict[str, int] = {}
        while left > 0:
            sessions = connection.execute(_NEXT, (self._after, min(left, 100))).fetchall()
            if not sessions:
                self._after = _END
                break
            for session_id, last_seq in sessions:
                upto, seen, whole = _removable(connection, session_id, last_seq - keep, before, left)
                left -= seen + 1
                if upto:
                    group.removed += seen
                    connection.execute(_REMOVE, (session_id, upto))
                    connection.execute(_MOVE, (upto + 1, session_id))
                    (moved[session_id],) = connection.execute(_FIRST, (session_id,)).fetchone()
                if not whole:
                    # the rest of its old events is for the next call
                    return moved
                self._after = session_id
                if left <= 0:
                    return moved
        if self._after != _END or moved or left <= 0:
            return moved
        self._after = ""
        return None


def _removable(
    connection: sqlite3.Connection, session_id: str, count_upto: int, before: int | None, limit: int
) -> tuple[int, int, bool]:
    """Up to which number a session's events can go, or 0; how many rows that is; and whether there are no more."""
    upto = seen = 0
    with closing(connection.execute(_OLDEST, (session_id, max(limit, 1)))) as rows:
        for seq, created_at in rows:
            if seq > count_upto and (before is None or created_at >= before):
                return upto, seen, True
            upto = seq
            seen += 1
    return upto, seen, seen < limit
