"""Why a request fails. What the system says becomes one of a few codes of the API, with a sentence."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

INVALID_PATH: Final = "invalid_path"
PATH_NOT_FOUND: Final = "path_not_found"
PATH_EXISTS: Final = "path_exists"
TOO_LARGE: Final = "too_large"
INVALID_ARCHIVE: Final = "invalid_archive"
INVALID_CURSOR: Final = "invalid_cursor"
UNAVAILABLE: Final = "unavailable"

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""No room is left."""
_MAX_MESSAGE: Final = 500
"""Characters."""
_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR)
_NOT_ALLOWED: Final = (errno.EACCES, errno.EPERM)


class Refused(Exception):
    """The request fails, and this is what the caller is told."""

    def __init__(self, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message[:_MAX_MESSAGE]
        self.field = field


class Stopped(Exception):
    """Nobody wants the answer any more."""


def kind_of(mode: int) -> str:
    """What the mode of stat(2) says it is, with its article."""
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISREG(mode):
        return "a file"
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def of_path(error: OSError, *, doing: str = "read") -> Refused:
    """What it means that the path that was given could not be opened.

    Args:
        error: What the system said.
        doing: What the user may not do with it, when that is why.
    """
    number = error.errno
    if number in _NOT_THERE:
        return Refused(PATH_NOT_FOUND, "There is nothing at that path.", "path")
    if number in _NOT_ALLOWED:
        return Refused(INVALID_PATH, f"The user of the session may not {doing} it.", "path")
    if number == errno.EXDEV:
        return Refused(INVALID_PATH, "It leads out of the workspace.", "path")
    if number == errno.ELOOP:
        return Refused(INVALID_PATH, "It leads in a circle, or through a link that may not be followed.", "path")
    if number == errno.ENAMETOOLONG:
        return Refused(INVALID_PATH, "A name in it is too long.", "path")
    if number in (errno.ENXIO, errno.ENODEV):
        return Refused(INVALID_PATH, "It is a socket or a device, and no file.", "path")
    return of_system(error)


def of_any(error: BaseException) -> Refused:
    """What any end of a request means."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Stopped):
        return Refused(UNAVAILABLE, "The request was stopped.")
    if isinstance(error, OSError):
        return of_system(error)
    return Refused(UNAVAILABLE, f"The worker failed: {type(error).__name__}.")


def of_system(error: OSError) -> Refused:
    """What it means that the system could not."""
    if error.errno in FULL:
        return Refused(UNAVAILABLE, "The disk is full, or the user's share of it.")
    return Refused(UNAVAILABLE, f"The system says: {os.strerror(error.errno or errno.EIO)}.")
