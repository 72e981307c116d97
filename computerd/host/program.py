"""What a worker runs: which Python, and the program that it is sent."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from attrs import frozen

from computerd.contract.errors import ApiError, Code
from computerd.host.worker import boot

_SYSTEM_PYTHON: Final = "/usr/bin/python3"
_ZSTD: Final = "zstandard"
_WITH_ZSTD: Final = (3, 14)
"""The first Python that knows zstd by itself."""


@frozen
class Program:
    """A program for workers. Read once: an upgrade under a running daemon changes nothing.

    Attributes:
        command: For `/bin/sh -c`.
        first: The first frame.
        zstd: Whether it knows that coding.
    """

    command: str
    first: bytes
    zstd: bool = True

    @classmethod
    def find(cls, *, privileged: bool) -> Program:
        """The worker's own program, on a Python that every user can run.

        Raises:
            ApiError: `computer_not_set_up`: there is none.
        """
        python = interpreter(privileged=privileged)
        command = f"exec {shlex.quote(python)} -X utf8 -I -S -E -c {shlex.quote(boot.BOOT)}"
        folders = libraries(python)
        return cls(
            command, boot.first_frame(folders), zstd=bool(folders) or (_same(python) and sys.version_info >= _WITH_ZSTD)
        )


def interpreter(candidates: Iterable[str] | None = None, *, privileged: bool) -> str:
    """The first Python that every user can run, and that only root can change if the daemon is root. Its own, if possible.

    Raises:
        ApiError: `computer_not_set_up`: there is none.
    """
    if candidates is None:
        base = getattr(sys, "_base_executable", None)
        candidates = (sys.executable, base or "", _SYSTEM_PYTHON)
    for candidate in candidates:
        if candidate and _runs_for_all(path := os.path.realpath(candidate), privileged):
            return path
    raise ApiError(
        Code.COMPUTER_NOT_SET_UP,
        f"Files need a Python that every user can run: the one of computerd is closed to others, and there is no {_SYSTEM_PYTHON}. "
        "Install python3, or computerd where users can read it.",
    )


def _runs_for_all(path: str, privileged: bool) -> bool:
    try:
        file = os.stat(path)
        folders = [os.stat(folder) for folder in Path(path).parents]
    except OSError:
        return False
    if not (
        stat.S_ISREG(file.st_mode) and file.st_mode & 0o005 == 0o005 and all(one.st_mode & 0o001 for one in folders)
    ):
        return False
    return not privileged or (_only_roots(file) and all(_only_roots(one) for one in folders))


def _only_roots(status: os.stat_result) -> bool:
    # in a sticky folder, such as /tmp, nobody renames what is root's
    writable = stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == 0 and (
        not writable or (stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX))
    )


def _same(python: str) -> bool:
    """Whether it is of the version of this one: what was built for one can be loaded by the other."""
    return os.path.basename(python) == "python{}.{}".format(*sys.version_info)


def libraries(python: str) -> list[str]:
    """The folder that holds what the worker can use of the daemon's libraries, if there is any and every user can read it."""
    spec = find_spec(_ZSTD)
    if spec is None or spec.origin is None or not _same(python):
        return []
    folder = Path(os.path.realpath(spec.origin)).parent
    try:
        open_to_all = all(one.stat().st_mode & 0o001 for one in (folder, *folder.parents))
        readable = all(one.stat().st_mode & 0o004 for one in folder.iterdir() if one.is_file())
    except OSError:
        return []
    return [str(folder.parent)] if open_to_all and readable else []
