"""The launcher for hosts without perl, and for machines whose system call numbers the other does not know. See `launcher` for what it does and says.

It is run by its text with `python -I -S -E -c`: nothing but the standard library is found, and all that it needs is loaded while it is still root,
because the user may not be able to read the Python that the daemon runs on.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
import sys
import termios
from collections.abc import Sequence
from typing import NoReturn

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_VERSION_3 = 0x20080522
_MISSING = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ELOOP)


class _CheckError(Exception):
    """A check failed, rather than a call."""


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> None:
    # unsigned long each: a plain int would leave the upper half of a register to chance
    if libc.prctl(option, *(ctypes.c_ulong(number) for number in (value, 0, 0, 0))) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _join(cgroup: str) -> None:
    descriptor = os.open(cgroup, os.O_WRONLY)
    os.write(descriptor, str(os.getpid()).encode())
    os.close(descriptor)


def _signals(libc: ctypes.CDLL, numbers: Sequence[int]) -> None:
    for number in range(1, 65):
        if number in (signal.SIGKILL, signal.SIGSTOP):
            continue
        if numbers:
            # the kernel's own call: the library's refuses 32 and 33, which posix_spawn leaves ignored
            libc.syscall(numbers[3], number, bytes(32), None, ctypes.c_size_t(8))
        elif number not in (32, 33):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _lower(oom: str) -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(oom)
    except OSError:
        pass  # as the other launcher: no reason not to start
    try:
        if os.getpriority(os.PRIO_PROCESS, 0):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
    except OSError:
        pass


def _drop(stage: list[str], libc: ctypes.CDLL, ids: str) -> None:
    uid, gid, *groups = (int(number) for number in ids.replace(":", ",").split(","))
    stage[0] = "groups"
    os.setgroups(groups)
    stage[0] = "gid"
    os.setresgid(gid, gid, gid)
    stage[0] = "uid"
    os.setresuid(uid, uid, uid)
    stage[0] = "dumpable"
    _prctl(libc, _PR_SET_DUMPABLE, 0)
    stage[0] = "capabilities"
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    _prove(stage, uid, gid, groups)


def _prove(stage: list[str], uid: int, gid: int, groups: list[int]) -> None:
    stage[0] = "check-uid"
    if os.getresuid() != (uid, uid, uid):
        raise _CheckError
    stage[0] = "check-gid"
    if os.getresgid() != (gid, gid, gid):
        raise _CheckError
    stage[0] = "check-groups"
    if sorted(os.getgroups()) != sorted(groups):
        raise _CheckError
    stage[0] = "check-return"
    for call in (os.setresuid, os.setresgid):
        for wanted in ((0, 0, 0), (-1, 0, -1)):
            try:
                call(*wanted)
            except PermissionError:
                continue
            raise _CheckError


def _prepare(stage: list[str], arguments: Sequence[str]) -> None:
    numbers, mode, owner, cgroup, umask, limits, oom, locked, ids, folder = arguments
    known = [int(number) for number in numbers.split(",")] if numbers else []
    libc = ctypes.CDLL(None, use_errno=True)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # nothing is there
    stage[0] = "cgroup"
    if cgroup:
        _join(cgroup)
    stage[0] = "session"
    if mode != "tty":
        os.setsid()
    if mode == "take":
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    stage[0] = "tty"
    if owner:
        uid, gid = owner.split(":")
        for descriptor in (0, 1, 2) if mode == "pipes" else (0,):  # without it the user can't open /dev/stderr
            os.fchown(descriptor, int(uid), int(gid))
    stage[0] = "signals"
    _signals(libc, known)
    os.umask(int(umask, 8))
    stage[0] = "limits"
    for limit in limits.split():
        what, pair = limit.split("=")
        soft, hard = (int(number) for number in pair.split(":"))
        resource.setrlimit(int(what), (soft, hard))
    _lower(oom)
    stage[0] = "locked"
    if locked:
        _prctl(libc, _PR_SET_NO_NEW_PRIVS, 1)
    if ids:
        if known:
            libc.syscall(known[7], _KEYCTL_JOIN_SESSION_KEYRING, None)
        _drop(stage, libc, ids)
    stage[0] = "folder"
    os.chdir(folder)


def _become(arguments: Sequence[str]) -> NoReturn:
    home, user, shell, path, lang, term, *command = arguments
    number, program = errno.ENOENT, shell
    for program in (shell, "/bin/sh"):
        if not program.startswith("/"):
            continue
        name = program.rpartition("/")[2]
        environment = {
            "HOME": home,
            "USER": user,
            "LOGNAME": user,
            "SHELL": program,
            "PATH": path,
            "LANG": lang,
            "TERM": term,
        }
        try:
            os.execve(program, [name, "-c", *command] if command else ["-" + name], environment)  # noqa: S606  # no shell between is what is wanted
        except OSError as error:
            number = error.errno or 0
        if number not in _MISSING:
            break
    os.write(2, f"{program}: {os.strerror(number)}\n".encode(errors="surrogateescape"))
    os._exit(127 if number == errno.ENOENT else 126)


def _main(arguments: Sequence[str], nonce: bytes) -> None:
    stage = ["arguments"]
    try:
        _prepare(stage, arguments[:10])
        stage[0] = "marker"
        os.write(1, b"\0" + nonce + b".")
    except Exception as error:  # whatever it is, the daemon hears of it, and the program is not started
        number = error.errno if isinstance(error, OSError) else 0
        os.write(1, b"\0" + nonce + f"!{stage[0]} {number or 0}\n".encode())
        os._exit(125)
    _become(arguments[10:])


if __name__ == "__main__":
    _main(sys.argv[1:], os.environb[b"NONCE"])
