"""Two Unix users that tests run programs as. They are made when first wanted, and removed when the tests' process ends."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

from twisted.trial.unittest import SkipTest


def processes_of(uid: int) -> list[int]:
    """Processes of that user that still run."""
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid and status(int(name), "State")[0] != "Z":
                found.append(int(name))
    return found


def status(pid: int, field: str) -> str:
    """A line of proc_pid_status(5)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return line.partition(":")[2].strip()
    raise KeyError(field)


def kill_all(uid: int) -> None:
    """Kills every process of that user."""
    for pid in processes_of(uid):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def run(*command: str) -> None:
    """Runs a command of the system."""
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def needs_root() -> None:
    """Skips a test that only root can run."""
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        raise SkipTest("makes Unix users: run as root, with useradd")


@cache
def person(letter: str) -> pwd.struct_passwd:
    """A Unix user of this run of the tests: `a` or `b`."""
    needs_root()
    name = f"cdt{os.getpid()}{letter}"
    run("useradd", "--create-home", "--shell", "/bin/bash", "--user-group", name)
    atexit.register(_remove, name)
    return pwd.getpwnam(name)


def _remove(name: str) -> None:
    kill_all(pwd.getpwnam(name).pw_uid)
    run("userdel", "--remove", "--force", name)
