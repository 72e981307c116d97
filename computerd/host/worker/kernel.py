"""System calls that Python has no name for: openat2(2), renameat2(2), syncfs(2). Their numbers are those of x86_64 and aarch64."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final

_OPENAT2: Final = 437  # on every architecture (openat2(2), Linux 5.6)
_RENAMEAT2: Final = {"x86_64": 316, "aarch64": 276}
_SYNCFS: Final = {"x86_64": 306, "aarch64": 267}
_HOW: Final = struct.Struct("=QQQ")
_NO_MAGICLINKS: Final = 0x02
_BENEATH: Final = 0x08

NOREPLACE: Final = 1
EXCHANGE: Final = 2

_machine = os.uname().machine
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


def _call(number: int | None, *arguments: ctypes.c_long | ctypes.c_char_p) -> int:
    """Makes a system call. Raises OSError."""
    result = -1 if number is None else int(_syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        error = errno.ENOSYS if number is None else ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def open_beneath(root: int, path: bytes, flags: int) -> int:
    """Opens a path that can't leave the folder `root`, whatever links it holds.

    Raises:
        OSError: EXDEV when it leads out, ELOOP for a link of proc(5), EAGAIN when something was renamed meanwhile; ENOSYS where there is no
            such call, EPERM where a filter forbids it.
    """
    how = _HOW.pack(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS)
    arguments = (ctypes.c_long(root), ctypes.c_char_p(path), ctypes.c_char_p(how), ctypes.c_long(len(how)))
    return _call(_OPENAT2, *arguments)


def rename(old: bytes, new: bytes, folder: int, flags: int) -> None:
    """Renames within a folder, with NOREPLACE or EXCHANGE. Raises OSError, EINVAL where the file system can't."""
    place = ctypes.c_long(folder)
    arguments = (place, ctypes.c_char_p(old), place, ctypes.c_char_p(new), ctypes.c_long(flags))
    _call(_RENAMEAT2.get(_machine), *arguments)


def sync_file_system(descriptor: int) -> None:
    """Writes what a file system holds back."""
    _call(_SYNCFS.get(_machine), ctypes.c_long(descriptor))
