"""What the last run of the daemon could not write any more, because it was killed (requirement T13)."""

from __future__ import annotations

import sqlite3
from typing import cast

from computerd.contract.events import SessionStatusChanged, TerminalClosed
from computerd.contract.objects import SessionStatus
from computerd.journal.group import Group
from computerd.session.drafts import draft, stamp
from computerd.session.port import Change, Random, Seconds


def repair(connection: sqlite3.Connection, seconds: Seconds, random: Random) -> int:
    """Closes the terminals that nobody closed and makes sessions idle that seem to work, in one transaction.

    No process of the last run is left to do either. Returns how many events that took.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        group = Group(connection)
        _close_terminals(group, seconds, random)
        _make_idle(group, seconds, random)
        group.flush()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return group.events


def _close_terminals(group: Group, seconds: Seconds, random: Random) -> None:
    left = group.connection.execute("SELECT session_id, terminal_id FROM open_terminals").fetchall()
    for session_id, terminal_id in left:
        closed = draft(TerminalClosed(terminal_id=terminal_id, exit_code=None))
        group.append(session_id, [stamp(closed, seconds, random)])


def _make_idle(group: Group, seconds: Seconds, random: Random) -> None:
    at_work = group.connection.execute("SELECT id FROM sessions WHERE status IN ('starting', 'running')").fetchall()
    for (session_id,) in at_work:
        record = group.record(session_id)
        changed = draft(SessionStatusChanged(from_=cast("SessionStatus", record.status), to="idle"))
        group.change(record, Change(status="idle"), [stamp(changed, seconds, random)])
