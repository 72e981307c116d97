"""Puts a file or folder in place whole: it is made in a hidden folder beside its target, and renamed. Until then nothing else is touched."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable
from typing import Any

from computerd.opc.failure import Failure
from computerd.opc.landing import Landing
from computerd.opc.progress import Progress

Land = Callable[[str, Progress], Landing]
"""Fills an empty folder."""


def is_folder(path: str) -> bool:
    """Whether there is a folder at `path`, and no link to one."""
    return stat.S_ISDIR(os.lstat(path).st_mode)


def landed_beside(dest: str, fetch: Land, line: Progress, *, folder: bool) -> Landing:
    """Has something fetched into a folder of its own beside `dest`, and then puts it in place by renaming.

    Args:
        dest: Where it is to be. What is there is replaced.
        fetch: Fetches it.
        line: Told of the bytes.
        folder: Whether it is a folder, or else the only file in what was fetched.

    Raises:
        OSError: It can't be written. All is as it was.
    """
    beside = tempfile.mkdtemp(prefix=".opc-pull-", dir=os.path.dirname(dest) or ".")
    try:
        new = os.path.join(beside, "new")
        os.mkdir(new)
        landing = fetch(new, line)
        if not folder:
            new = _only_file(new)
        _put(new, dest, os.path.join(beside, "old"))
    finally:
        _remove(beside)
    return landing


def _only_file(folder: str) -> str:
    found = [os.path.join(folder, name) for name in os.listdir(folder)]
    if len(found) != 1 or not stat.S_ISREG(os.lstat(found[0]).st_mode):
        raise Failure("invalid_archive", "what the daemon sent is not one file, so it was not kept.")
    return found[0]


def _put(new: str, dest: str, old: str) -> None:
    """Renames. Between the two steps no signal may end us: what is in `old` would be lost with the folder beside."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        if os.path.lexists(dest):
            os.rename(dest, old)
        os.rename(new, dest)
    except BaseException:
        if os.path.lexists(old) and not os.path.lexists(dest):
            os.rename(old, dest)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _remove(folder: str) -> None:
    """Takes a folder away, with what its modes would protect."""

    def again(function: Callable[..., Any], path: str, error: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            if is_folder(path):
                os.chmod(path, 0o700)
                shutil.rmtree(path, ignore_errors=True)
            else:
                function(path)

    shutil.rmtree(folder, onerror=again)
