"""A daemon as a child process, as `twistd -n computerd` starts it, with its state in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from attrs import define, field
from twisted.trial.unittest import SkipTest

from tests.endtoend import tracing
from tests.endtoend.client import WAIT, Client, http

SCOPES = ("sessions:read", "sessions:write", "files:read", "files:write", "terminals")


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def program(name: str) -> str:
    """The path of a console script of this environment."""
    return os.path.join(os.path.dirname(sys.executable), name)


def agents_python() -> str:
    """A Python that every user can run: the tests' own may be in somebody's home.

    Raises:
        SkipTest: There is none.
    """
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(path, os.X_OK):
            return path
    raise SkipTest("needs /usr/bin/python3, that the agent's user can run")


@define(eq=False)
class Account:
    """A Unix user made for a test."""

    name: str

    @classmethod
    def make(cls, shell: str = "/bin/bash", *arguments: str) -> Self:
        """Makes one with a home and a group of its own. Needs root."""
        name = "cdt" + secrets.token_hex(4)
        subprocess.run(["useradd", "--create-home", "--user-group", "--shell", shell, *arguments, name], check=True)
        return cls(name)

    @property
    def uid(self) -> int:
        """Its number."""
        return pwd.getpwnam(self.name).pw_uid

    def processes(self) -> list[int]:
        """Its live processes; zombies are dead."""
        return [pid for pid, (uid, state) in _processes().items() if uid == self.uid and state != "Z"]

    def remove(self) -> None:
        """Ends its processes and removes it with its home."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not self.processes(), "the user's processes are gone")
        subprocess.run(["userdel", "--remove", "--force", self.name], check=False, capture_output=True)


