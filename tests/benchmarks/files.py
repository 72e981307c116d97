"""Push and pull beside `tar` through `ssh`, on this machine, in one run; the daemon's memory and a terminal's echo meanwhile.

Run by hand, as root: `python -m tests.benchmarks.files [rounds]`. It needs OpenSSH's client and server. Both ways begin and end with the same
files on the same disk, and write as the same user; of each, the fastest of its rounds counts, which take turns. Nothing is removed before all has
been measured: ext4 does not use an inode again for minutes after a removal, and a search that skips 50,000 of them costs more than all the rest.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import define

from tests.endtoend.client import Client, Shell
from tests.endtoend.computer import Account, Computer, eventually, free_port
from tests.endtoend.test_flow import echo_times
from tests.endtoend.test_opc import opc

_BIG: Final = 1 << 30
_FILES: Final = 50_000
_SMALL: Final = 1024
_ECHOES: Final = 500


@define
class _Ssh:
    """A server of its own, with a key that is made for it."""

    folder: Path
    user: Account
    port: int

    @property
    def there(self) -> Path:
        """Where files are sent to: on the same file system as the workspaces, or disks would be compared."""
        return self.folder / "there"

    def start(self) -> subprocess.Popen[bytes]:
        """Starts it."""
        for name in ("host", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)], check=True)
        subprocess.run(["usermod", "-p", "*", self.user.name], check=True)  # not locked, and without a password
        shutil.copy(self.folder / "key.pub", self.folder / "authorized")
        self.folder.chmod(0o755)
        self.there.mkdir()
        shutil.chown(self.there, self.user.name)
        Path("/run/sshd").mkdir(exist_ok=True)
        options = (
            f"Port={self.port}", "ListenAddress=127.0.0.1", f"HostKey={self.folder}/host", "PidFile=none", "UsePAM=no",
            f"AuthorizedKeysFile={self.folder}/authorized", "StrictModes=no",
        )  # fmt: skip
        words = [word for option in options for word in ("-o", option)]
        server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", *words], stderr=subprocess.DEVNULL)
        eventually(
            lambda: subprocess.run([*self.command(), "true"], capture_output=True, check=False).returncode == 0, "sshd"
        )
        return server

    def command(self) -> list[str]:
        """What runs a program there."""
        return [
            "ssh", "-q", "-p", str(self.port), "-i", str(self.folder / "key"), "-o", "StrictHostKeyChecking=no",
            "-o", "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes", f"{self.user.name}@127.0.0.1",
        ]  # fmt: skip


@define
class _Load:
    """What happens to others meanwhile."""

    computer: Computer
    shell: Shell
    memory: int

    @contextmanager
    def watched(self) -> Iterator[dict[str, float]]:
        """Types, and looks at the memory, until what is inside has ended."""
        found: dict[str, float] = {}
        times: list[float] = []
        most = [0]
        ended = threading.Event()

        def watch() -> None:
            while not ended.is_set():
                times.extend(echo_times(self.shell, 10))
                most[0] = max(most[0], self.computer.memory())

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield found
        finally:
            ended.set()
            watching.join()
        found["p99"], found["memory"] = _p99(times), most[0] - self.memory


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def _timed(work: Callable[[], object]) -> float:
    os.sync()
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _make(folder: Path) -> list[tuple[str, str, int]]:
    """What is sent: its name in the folder, what it is, and its bytes."""
    one, many = folder / "one", folder / "many"
    one.mkdir()
    with open(one / "file", "wb") as file:
        for _ in range(_BIG >> 20):
            file.write(os.urandom(1 << 20))
    for number in range(_FILES):
        path = many / f"{number // 500:03}" / f"{number:05}"
        if number % 500 == 0:
            path.parent.mkdir(parents=True)
        path.write_bytes(os.urandom(_SMALL))
    return [
        ("many", f"{_FILES:,} files of {_SMALL} bytes", _FILES * _SMALL),
        ("one", f"1 file of {_BIG >> 20} MiB", _BIG),
    ]


class _Runs:
    """The four transfers, each to a place of its own, which `number` names.

    Attributes:
        name: Of what is sent.
    """

    def __init__(self, computer: Computer, session: str, ssh: _Ssh, folder: Path, name: str) -> None:
        self._computer = computer
        self._session = session
        self._ssh = " ".join(ssh.command())
        self._there = ssh.there
        self._folder = folder
        self.name = name

    def push(self, number: int) -> Callable[[], object]:
        return lambda: self._opc("push", self._session, "-q", str(self._folder / self.name), f"{self.name}-{number}")

    def pull(self, number: int) -> Callable[[], object]:
        return lambda: self._opc("pull", self._session, "-q", f"{self.name}-{number}", str(self._back(number)))

    def tar_push(self, number: int) -> Callable[[], object]:
        there = self._there / f"{self.name}-{number}"
        return lambda: self._run(
            f"tar -C {self._folder / self.name} -cf - . | {self._ssh} 'mkdir {there} && tar -C {there} -xf -'"
        )

    def tar_pull(self, number: int) -> Callable[[], object]:
        back = self._back(number)
        return lambda: self._run(
            f"mkdir {back} && {self._ssh} 'tar -C {self._there}/{self.name}-{number} -cf - .' | tar -C {back} -xf -"
        )

    def check(self, number: int) -> None:
        """What came back is what was sent."""
        self._run(f"diff -r {self._folder / self.name} {self._back(number)}")

    def _back(self, number: int) -> Path:
        return self._folder / f"{self.name}-{number}"

    def _opc(self, *words: str) -> None:
        command, environ = opc(self._computer, *words)
        subprocess.run(command, env=environ, check=True)

    def _run(self, script: str) -> None:
        subprocess.run(["bash", "-o", "pipefail", "-c", script], check=True)


def _measure(runs: _Runs, load: _Load, name: str, size: int, rounds: int) -> None:
    best: dict[str, float] = {}
    others: dict[str, dict[str, float]] = {}

    def note(what: str, seconds: float) -> None:
        best[what] = min(seconds, best.get(what, seconds))

    ways = [("tar push", runs.tar_push), ("tar pull", runs.tar_pull), ("push", runs.push), ("pull", runs.pull)]
    for turn in range(rounds):
        for at, (what, way) in enumerate(ways if turn % 2 == 0 else ways[2:] + ways[:2]):
            note(what, _timed(way(2 * turn + at // 2)))
        for number in (2 * turn, 2 * turn + 1):
            runs.check(number)
    for at, (what, way) in enumerate(ways):
        with load.watched() as others[what]:
            way(2 * rounds + at // 2)()
    for what in ("push", "pull"):
        mine, tars, other = best[what], best[f"tar {what}"], others[what]
        echoes = [f"{found['p99'] * 1e3:.1f}" for found in (other, others[f"tar {what}"])]
        print(
            f"{what} of {name}: opc {mine:.2f} s ({size / mine / 2**20:.0f} MiB/s), ssh tar {tars:.2f} s, {tars / mine:.2f} of its rate; "
            f"daemon +{other['memory'] / 2**20:.1f} MiB; echo p99 meanwhile {echoes[0]} ms ({echoes[1]} while ssh tar does it)",
            flush=True,
        )
    print(f"idle again: echo p99 {_p99(echo_times(load.shell, 4 * _ECHOES)) * 1e3:.2f} ms", flush=True)


def _main() -> None:
    rounds = int(sys.argv[1]) if sys.argv[1:] else 3
    agent = Account.make()
    folder = Path(tempfile.mkdtemp(prefix="computerd-test-"))
    ssh = _Ssh(folder, agent, free_port())
    server = None
    try:
        server = ssh.start()
        with Computer(agent) as computer:
            session = computer.session()
            client: Client = computer.client()
            shell = client.open(session, "stty raw -echo; echo go; cat")
            shell.expect(b"go")
            echo_times(shell, _ECHOES)
            load = _Load(computer, shell, computer.memory())
            print(
                f"idle: echo p99 {_p99(echo_times(shell, 4 * _ECHOES)) * 1e3:.2f} ms, daemon {load.memory / 2**20:.0f} MiB",
                flush=True,
            )
            for name, what, size in _make(folder):
                _measure(_Runs(computer, session, ssh, folder, name), load, what, size, rounds)
            client.socket.close()
    finally:
        if server is not None:
            server.terminate()
            server.wait()
        agent.remove()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main()
