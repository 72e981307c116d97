"""Starts processes as the agent's Unix user: the room's one way in."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from attrs import define, evolve, field
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorFDSet, IReactorProcess, IReactorTime
from twisted.python.failure import Failure

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.host.accounts import Account, Accounts
from computerd.host.cgroup import Cgroups
from computerd.host.ending import Ending, SessionEnd
from computerd.host.greeting import Greeting
from computerd.host.hired import Hired
from computerd.host.launcher import Launcher, failure
from computerd.host.line import Line, Ptys, open_pipes, open_socket, open_tty, tty_group
from computerd.host.opening import Opening, Reaped
from computerd.host.process import HostProcess
from computerd.host.ptyprocess import by_posix_spawn
from computerd.host.settings import HostSettings
from computerd.host.turns import Turns
from computerd.host.workspaces import Workspaces
from computerd.host.writing import Room
from computerd.terminal.port import Process, Start

_GIVE_UP_SECONDS: Final = limits.KILL_SECONDS + 2.0
"""From the beginning of a shutdown: what SIGKILL can't end (a process that waits for a dead disk) must not hold up the daemon, nor take
the time in which its clients are told of the end."""
_DISCARD_SECONDS: Final = limits.KILL_SECONDS + 1.0
_NONCE_BYTES: Final = 16
_WORKER_SHELL: Final = "/bin/sh"

_Launched = tuple[Start, Opening, bytes]
"""What was started, how, and the first of its output."""

T = TypeVar("T")


class Reactor(IReactorFDSet, IReactorProcess, IReactorTime):
    """What is needed of Twisted's reactor."""


def unavailable(error: OSError, tty: bool) -> ApiError:
    """What the caller is told when a line or a process can't be had."""
    code = error.errno or 0
    if code in (errno.EMFILE, errno.ENFILE):
        what = "too many files are open"
    elif code in (errno.ENOSPC, errno.EIO) and tty:
        what = "no pseudo-terminal is left"
    elif code in (errno.EAGAIN, errno.ENOMEM):
        what = "no process can be started now, for want of processes or memory"
    else:
        what = os.strerror(code)
    return ApiError(
        Code.COMPUTER_UNAVAILABLE, f"The program was not started: {what}. Close what is not needed and try again."
    )


def _suspending() -> ApiError:
    return ApiError(Code.COMPUTER_UNAVAILABLE, "The session is being suspended. Try again.")


def _stopping() -> ApiError:
    return ApiError(Code.COMPUTER_UNAVAILABLE, "The computer is stopping. Try again when it is back.")


