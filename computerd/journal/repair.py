"""What the last run of the daemon could not write any more, because it was killed (requirement T13)."""

from __future__ import annotations

import sqlite3

from computerd.contract.events import SessionStatusChanged, TerminalClosed
from computerd.journal import events
from computerd.session.drafts import draft, stamp
from computerd.session.port import Random, Seconds


def repair(connection: sqlite3.Connection, seconds: Seconds, random: Random) -> int:
    """Closes the terminals that nobody closed and makes sessions idle that seem to work, in one transaction.

    No process of the last run is left to do either. Returns how many events that took.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        written = _close_terminals(connection, seconds, random) + _make_idle(connection, seconds, random)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return written


def _close_terminals(connection: sqlite3.Connection, seconds: Seconds, random: Random) -> int:
    left = connection.execute("SELECT session_id, terminal_id FROM open_terminals").fetchall()
    for session_id, terminal_id in left:
        closed = draft(TerminalClosed(terminal_id=terminal_id, exit_code=None))
        events.append(connection, session_id, [stamp(closed, seconds, random)], None)
    return len(left)


def _make_idle(connection: sqlite3.Connection, seconds: Seconds, random: Random) -> int:
    at_work = connection.execute("SELECT id, status FROM sessions WHERE status IN ('starting', 'running')").fetchall()
    for session_id, status in at_work:
        changed = draft(SessionStatusChanged(from_=status, to="idle"))
        events.append(connection, session_id, [stamp(changed, seconds, random)], "idle")
    return len(at_work)
