"""What one transaction writes: collected first, and written with few statements. Lives on the journal's thread for one commit.

Jobs of a group may ask for the same session, so its last number is looked up once and written once. A job that refuses has added nothing.
What has to see the rows themselves calls `flush` before; `record` is as the jobs before have left it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from attrs import define, evolve, field

from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Event
from computerd.journal import events, records
from computerd.session.drafts import Stamped
from computerd.session.port import Change, Commit, Record

_LAST = "SELECT last_seq, active_at FROM sessions WHERE id = ?"
_ADVANCE = "UPDATE sessions SET last_seq = ?, active_at = ? WHERE id = ?"
_OF_TERMINALS: Final = frozenset({events.OPENED, events.CLOSED})


@define(eq=False)
class _Head:
    """Where a session's numbers and its last activity are."""

    last_seq: int
    active_at: int
    new: bool = False


@define(eq=False)
class Group:
    """Writes of one transaction.

    Attributes:
        connection: In a transaction.
        events: How many events were added.
        removed: How many rows were taken away.
        size: About how many bytes were added.
        commits: What those who follow are told after the commit: in the order of the numbers, and events of one session in one piece
            where nothing is lost by that.
    """

    connection: sqlite3.Connection
    events: int = field(default=0, init=False)
    removed: int = field(default=0, init=False)
    size: int = field(default=0, init=False)
    commits: list[Commit] = field(factory=list, init=False)
    _values: list[Any] = field(factory=list, init=False)
    _heads: dict[str, _Head] = field(factory=dict, init=False)
    _terminals: dict[tuple[str, str], bool] = field(factory=dict, init=False)
    _growing: dict[str, list[Event]] = field(factory=dict, init=False)

    def create(self, record: Record, stamped: Sequence[Stamped]) -> Sequence[Event]:
        """Adds a session and its first events.

        Raises:
            ApiError: `id_conflict`, with nothing added.
        """
        records.insert(self.connection, record)
        self._heads[record.id] = _Head(0, round(record.active_at * 1000))
        added = self._add(record.id, self._heads[record.id], stamped)
        self._tell(record.id, added, evolve(record, first_seq=1, **self._now(record.id)))
        return added

    def append(self, session_id: str, stamped: Sequence[Stamped]) -> Sequence[Event]:
        """Adds events with the next numbers.

        Raises:
            ApiError: `session_not_found`, with nothing added.
        """
        head = self._heads.get(session_id) or self._look_up(session_id)
        added = self._add(session_id, head, stamped)
        self._tell(session_id, added, None)
        return added

    def record(self, session_id: str) -> Record:
        """The session as it is now.

        Raises:
            ApiError: `session_not_found`.
        """
        found = records.read(self.connection, session_id)
        if found is None:
            raise _not_found()
        return evolve(found, **self._now(session_id)) if session_id in self._heads else found

    def change(self, record: Record, change: Change, stamped: Sequence[Stamped]) -> Sequence[Event]:
        """Adds events to a session and changes the rest of it.

        Args:
            record: As the session is afterwards.
            change: What differs, apart from its events.
            stamped: The events.
        """
        if change != Change():
            records.change(self.connection, record.id, change)
        if not stamped:
            return ()
        head = self._heads.get(record.id) or self._look_up(record.id)
        added = self._add(record.id, head, stamped)
        self._tell(record.id, added, record)
        return added

    def flush(self) -> None:
        """Writes what was added."""
        values, self._values = self._values, []
        if values:
            events.insert(self.connection, values)
        for session_id, head in self._heads.items():
            if head.new:
                self.connection.execute(_ADVANCE, (head.last_seq, head.active_at, session_id))
                head.new = False
        terminals, self._terminals = self._terminals, {}
        for are_open in (True, False):
            pairs = [pair for pair, is_open in terminals.items() if is_open == are_open]
            if pairs:
                records.note_terminals(self.connection, pairs, are_open)

    def _look_up(self, session_id: str) -> _Head:
        row = self.connection.execute(_LAST, (session_id,)).fetchone()
        if row is None:
            raise _not_found()
        head = self._heads[session_id] = _Head(*row)
        return head

    def _now(self, session_id: str) -> dict[str, Any]:
        head = self._heads[session_id]
        return {"last_seq": head.last_seq, "active_at": head.active_at / 1000}

    def _add(self, session_id: str, head: _Head, stamped: Sequence[Stamped]) -> list[Event]:
        values: list[Any] = []
        added: list[Event] = []
        seq = head.last_seq
        for item in stamped:
            seq += 1
            self.size += len(item.data)
            values += events.row(session_id, seq, item)
            added.append(item.event(session_id, seq))
        for item in stamped:
            if item.draft.type in _OF_TERMINALS:
                self._terminals[session_id, str(item.draft.data["terminalId"])] = item.draft.type == events.OPENED
        self._values += values
        head.last_seq = seq
        head.active_at = stamped[-1].at
        head.new = True
        self.events += len(added)
        return added

    def _tell(self, session_id: str, added: list[Event], record: Record | None) -> None:
        growing = self._growing.get(session_id)
        if record is not None:
            # it says how the session is after all of these
            self._growing.pop(session_id, None)
            self.commits.append(Commit(session_id, added, record))
        elif growing is not None:
            growing += added
        else:
            self._growing[session_id] = growing = list(added)
            self.commits.append(Commit(session_id, growing))


def _not_found() -> ApiError:
    return ApiError(Code.SESSION_NOT_FOUND, "There is no such session; list the sessions to see which there are.")
