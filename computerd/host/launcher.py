"""The small program that starts as root, becomes the user and then the user's shell.

Twisted can switch the user itself, but looks him up between fork and exec (which can deadlock), enters the folder as root, verifies
nothing and prints a traceback into the terminal when something fails. So a launcher does it, in a process of its own with a single thread:

    cgroup → session → owner of the tty or the pipes → signals → umask → limits → no new privileges
    → groups → gid → uid → capabilities → proof → folder, as the user → marker → exec

It says on descriptor 1 how that went: NUL, a nonce, then `.` when all of it holds and only the exec is left; or `!`, the stage that failed, its
errno and a line feed, before it ends with status 125. The nonce (NONCE in its environment, which only root can read) makes what a process of
the user writes to the same terminal meanwhile no answer.

Both launchers take the same arguments, each a string, `""` for none:

    system call numbers
    · tty; or take: a tty, not yet the controlling one; or pipes
    · UID:GID for the tty or the pipes · cgroup.procs · umask, octal · limits as "7=SOFT:HARD …" · oom_score_adj · 1 for no new privileges
    · "UID:GID,GROUP,…" · folder · HOME · USER · SHELL · PATH · LANG · TERM · [command]
"""

from __future__ import annotations

import errno
import os
import platform
import resource
import stat
import sys
from collections.abc import Mapping
from importlib.resources import files
from typing import Final, Literal

from attrs import frozen

from computerd.contract.errors import ApiError, Code, invalid
from computerd.host.accounts import Account
from computerd.host.settings import HostError, HostSettings
from computerd.terminal.port import Start

_PERL: Final = "/usr/bin/perl"
# execve close_range setsid rt_sigaction rt_sigprocmask prlimit64 prctl keyctl capset
# setgroups getgroups setresgid getresgid setresuid getresuid, from the kernel's arch/*/entry/syscalls and asm-generic/unistd.h
_NUMBERS: Final[Mapping[str, str]] = {
    "x86_64": "59,436,112,13,14,302,157,250,126,116,115,119,120,117,118",
    "aarch64": "221,436,157,134,135,261,167,219,91,159,158,149,150,147,148",
}
# what no second attempt cures: somebody must change something
_FOR_GOOD: Final = frozenset({errno.EPERM, errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ELOOP})


@frozen
class Launcher:
    """A launcher that this computer can run.

    Attributes:
        kind: Which of the two.
        head: Its program and first arguments.
        numbers: For its system calls; empty when it needs none.
    """

    kind: Literal["perl", "python"]
    head: tuple[bytes, ...]
    numbers: str

    @classmethod
    def find(cls, kind: Literal["perl", "python"] | None = None) -> Launcher:
        """Takes the fastest that works here, or the one wanted. The text is read once: an upgrade under a running daemon changes nothing.

        Raises:
            HostError: The one wanted can't run here.
        """
        numbers = _NUMBERS.get(platform.machine()) if sys.maxsize > 2**32 else None
        if kind != "python" and numbers is not None and _trustworthy(_PERL):
            return cls("perl", _encoded(_PERL, "-f", "-e", _text("launch.pl"), "--"), numbers)
        if kind == "perl":
            raise HostError(f"The perl launcher needs x86_64 or aarch64 and a {_PERL} that only root can write.")
        return cls("python", _encoded(sys.executable, "-I", "-S", "-E", "-c", _text("launch.py")), numbers or "")

    def arguments(
        self,
        start: Start,
        account: Account,
        folder: str,
        settings: HostSettings,
        *,
        drop: bool,
        tty_group: int,
        cgroup: str,
    ) -> list[bytes]:
        """The whole command line.

        Args:
            start: What to start.
            account: As whom.
            folder: Where.
            settings: How.
            drop: The daemon is root: become the user. Otherwise it is the user already.
            tty_group: The group that the terminal is to belong to.
            cgroup: The `cgroup.procs` to join.

        Raises:
            ApiError: `invalid_request` for what no program can be given: NUL, or half of a surrogate pair.
        """
        tty = start.size is not None
        ids = ",".join(map(str, account.groups))
        words = [
            self.numbers,
            ("tty" if settings.fork else "take") if tty else "pipes",
            f"{account.uid}:{tty_group if tty else account.gid}" if drop else "",
            cgroup,
            f"{settings.umask:o}",
            _limits(settings),
            str(settings.oom_score_adj) if drop else "",
            "1" if settings.no_new_privileges else "",
            f"{account.uid}:{account.gid},{ids}" if drop else "",
            folder,
            account.home,
            account.name,
            account.shell,
            settings.path,
            settings.lang,
        ]
        line = [*self.head, *map(os.fsencode, words), _bytes("term", start.term)]
        return line if start.command is None else [*line, _bytes("command", start.command)]


def _encoded(*words: str) -> tuple[bytes, ...]:
    return tuple(map(os.fsencode, words))


def _text(name: str) -> str:
    return files("computerd.host").joinpath(name).read_text("utf-8")


def _trustworthy(program: str) -> bool:
    try:
        status = os.stat(program)
    except OSError:
        return False
    return (
        status.st_uid == 0
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        and bool(status.st_mode & stat.S_IXUSR)
    )


def _bytes(field: str, text: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise invalid(field, f"{field} holds half of a surrogate pair, which is no character.") from None
    if b"\0" in encoded:
        raise invalid(field, f"{field} holds a NUL, which no program can be given.")
    return encoded


def _limits(settings: HostSettings) -> str:
    def capped(what: int, soft: int, hard: int) -> str:
        ceiling = resource.getrlimit(what)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        return f"{what}={min(soft, hard)}:{hard}"

    # not RLIMIT_NPROC, which counts all that the user runs anywhere: a session's cgroup has a limit of its own
    open_files = capped(resource.RLIMIT_NOFILE, *settings.open_files)
    return f"{open_files} {capped(resource.RLIMIT_CORE, settings.core_bytes, settings.core_bytes)}"


def failure(stage: str, number: int, account: Account) -> ApiError:
    """What the caller is told when the launcher failed at `stage` with errno `number`."""
    why = f" ({os.strerror(number)})" if number else ""
    if stage == "folder" and number in _FOR_GOOD:
        return ApiError(
            Code.COMPUTER_NOT_SET_UP,
            f"The Unix user \"{account.name}\" can't enter the session's workspace{why}. It must belong to that user, "
            "and every folder above it must let the user through.",
        )
    if stage == "folder":
        return ApiError(Code.COMPUTER_UNAVAILABLE, f"The session's workspace could not be entered{why}. Try again.")
    if stage in ("groups", "gid", "uid", "capabilities", "dumpable", "locked") or stage.startswith("check-"):
        return ApiError(
            Code.COMPUTER_UNAVAILABLE,
            f'The program was not started: becoming the Unix user "{account.name}" failed at "{stage}"{why}.',
        )
    return ApiError(Code.COMPUTER_UNAVAILABLE, f'The program was not started: preparing it failed at "{stage}"{why}.')
