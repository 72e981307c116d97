"""The audit rows that wait for the disk. Noted on the reactor's thread, written on the journal's."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable
from typing import Final

from attrs import define, evolve, field

from computerd.api.audit import Entry
from computerd.journal import audit
from computerd.session.port import Seconds

MAX_WAITING: Final = 10_000
"""Rows, at a few hundred bytes each."""
MAX_SUBJECT: Final = 200
DROPPED: Final = "audit.dropped"
"""The action of a row that says how many were not kept."""


@define(eq=False)
class Trail:
    """A bounded queue.

    Attributes:
        seconds: The wall clock.
        report: Told, in one line each, what the administrator should know.
    """

    seconds: Seconds
    report: Callable[[str], None]
    _waiting: deque[Entry] = field(factory=deque, init=False)
    _dropped: int = field(default=0, init=False)
    _told: int = field(default=0, init=False)

    def note(self, entry: Entry) -> None:
        """Queues a row, with at most `MAX_SUBJECT` characters of its subject, or counts it when there is no room."""
        if len(self._waiting) >= MAX_WAITING:
            self._drop(1, f"{MAX_WAITING} audit rows wait for the disk")
            return
        if entry.subject is not None and len(entry.subject) > MAX_SUBJECT:
            entry = evolve(entry, subject=entry.subject[:MAX_SUBJECT])
        self._waiting.append(entry)

    def write(self, connection: sqlite3.Connection) -> None:
        """Writes what waits, with an fsync. What the disk does not take goes on waiting, and the error is raised."""
        # a copy is made in one go, and only this thread takes any out
        entries = list(self._waiting)
        dropped = self._dropped
        if dropped > self._told:
            entries.append(Entry(self.seconds(), DROPPED, count=dropped - self._told))
        if not entries:
            return
        taken = len(entries) - (dropped > self._told)
        # outside a transaction, as SQLite wants it
        connection.execute("PRAGMA synchronous = FULL")
        try:
            audit.write(connection, entries)
            self._told = dropped
        except (TypeError, ValueError, OverflowError) as error:
            # a row that no table can hold must not end the journal, nor come again and again
            self._drop(taken, f"audit rows can't be written: {error!r}")
        finally:
            connection.execute("PRAGMA synchronous = NORMAL")
        for _ in range(taken):
            self._waiting.popleft()

    def _drop(self, count: int, why: str) -> None:
        if self._dropped == self._told:
            self.report(f"{why}: some are lost, and counted")
        self._dropped += count
