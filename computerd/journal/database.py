"""Opening the journal's file: what is refused, what is damaged, and how a connection is set up."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from computerd.journal.refusal import DamagedError, UnsafeFileError, UnusableError
from computerd.journal.schema import migrate

FILE: Final = "journal.db"
SUFFIXES: Final = ("", "-wal", "-shm")
"""Of the files that make up a database in WAL mode."""
BUSY_SECONDS: Final = 10.0
"""That a statement waits for another process's transaction. `computerctl` holds one for a single fsync."""
WAL_BYTES: Final = 64 * 1024 * 1024
"""That the write-ahead log is cut back to after a checkpoint (requirement S7)."""
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def damaged(error: sqlite3.Error) -> bool:
    """Whether SQLite says that the file itself is broken. The low byte is the primary code (sqlite.org/rescode.html)."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE


def examine(path: str) -> bool:
    """Whether there is a file at `path`, which is then safe to use.

    Raises:
        UnsafeFileError: Somebody else owns the file or its folder, may write to it, or has put a link there.
        UnusableError: There is no such folder.
    """
    folder = os.path.dirname(os.path.abspath(path))
    try:
        status = os.lstat(folder)
    except OSError as error:
        raise UnusableError(f"{folder}: {error.strerror}: make the folder, or give another with --state-dir") from error
    if not stat.S_ISDIR(status.st_mode):
        raise UnsafeFileError(f"{folder}: not a folder, or a link to one: name the folder itself")
    _ours(folder, status, "a folder that only its owner can write to")
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UnusableError(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise UnsafeFileError(f"{path}: a link, or not a file: put the journal's own file there, or move this away")
    _ours(path, status, "a file that only its owner can write to")
    return True


def connect(path: str, *, durable: bool) -> sqlite3.Connection:
    """A connection to the journal at `path`, which is made if it is missing, in this release's schema.

    Args:
        path: The file.
        durable: Whether each commit is on the disk when it returns, so that it outlives a power cut.

    Raises:
        JournalError: It is not safe to use, not usable, or from a later release.
        DamagedError: It is there and broken.
    """
    if examine(path):
        os.chmod(path, 0o600)
    else:
        _make(path)
    try:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, cached_statements=64)
    except sqlite3.Error as error:
        raise UnusableError(f"{path}: {error}: see to it that the daemon's user can write there") from error
    try:
        _set_up(connection, durable)
        migrate(connection)
    except sqlite3.Error as error:
        connection.close()
        if damaged(error):
            raise DamagedError(f"{path}: {error}") from error
        raise UnusableError(
            f"{path}: {error}: see to it that there is room and that the daemon's user can write there"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def opened(path: str) -> Iterator[sqlite3.Connection]:
    """A durable connection for one piece of work of a program that is not the daemon.

    Raises:
        JournalError: The journal can't be used.
        DamagedError: It is broken.
    """
    connection = connect(path, durable=True)
    try:
        yield connection
    except sqlite3.Error as error:
        if damaged(error):
            raise DamagedError(f"{path}: {error}: start the daemon, which moves it aside") from error
        raise UnusableError(f"{path}: {error}") from error
    finally:
        connection.close()


def _set_up(connection: sqlite3.Connection, durable: bool) -> None:
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    # With NORMAL a commit is in the kernel's hands, and the death of the daemon can't undo it; only a power cut can take
    # back the last ones, which is then noticed (see `epoch`). An fsync for each commit would cost 15 times as much
    # (measured: 199 against 2,959 rows/s). A revocation that a power cut takes back would let somebody in again, so those
    # few rows are written with FULL, on a connection of their own: the setting belongs to the connection, and an
    # fsync of the log that both share covers every event before it too.
    connection.execute("PRAGMA synchronous = FULL" if durable else "PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}").fetchone()


def _ours(path: str, status: os.stat_result, wanted: str) -> None:
    if status.st_uid != os.geteuid():
        raise UnsafeFileError(f"{path}: belongs to uid {status.st_uid} and not to {os.geteuid()}: {wanted} is needed")
    if status.st_mode & 0o022:
        raise UnsafeFileError(
            f"{path}: others may write to it (mode {stat.S_IMODE(status.st_mode):04o}): {wanted} is needed"
        )


def _make(path: str) -> None:
    # SQLite gives the log beside it the same mode. Nothing may close this file later without SQLite: POSIX drops all
    # of a process's locks on a file when any descriptor of it is closed.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        examine(path)
    except OSError as error:
        raise UnusableError(f"{path}: {error.strerror}: see to it that the daemon's user can write there") from error
