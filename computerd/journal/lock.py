"""One daemon at a time uses a state folder: a file that is locked as long as its process lives (flock(2))."""

from __future__ import annotations

import fcntl
import os

from computerd.journal.refusal import UnusableError


def take(path: str) -> int:
    """The descriptor that holds the lock on the file at `path`; closing it gives it back.

    Raises:
        UnusableError: Another process has it.
        OSError: There can be no such file.
    """
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise UnusableError(
            f"{path}: another computerd uses this folder: stop it, or give another --state-dir"
        ) from error
    return lock
