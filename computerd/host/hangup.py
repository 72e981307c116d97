"""Signals to process groups, and the proof that a number still means the group that it meant.

A group's number is free for others once its last member is gone, even while a terminal still names it as its foreground. So:

* The terminal's own group, which is also its session, is signalled only while its process is unreaped: that holds the number.
* Meanwhile a foreground group is ours if its leader, or a member found in /proc, is in our session.
* After the process is reaped the session's number may be free too. Then one of two things must hold. Either the foreground group's leader,
  whose pidfd was opened while the session was ours, still lives in that group and session; or a member found in /proc is in that group and
  session and was there before the hang-up: then neither number was free at any time since.
"""

from __future__ import annotations

import math
import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from attrs import define, field

_TICKS: Final = os.sysconf("SC_CLK_TCK")
# proc_pid_stat(5): fields 5, 6 and 22, counted from the one after the command's closing bracket, which is field 3
_GROUP: Final = 2
_SESSION: Final = 3
_STARTED: Final = 19


def send(group: int, number: signal.Signals) -> None:
    """Signals a process group. Never init, never everybody, never the daemon's own; that there is none any more is no error."""
    if group <= 1 or group == os.getpgrp():
        return
    with suppress(ProcessLookupError, PermissionError):  # gone; or set-uid, in the hands of a daemon that isn't root
        os.killpg(group, number)


def _uptime_ticks() -> int:
    with open("/proc/uptime", "rb") as file:
        return round(float(file.read().split()[0]) * _TICKS)  # it has two decimals, which no binary fraction hits


def _processes() -> Iterator[tuple[int, int, int]]:
    """Group, session and start (in ticks after boot) of every process that /proc shows us and that still runs."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):  # dead, and not reaped yet
            yield int(fields[_GROUP]), int(fields[_SESSION]), int(fields[_STARTED])


def _led(group: int, session: int) -> bool:
    """Whether the process with that number leads that group, in that session."""
    try:
        return os.getsid(group) == session and os.getpgid(group) == group
    except OSError:
        return False


def _peopled(group: int, session: int, before: float) -> bool:
    """Whether /proc shows a member of that group and session that started before tick `before`."""
    try:
        return any(one == group and other == session and at < before for one, other, at in _processes())
    except OSError:
        return False


def ours(group: int, session: int) -> bool:
    """Whether `group` is in `session`, whose leader is a process of ours that is not reaped."""
    return group > 1 and (group == session or _led(group, session) or _peopled(group, session, math.inf))


def _dead(pidfd: int) -> bool:
    """Whether the process has ended, reaped or not: its pidfd can be read then (pidfd_open(2))."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


@define(eq=False)
class Foreground:
    """A group that had the terminal when it was hung up.

    Attributes:
        group: Its number.
        session: Of the terminal.
    """

    group: int
    session: int
    _leader: int
    _since: int

    @classmethod
    def note(cls, group: int, session: int) -> Foreground | None:
        """Remembers `group`, while the session is ours. None when it is the session's own, or not ours."""
        if group == session or not ours(group, session):
            return None
        try:
            leader = os.pidfd_open(group)
        except OSError:
            leader = -1  # the leader is gone, or the kernel is older than 5.3
        try:
            since = _uptime_ticks()
        except OSError:
            since = 0
        return cls(group, session, leader, since)

    def lives(self) -> bool:
        """Whether one of it is provably still there."""
        if self._leader >= 0 and not _dead(self._leader) and _led(self.group, self.session):
            return True
        return _peopled(self.group, self.session, self._since)

    def kill(self) -> None:
        """SIGKILL, if the number provably means the same group as before: a dead leader that is not reaped holds it as well."""
        if self._held() or self.lives():
            send(self.group, signal.SIGKILL)

    def _held(self) -> bool:
        if self._leader < 0:
            return False
        try:
            signal.pidfd_send_signal(self._leader, 0)
        except PermissionError:
            pass  # it is there, as somebody else
        except OSError:
            return False
        return _led(self.group, self.session)

    def forget(self) -> None:
        """Lets go of the leader."""
        leader, self._leader = self._leader, -1
        if leader >= 0:
            os.close(leader)


@define(eq=False)
class HangUp:
    """One terminal's hang-up: SIGHUP now, SIGKILL later.

    Attributes:
        session: The process, leader of its session and of its group.
    """

    session: int
    _foreground: Foreground | None = field(default=None, init=False)

    def begin(self, foreground: int) -> None:
        """SIGHUP to the process's group and to the one in the foreground, then SIGCONT, so that stopped ones hear of it.

        The process must not have been reaped.
        """
        self._foreground = Foreground.note(foreground, self.session)
        groups = [self.session] if self._foreground is None else [self.session, self._foreground.group]
        for number in (signal.SIGHUP, signal.SIGCONT):
            for group in groups:
                send(group, number)

    def pending(self) -> bool:
        """After the process's exit: whether there is still a group to be killed. What nohup keeps in the process's own group is spared."""
        return self._foreground is not None and self._foreground.lives()

    def kill(self, foreground: int, *, alive: bool) -> None:
        """SIGKILL to what is left.

        Args:
            foreground: The group in the foreground now, 0 for none.
            alive: The process has not been reaped.
        """
        if self._foreground is not None:
            self._foreground.kill()
        if alive:
            if ours(foreground, self.session):
                send(foreground, signal.SIGKILL)
            send(self.session, signal.SIGKILL)
        self.forget()

    def forget(self) -> None:
        """Lets go of everything."""
        if self._foreground is not None:
            self._foreground.forget()
            self._foreground = None