@define(eq=False)
class Computer:
    """A running daemon.

    Attributes:
        folder: State and workspaces; removed with it.
        agent: The agent's Unix user; None: the invoking one.
        at_rest: Pseudo-terminals and children that it holds without any terminal.
        ready: Seconds from its last start to its first answer.
    """

    agent: Account | None = None
    options: tuple[str, ...] = ()
    environ: dict[str, str] = field(factory=dict)
    port: int = field(factory=free_port)
    folder: Path = field(factory=lambda: Path(tempfile.mkdtemp(prefix="computerd-test-")))
    process: subprocess.Popen[bytes] | None = None
    at_rest: tuple[int, int] = (0, 0)
    ready: float = 0.0
    _page: int = 0
    _tokens: dict[tuple[str, ...], str] = field(factory=dict)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    @property
    def configuration(self) -> Path:
        """A configuration file that says nothing, so that this machine's says nothing either."""
        file = self.folder / "empty.toml"
        file.touch(mode=0o644)
        return file

    @property
    def pid(self) -> int:
        """The daemon's process."""
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it is there."""
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        """What it has logged, since the last `new_page`."""
        with open(self.folder / "log", "rb") as log:
            log.seek(self._page)
            return log.read().decode(errors="replace")

    def new_page(self) -> None:
        """Forgets what was logged so far: it was another test's."""
        self._page = (self.folder / "log").stat().st_size

    @property
    def base(self) -> str:
        """The address of its HTTP routes."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The address of its WebSocket."""
        return f"ws://127.0.0.1:{self.port}/connect"

    def command(self) -> list[str]:
        """What starts it."""
        agent = ["--agent-user", self.agent.name] if self.agent else []
        return [
            program("twistd"), "-n", "--pidfile=", "computerd",
            "--listen", f"tcp:{self.port}:interface=127.0.0.1",
            "--state-dir", str(self.folder / "state"),
            "--workspace-root", str(self.folder / "workspaces"),
            *agent, *self.options,
        ]  # fmt: skip

    def start(self) -> None:
        """Starts it and waits until it answers."""
        # the agent's user has to be able to enter its workspace
        self.folder.chmod(0o755)
        environ = {
            **os.environ,
            "COMPUTERD_LOCAL_SOCKET": str(self.folder / "local.sock"),
            "COMPUTERD_CONFIG": str(self.configuration),
            **self.environ,
        }
        began = time.monotonic()
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*tracing.prefix(), *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                start_new_session=True,
            )
        eventually(self._answers, "the daemon answers", on_failure=lambda: self.log)
        self.ready = time.monotonic() - began
        self.at_rest = self.footprint()[1:]

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon ended with {self.process.returncode}: {self.log}")
        try:
            return http(self.base + "/health").status == 200
        except OSError:
            return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signals it and waits for its end: the status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(WAIT)

    def remove(self) -> None:
        """Stops it and removes its folder."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs `computerctl` on its state."""
        return subprocess.run(
            [program("computerctl"), "--state-dir", str(self.folder / "state"), *arguments],
            check=check, capture_output=True, text=True, timeout=WAIT,
            env={**os.environ, "COMPUTERD_CONFIG": str(self.configuration)},
        )  # fmt: skip

    def token(self, member: str = "alice", *arguments: str, scopes: tuple[str, ...] = SCOPES) -> str:
        """A credential."""
        key = (member, *arguments, *scopes)
        if key not in self._tokens:
            wanted = [word for scope in scopes for word in ("--scope", scope)]
            made = self.ctl("token", "create", "--member", member, *wanted, *arguments)
            self._tokens[key] = made.stdout.strip()
        return self._tokens[key]

    def client(self, member: str = "alice", *arguments: str) -> Client:
        """A connection of `member`."""
        return Client.to(self.url, self.token(member, *arguments))

    def session(self, member: str = "alice", **body: object) -> str:
        """A new session of `member`."""
        reply = http(self.base + "/sessions", "POST", token=self.token(member), body=body)
        assert reply.status == 201, reply.body
        name: str = reply.json["session"]["id"]
        return name

    def events(self, session: str, member: str = "alice", query: str = "") -> list[dict[str, object]]:
        """The journal of a session."""
        reply = http(f"{self.base}/sessions/{session}/events?limit=500{query}", token=self.token(member))
        assert reply.status == 200, reply.body
        events: list[dict[str, object]] = reply.json["events"]
        return events

    def journal(self, session: str, member: str = "alice") -> list[dict[str, Any]]:
        """All of a session's journal."""
        events: list[dict[str, Any]] = []
        while page := self.events(session, member, f"&after={events[-1]['seq'] if events else 0}"):
            events += page
        return events

    def get(self, session: str, member: str = "alice") -> dict[str, Any]:
        """The session as it is now."""
        reply = http(f"{self.base}/sessions/{session}", token=self.token(member))
        assert reply.status == 200, reply.body
        found: dict[str, Any] = reply.json["session"]
        return found

    def metrics(self) -> dict[str, float]:
        """What Prometheus would read; labels belong to the name."""
        reply = http(self.base + "/metrics", token=self.token("prometheus", scopes=()))
        assert reply.status == 200, reply.body
        lines = (line for line in reply.body.decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def footprint(self) -> tuple[int, int, int]:
        """What it holds: descriptors, pseudo-terminals among them, and children, zombies included."""
        folder = f"/proc/{self.pid}/fd"
        targets = []
        for name in os.listdir(folder):
            try:
                targets.append(os.readlink(f"{folder}/{name}"))
            except FileNotFoundError:
                continue
        children = sum(1 for parent in _parents().values() if parent == self.pid)
        return len(targets), sum("ptmx" in t or "/pts/" in t for t in targets), children

    def memory(self) -> int:
        """Its resident bytes."""
        with open(f"/proc/{self.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def eventually(condition: object, what: str, timeout: float = WAIT, on_failure: object = None) -> None:
    """Waits until `condition()` holds; AssertionError with `what` after `timeout` seconds."""
    assert callable(condition)
    limit = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > limit:
            more = on_failure() if callable(on_failure) else ""
            raise AssertionError(f"not within {timeout} s: {what} {more}")
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether `pid` runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def sleeping(seconds: int) -> int:
    """The process that sleeps for so long; 0: there is none."""
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cmdline").read_bytes() == b"sleep\0%d\0" % seconds:
                return int(process.name)
        except OSError:
            continue
    return 0


def _processes() -> dict[int, tuple[int, str]]:
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            uid = os.stat(f"/proc/{name}").st_uid
            with open(f"/proc/{name}/stat") as stat:
                found[int(name)] = (uid, stat.read().rpartition(")")[2].split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _parents() -> dict[int, int]:
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                found[int(name)] = int(stat.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