@define(eq=False)
class HostSpawner:
    """Implements `computerd.terminal.port.Spawner`.

    Attributes:
        settings: What the operator decided. See `configure`.
        random: A cryptographic source: n bytes.
        now: Seconds since the epoch.
        privileged: The daemon is root: processes become the agent's user. Otherwise they run as the daemon's own.
        cgroups: The delegated part of the cgroup tree.
        launcher: What stands between.
    """

    _reactor: Reactor
    settings: HostSettings
    random: Callable[[int], bytes] = field(default=os.urandom, kw_only=True)
    now: Callable[[], float] = field(default=time.time, kw_only=True)
    privileged: bool = field(factory=lambda: os.geteuid() == 0, init=False)
    cgroups: Cgroups = field(init=False)
    launcher: Launcher = field(init=False)
    _accounts: Accounts = field(init=False)
    _workspaces: Workspaces = field(init=False)
    _terminals: Ptys = field(init=False)
    _ends: list[SessionEnd] = field(factory=list, init=False)
    _queued: set[Start] = field(factory=set, init=False)
    _opening: dict[Opening, Start] = field(factory=dict, init=False)
    _running: dict[HostProcess, Start] = field(factory=dict, init=False)
    _hired: dict[Hired, Start] = field(factory=dict, init=False)
    _rooms: WeakValueDictionary[str, Room] = field(factory=WeakValueDictionary, init=False)
    _tty_group: int | None = field(factory=tty_group, init=False)
    _stopping: bool = field(default=False, init=False)
    _turns: Turns = field(init=False)
    _timers: list[IDelayedCall] = field(factory=list, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        """Opens the workspace root and the reserve.

        Raises:
            HostError: The computer can't serve as configured.
        """
        settings = self.settings
        self._turns = Turns(self._reactor)
        self.launcher = Launcher.find(settings.launcher)
        self._workspaces = Workspaces.open(settings.workspace_root, hand_over=self.privileged)
        self.cgroups = (
            Cgroups.find(settings.cgroup_limits) if settings.cgroups else Cgroups(None, "switched off by configuration")
        )
        self._accounts = Accounts(settings, self.privileged, self._reactor.seconds, self.now)
        self._terminals = Ptys(settings.spare_terminals)
        self._terminals.fill()

    def configure(self, settings: HostSettings) -> None:
        """Replaces the settings for what is started from now on. `workspace_root`, `launcher`, `cgroups` and the reserve stay."""
        self.settings = settings
        self.cgroups.limits = settings.cgroup_limits
        self._accounts = Accounts(settings, self.privileged, self._reactor.seconds, self.now)

    def account(self, owner: str) -> Account:
        """The user that `owner`'s processes run as. Raises `ApiError` as `spawn` does."""
        return self._accounts.of(owner)

    def spawn(self, start: Start) -> Deferred[Process]:
        """See `Spawner`. Cancelling it leaves nothing behind."""
        return self._in_turn(start, worker=False).addCallback(self._process)

    def hire(self, start: Start) -> Deferred[Hired]:
        """Starts the worker of a session's files: `start.command` runs in `/bin/sh`, with a socket for its descriptors 0 and 1. As `spawn` otherwise.

        `Hired.begin` is to be called at once.
        """
        return self._in_turn(start, worker=True).addCallback(self._worker)

    def _in_turn(self, start: Start, *, worker: bool) -> Deferred[_Launched]:
        self._queued.add(start)

        def left(result: T) -> T:
            self._queued.discard(start)
            return result

        return self._turns.take(lambda: self._try(start, worker=worker)).addBoth(left)

    def _try(self, start: Start, *, worker: bool) -> Deferred[_Launched]:
        try:
            if start not in self._queued:
                # it has waited for its turn while the session was ended
                raise _suspending()
            self._queued.discard(start)
            return self._spawn(start, worker)
        except ApiError as error:
            return fail(error)

    def _spawn(self, start: Start, worker: bool) -> Deferred[_Launched]:
        if self._stopping:
            raise _stopping()
        account = self._accounts.of(start.owner)
        folder = self._workspaces.make(start.session_id, account)
        if worker:
            account = evolve(account, shell=_WORKER_SHELL)
        try:
            opening = self._launch(start, account, folder, worker)
        except OSError as error:
            self._left(start)
            raise unavailable(error, start.size is not None) from None
        except ApiError:
            self._left(start)
            raise
        self._opening[opening] = start
        return opening.begin().addBoth(self._launched, start, opening)

    def _launch(self, start: Start, account: Account, folder: str, worker: bool) -> Opening:
        cgroup = self.cgroups.place(start.session_id, start.terminal_id)
        nonce = self.random(_NONCE_BYTES).hex().encode()
        arguments = self.launcher.arguments(
            start,
            account,
            folder,
            self.settings,
            drop=self.privileged,
            tty_group=account.gid if self._tty_group is None else self._tty_group,
            cgroup=cgroup,
        )
        child = Reaped()
        line = self._open(start, child, arguments, {b"NONCE": nonce}, worker)
        line.input.room = self._rooms.setdefault(start.owner, Room())
        return Opening(
            self._reactor, line, child, Greeting(nonce), lambda word: failure(word.stage, word.number, account)
        )

    def _open(
        self, start: Start, child: Reaped, arguments: list[bytes], environment: dict[bytes, bytes], worker: bool
    ) -> Line:
        # without uid, gid and path Twisted uses posix_spawn on pipes, and our class on a tty: neither copies the daemon
        def on_pipes(stdin: int, stdout: int, stderr: int) -> None:
            descriptors = {0: stdin, 1: stdout, 2: stderr}
            self._reactor.spawnProcess(child, arguments[0], arguments, environment, childFDs=descriptors)

        def on_tty(master: int, slave: int) -> None:
            line: Any = (master, slave, "")  # which the interface's declaration has forgotten
            if self.settings.fork:
                self._reactor.spawnProcess(child, arguments[0], arguments, environment, b"/", usePTY=line)
                return
            with by_posix_spawn():
                self._reactor.spawnProcess(child, arguments[0], arguments, environment, usePTY=line)

        if worker:
            return open_socket(self._reactor, on_pipes)
        if start.size is None:
            return open_pipes(self._reactor, on_pipes)
        return open_tty(self._reactor, self._reactor.callLater, self._terminals, start.size, on_tty)

    def _launched(self, result: bytes | Failure, start: Start, opening: Opening) -> _Launched | Failure:
        del self._opening[opening]
        if isinstance(result, Failure):
            self._left(start)
            return result
        return start, opening, result

    def _process(self, launched: _Launched) -> Process:
        start, opening, result = launched
        process = HostProcess(self._reactor, opening.child.leader, opening.line, result, self._exited, self._gone)
        if self.settings.kill_leftovers and self.cgroups.base is not None:
            process.leftovers = lambda: self._kill_leftovers(start)
        self._running[process] = start
        opening.child.told = process.exited
        if opening.child.status is not None:
            process.exited(opening.child.status)
        return process

    def _worker(self, launched: _Launched) -> Hired:
        start, opening, rest = launched
        hired = Hired(opening.child, opening.line, rest, lambda: self._kill_leftovers(start), self._released)
        self._hired[hired] = start
        return hired

    def _released(self, hired: Hired) -> None:
        start = self._hired.pop(hired)
        self._left(start)
        for end in tuple(self._ends):
            end.left(hired)

    def _exited(self, process: HostProcess) -> None:
        self._left(self._running[process])
        for end in tuple(self._ends):
            end.left(process)

    def _gone(self, process: HostProcess) -> None:
        del self._running[process]
        self._check_stopped()

    def _left(self, start: Start) -> None:
        self.cgroups.vacate(start.session_id, start.terminal_id)
        if not self._stopping:
            self._terminals.fill()
        self._check_stopped()

    def _kill_leftovers(self, start: Start) -> None:
        self.cgroups.kill(start.session_id, start.terminal_id)

    def end_session(self, session_id: str) -> Deferred[None]:
        """See `Spawner`. Without a delegated cgroup only what still belongs to a terminal can be found."""
        for opening, start in list(self._opening.items()):
            if start.session_id == session_id:
                opening.abort(_suspending())
        self._queued = {start for start in self._queued if start.session_id != session_id}
        end = SessionEnd(self._reactor, lambda: self.cgroups.kill(session_id), self._ends.remove)
        self._ends.append(end)
        end.begin(process for process, start in self._everything() if start.session_id == session_id)
        return end.done

    def _everything(self) -> Iterator[tuple[Ending, Start]]:
        yield from self._running.items()
        yield from self._hired.items()

    def describe(self) -> dict[str, str]:
        """What `doctor` reports of this room, one line each."""
        return {
            "launcher": f"launcher in {self.launcher.kind}",
            "cgroups": self.cgroups.describe(),
            "user": "terminals run as the agent's user"
            if self.privileged
            else "terminals run as the daemon's own user",
            "reserve": f"{self._terminals.spare} pseudo-terminals in reserve",
        }

    def shutdown(self) -> Deferred[None]:
        """Starts nothing more and hangs everything up. Fires when all is gone, or after 7 s at the latest. A second call waits for the same."""
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        if not self._stopping:
            self._stopping = True
            self._timers = [
                self._reactor.callLater(_DISCARD_SECONDS, self._discard),
                self._reactor.callLater(_GIVE_UP_SECONDS, self._stopped),
            ]
            self._turns.end()
            for opening in list(self._opening):
                opening.abort(_stopping())
            for process, _ in list(self._everything()):
                process.hang_up()
        self._check_stopped()
        return done

    def _discard(self) -> None:
        for process in list(self._running):
            process.discard()

    def _check_stopped(self) -> None:
        if self._stopping and not self._opening and not self._running and not self._hired:
            self._stopped()

    def _stopped(self) -> None:
        for timer in self._timers:
            if timer.active():
                timer.cancel()
        self._timers.clear()
        self._terminals.close()
        self._workspaces.close()
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done.callback(None)
