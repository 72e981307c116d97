"""The journal's file while the daemon has it open, with all that lies beside it. Only the journal's thread touches it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from attrs import define, field

from computerd.api.credentials import Revocation
from computerd.journal import credentials, damage, epoch, events, lock
from computerd.journal.checkpoints import Checkpoints
from computerd.journal.database import connect, examine
from computerd.journal.epoch import Witness
from computerd.journal.places import Places
from computerd.journal.refusal import DamagedError, DamagedRowError, UnusableError
from computerd.journal.repair import repair
from computerd.journal.reserve import Reserve
from computerd.session.port import Random, Seconds

_LOOK_AHEAD: Final = 1000
"""Events after a damaged one that are looked at too: damage comes in blocks."""


@define(eq=False)
class Store:
    """One connection and the files around it.

    Attributes:
        path: The database.
        seconds: The wall clock.
        random: For ids.
        report: Told, in one line each, what the administrator should know. Called on the journal's thread.
        log_epoch: The epoch, once open.
        total: Events committed in all, once open.
    """

    path: str
    seconds: Seconds
    random: Random
    report: Callable[[str], None]
    log_epoch: str = ""
    total: int = 0
    reserve: Reserve = field(init=False)
    _witness: Witness = field(init=False)
    _connection: sqlite3.Connection | None = field(default=None, init=False)
    _checking: sqlite3.Connection | None = field(default=None, init=False)
    _lock: int | None = field(default=None, init=False)
    _version: int = field(default=-1, init=False)
    _places: Places = field(init=False)
    _checkpoints: Checkpoints = field(init=False)

    @reserve.default
    def _reserve_beside(self) -> Reserve:
        return Reserve(os.path.join(os.path.dirname(self.path), "reserve.bin"))

    @_witness.default
    def _witness_beside(self) -> Witness:
        return Witness(self.path + ".seen")

    @_places.default
    def _places_of_it(self) -> Places:
        return Places(self.path)

    @_checkpoints.default
    def _checkpoints_of_it(self) -> Checkpoints:
        return Checkpoints(self.path)

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection."""
        assert self._connection is not None, "the store is not open"
        return self._connection

    def open(self) -> list[Revocation]:
        """Opens the file, or a new one in the place of a damaged one, and finishes what the last run left.

        Returns:
            The revocations.

        Raises:
            JournalError: It can't or must not be used.
        """
        try:
            return self._open()
        except UnusableError:
            # perhaps only because the disk is full
            if not self.reserve.release():
                raise
        return self._open()

    def close(self) -> None:
        """Writes the log back and closes everything."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self.note()
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._connection.close()
            self._connection = None
        self._witness.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def renew(self, finding: str) -> None:
        """Puts a new file in the place of the one that is open, which is damaged or not there any more, and opens that.

        Raises:
            JournalError: No new file can be made.
            sqlite3.Error: It can't be written.
        """
        old = self.connection
        if old.in_transaction:
            with suppress(sqlite3.Error):
                old.rollback()
        self._places.disown_log()
        try:
            self._connection = self._begin_anew(finding, old)
        except (UnusableError, sqlite3.Error):
            # perhaps only because the disk is full
            if not self.reserve.release():
                raise
            self._connection = self._begin_anew(finding, old)
        # SQLite leaves the log alone when it closes a file that was moved
        with suppress(sqlite3.Error):
            old.close()
        self._use(self._connection)
        self._settle()
        self.note()

    def skip(self, row: DamagedRowError) -> None:
        """Begins a new epoch without what is before a damaged event of a session, and the event itself."""
        assert row.session_id is not None and row.seq is not None, "it is not an event"
        last = events.last_damaged(self.connection, row.session_id, row.seq, _LOOK_AHEAD)
        self.log_epoch = epoch.begin(self.connection, self.path, self.random, (row.session_id, last))
        self.note()
        self.report(
            f"the journal is damaged: {row}; the events of that session up to {last} are not given any more, "
            f"and a new epoch begins: {self.log_epoch}"
        )

    def displaced(self) -> str | None:
        """Whether the file at the path is no longer the one that is open. How, or None."""
        return self._places.displaced()

    def interrupt(self) -> None:
        """Ends the check of `open` early. The one call that may come from another thread."""
        connection = self._checking
        if connection is not None:
            connection.interrupt()

    def changed_elsewhere(self) -> bool:
        """Whether another process has committed since the last call; true the first time."""
        (version,) = self.connection.execute("PRAGMA data_version").fetchone()
        before, self._version = self._version, version
        return before != self._version

    def revocations(self) -> list[Revocation]:
        """What the file says now."""
        return credentials.revocations(self.connection)

    def note(self) -> None:
        """Tells the witness how many events there are."""
        if self.log_epoch:
            self._witness.say(self.log_epoch, self.total)

    def committed(self, events: int, removed: int, size: int) -> None:
        """Counts a commit of that many events with so many bytes, which has removed so many rows."""
        self.total += events
        self._checkpoints.committed(events + removed, size)

    def write_back(self) -> None:
        """Writes the log back to the database if it has grown. This is what waits for the disk."""
        self._checkpoints.write_back(self.connection)

    def _open(self) -> list[Revocation]:
        try:
            examine(self.path)
            self._lock = lock.take(self.path + ".lock")
            damage.finish(self.path)
            self._connection = self._connect()
            self._check()
            self._use(self._connection)
            self._settle()
            self.reserve.hold()
            self.changed_elsewhere()
            return self.revocations()
        except sqlite3.Error as error:
            self.close()
            raise UnusableError(f"{self.path}: {error}: see to it that there is room on the disk") from error
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        try:
            return connect(self.path, durable=False)
        except DamagedError as error:
            return self._begin_anew(str(error))

    def _use(self, connection: sqlite3.Connection) -> None:
        # this thread writes the log back itself, when nobody waits for the answer to a commit
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchone()
        self._version = -1
        self._places.remember()

    def _settle(self) -> None:
        self.log_epoch, why = epoch.settle(self.connection, self.path, self._witness, self.random)
        if why is not None:
            self.report(f"the journal is not what it was: {why}; its new epoch is {self.log_epoch}")
        repaired = repair(self.connection, self.seconds, self.random)
        if repaired:
            self.report(f"the last run ended without a word: {repaired} events were added to close what it had open")
        self.total = epoch.total(self.connection)

    def _check(self) -> None:
        self._checking = self.connection
        try:
            finding = damage.sound(self.connection)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            self.report("the journal is too large to be checked at every start; it was opened unchecked")
            return
        except sqlite3.DatabaseError as error:
            finding = str(error)
        finally:
            self._checking = None
        if finding is not None:
            self.connection.close()
            self._connection = self._begin_anew(finding)

    def _begin_anew(self, finding: str, old: sqlite3.Connection | None = None) -> sqlite3.Connection:
        known = self.total
        if old is None:
            said = self._witness.read()
            known = 0 if said is None else said[1]
        anew = damage.begin_anew(self.path, known, self.seconds, old)
        kept = f"it is kept as {anew.aside}" if os.path.lexists(anew.aside) else "nothing of it is left"
        self.report(
            f"the journal was damaged ({finding}); {kept}, and a new one begins, "
            f"with {anew.saved.sessions} of its sessions and none of their events"
        )
        if not anew.saved.revocations:
            self.report(
                "its revocations could not be read: every credential issued until now is revoked, so issue new ones"
            )
        return connect(self.path, durable=False)
