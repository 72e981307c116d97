"""The journal's file while the daemon has it open, with all that lies beside it. Only the journal's thread touches it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from attrs import define, field

from computerd.api.credentials import Revocation
from computerd.journal import credentials, damage, epoch
from computerd.journal.database import WAL_BYTES, connect, examine
from computerd.journal.epoch import Witness
from computerd.journal.refusal import DamagedError, UnusableError
from computerd.journal.repair import repair
from computerd.journal.reserve import Reserve
from computerd.session.port import Random, Seconds

CHECKPOINT_PAGES: Final = 1000
"""Pages of the log after which it is written back: SQLite's own default for `wal_autocheckpoint`."""
_PAGE: Final = 4096
_PAGES_OF_A_COMMIT: Final = 3


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
    _pages: int = field(default=0, init=False)

    @reserve.default
    def _reserve_beside(self) -> Reserve:
        return Reserve(os.path.join(os.path.dirname(self.path), "reserve.bin"))

    @_witness.default
    def _witness_beside(self) -> Witness:
        return Witness(self.path + ".seen")

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

    def committed(self, events: int, size: int) -> None:
        """Counts a commit of that many events with so many bytes."""
        self.total += events
        self._pages += _PAGES_OF_A_COMMIT + events // 8 + size // _PAGE

    def write_back(self) -> None:
        """Writes the log back to the database if it has grown to `CHECKPOINT_PAGES`. This is what waits for the disk."""
        if self._pages < CHECKPOINT_PAGES:
            return
        self._pages = 0
        how = "PRAGMA wal_checkpoint(PASSIVE)"
        with suppress(OSError):
            if os.path.getsize(self.path + "-wal") > WAL_BYTES // 2:
                how = "PRAGMA wal_checkpoint(TRUNCATE)"
        # a reader in another process may keep it from finishing: the next one goes on
        self.connection.execute(how).fetchone()

    def _open(self) -> list[Revocation]:
        try:
            examine(self.path)
            self._lock = self._take_lock()
            self._connection = self._connect()
            # this thread writes the log back itself, when nobody waits for the answer to a commit
            self._connection.execute("PRAGMA wal_autocheckpoint = 0").fetchone()
            self._check()
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

    def _begin_anew(self, finding: str) -> sqlite3.Connection:
        aside = damage.move_aside(self.path, self.seconds)
        connection = connect(self.path, durable=True)
        saved = damage.salvage(aside, connection, self.seconds)
        connection.close()
        self.report(
            f"the journal was damaged ({finding}); it is kept as {aside} and a new one begins, without its sessions"
        )
        if not saved:
            self.report(
                "its revocations could not be read: every credential issued until now is revoked, so issue new ones"
            )
        return connect(self.path, durable=False)

    def _take_lock(self) -> int:
        path = self.path + ".lock"
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise UnusableError(
                f"{path}: another computerd uses this folder: stop it, or give another --state-dir"
            ) from error
        return lock
