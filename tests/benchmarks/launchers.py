"""What stands between the daemon and a shell, measured: time to the first output, and for how long the reactor stands still.

Run by hand, as root: `python -m tests.benchmarks.launchers`. It makes a Unix user and removes it. The variants take turns, so that what else
the machine does hits all of them alike.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal

from attrs import define, field
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import react

from computerd.contract.identifiers import TERMINAL
from computerd.host.settings import HostSettings
from computerd.host.spawner import HostSpawner
from computerd.terminal.port import Start, Stream

_ROUNDS: Final = 40
_COMMAND: Final = "echo hi"


@define
class Figures:
    """Milliseconds of one variant."""

    first: list[float] = field(factory=list)
    stalls: list[float] = field(factory=list)

    def row(self, name: str) -> str:
        values = (
            _percentile(self.first, 50),
            _percentile(self.first, 99),
            _percentile(self.stalls, 50),
            _percentile(self.stalls, 99),
        )
        return f"| {name} | " + " | ".join(f"{value:.1f}" for value in values) + " |"


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


class _First(ProcessProtocol):
    """Fires at the first output, and at the end."""

    def __init__(self) -> None:
        self.first: Deferred[float] = Deferred()
        self.ended: Deferred[None] = Deferred()

    def childDataReceived(self, childFD: int, data: bytes) -> None:  # noqa: N803
        if not self.first.called:
            self.first.callback(perf_counter())

    def processEnded(self, reason: object) -> None:
        self.ended.callback(None)


class _Watcher:
    def __init__(self) -> None:
        self.first: Deferred[float] = Deferred()
        self.done: Deferred[None] = Deferred()

    def output(self, stream: Stream, data: bytes) -> bool:
        if not self.first.called:
            self.first.callback(perf_counter())
        return True

    def ended(self, exit_code: int | None, signal: str | None) -> None:
        self.done.callback(None)


def _bare(reactor: Any, head: list[str], **named: Any) -> Callable[[Figures], Coroutine[Any, Any, None]]:
    """Twisted's own process on its own terminal, with a command in front of the shell."""

    async def one(figures: Figures) -> None:
        protocol = _First()
        command = [*head, "/bin/bash", "-c", _COMMAND]
        began = perf_counter()
        reactor.spawnProcess(
            protocol, command[0], command, env={"PATH": "/usr/bin:/bin"}, path="/", usePTY=True, **named
        )
        figures.stalls.append((perf_counter() - began) * 1e3)
        figures.first.append((await protocol.first - began) * 1e3)
        await protocol.ended

    return one


def _ours(
    spawner: HostSpawner, size: tuple[int, int] | None = (80, 24)
) -> Callable[[Figures], Coroutine[Any, Any, None]]:
    async def one(figures: Figures) -> None:
        start = Start("cs_0123456789abcdef", TERMINAL.new(os.urandom), "mb_bench", _COMMAND, "xterm", size)
        began = perf_counter()
        opening = spawner.spawn(start)
        figures.stalls.append((perf_counter() - began) * 1e3)
        watcher = _Watcher()
        (await opening).start(watcher)
        figures.first.append((await watcher.first - began) * 1e3)
        await watcher.done

    return one


def _root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="computerd-bench-"))
    root.chmod(0o755)
    return root


async def _measure(reactor: Any, user: pwd.struct_passwd) -> None:
    root = _root()

    def spawner(kind: Literal["perl", "python"], *, fork: bool) -> HostSpawner:
        settings = HostSettings(root, user.pw_name, launcher=kind, fork=fork, cgroups=False, spare_terminals=0)
        return HostSpawner(reactor, settings)

    perl, python = spawner("perl", fork=True), spawner("python", fork=True)
    perl_spawned, python_spawned = spawner("perl", fork=False), spawner("python", fork=False)
    spawners = [perl, python, perl_spawned, python_spawned]
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "--inh-caps=-all", "--no-new-privs"]
    variants = {
        "none, not becoming the user": _bare(reactor, []),
        "none, `uid=` and `gid=` on the call": _bare(reactor, [], uid=user.pw_uid, gid=user.pw_gid),
        "setpriv": _bare(reactor, ["/usr/bin/setpriv", *ids]),
        "setpriv, after prlimit, nice and a shell for the rest": _bare(
            reactor,
            ["/bin/sh", "-c", 'umask 022; exec "$@"', "sh", "/usr/bin/prlimit", "--nofile=1024:16384", "--core=0",
             "/usr/bin/nice", "-n", "0", "/usr/bin/setpriv", *ids],
        ),
        "perl, `usePTY` (fork)": _ours(perl),
        "perl, posix_spawn": _ours(perl_spawned),
        "perl, on pipes (posix_spawn)": _ours(perl, None),
        "python, `usePTY` (fork)": _ours(python),
        "python, posix_spawn": _ours(python_spawned),
        "python, on pipes (posix_spawn)": _ours(python, None),
    }  # fmt: skip
    results = {name: Figures() for name in variants}
    for one in variants.values():
        await one(Figures())
    for _ in range(_ROUNDS):
        for name, one in variants.items():
            await one(results[name])
    print(f"{_ROUNDS} opens each, milliseconds; `bash -c '{_COMMAND}'`\n")
    print("| launcher | first output, p50 | p99 | reactor stalled, p50 | p99 |\n| --- | --- | --- | --- | --- |")
    for name, figures in results.items():
        print(figures.row(name))
    for each in spawners:
        await each.shutdown()
    shutil.rmtree(root)


def main() -> None:
    """Measures and prints a table in markdown."""
    if os.geteuid() != 0:
        raise SystemExit("run as root: it becomes another user")
    name = f"cdbench{os.getpid()}"
    subprocess.run(["useradd", "--no-create-home", "--user-group", "--shell", "/bin/bash", name], check=True)
    try:
        react(lambda reactor: ensureDeferred(_measure(reactor, pwd.getpwnam(name))))
    finally:
        subprocess.run(["userdel", name], check=True)


if __name__ == "__main__":
    main()
