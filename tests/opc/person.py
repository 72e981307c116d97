"""Runs `opc` as people and scripts do: as a child process, on a pty of ours or on pipes, with nothing of this process's environment."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from attrs import define, field

from tests.opc.fake_server import TOKEN

WAIT = 20.0
"""Seconds that anything may take before a test gives up."""
OPC = [sys.executable, "-m", "computerd.opc.main"]
SHELL_OPC = shlex.join(OPC)
"""The same for a shell: the folder may have blanks in its name."""
ROOT = str(Path(__file__).resolve().parents[2])


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Looks until `condition()` is true."""
    limit = time.monotonic() + WAIT
    while not (value := condition()):
        if time.monotonic() > limit:
            raise AssertionError(f"not within {WAIT} s: {what}")
        select.select([], [], [], 0.01)
    return value


@define(eq=False)
class Daemon:
    """A fake one, in a process of its own."""

    folder: Path
    process: subprocess.Popen[str]
    url: str
    secure: str | None

    @classmethod
    def start(cls, *sessions: dict[str, Any], certificate: bytes | None = None) -> Self:
        """Starts it and waits until it listens; with TLS too if there is a certificate, with its key."""
        folder = Path(tempfile.mkdtemp(prefix="opc-test-"))
        if certificate is not None:
            (folder / "cert.pem").write_bytes(certificate)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.opc.fake_server", str(folder), json.dumps(sessions)],
            cwd=folder,  # where the programs that it runs may leave something
            env={**os.environ, "PYTHONPATH": ROOT},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        return cls(folder, process, told["url"], told["secure"])

    def stop(self) -> None:
        """Ends it, if it lives, and takes its folder away."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def env(self, **more: str) -> dict[str, str]:
        """An environment in which `opc` finds it, and nothing else."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "OPC_LOCAL_SOCKET": str(self.folder / "local.sock"),
            "PYTHONPATH": ROOT,
            "TERM": "xterm-256color",
            "NO_COLOR": "1",
            **more,
        }

    def tell(self, what: str, /, **body: Any) -> dict[str, Any]:
        """Has it do something, or say what it saw."""
        request = urllib.request.Request(
            self.url.replace("ws:", "http:") + what,
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {TOKEN}"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            told: dict[str, Any] = json.load(answer)
        return told

    def requests(self) -> list[str]:
        """The requests that it got."""
        found: list[str] = self.tell("/_/state")["requests"]
        return found

    def run(
        self, *words: str, stdin: bytes | int = b"", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs `opc` on pipes to its end."""
        feed: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
        return subprocess.run(
            [*OPC, *words],
            env=self.env(**(env or {})),
            cwd=self.folder,
            capture_output=True,
            timeout=3 * WAIT,
            check=False,
            **feed,
        )


@define(eq=False)
class Person:
    """Somebody at a terminal in which a program runs."""

    process: subprocess.Popen[bytes]
    master: int
    slave: int
    seen: bytearray = field(factory=bytearray)

    @classmethod
    def at(cls, argv: list[str], env: dict[str, str], *, size: tuple[int, int] = (80, 24), **streams: Any) -> Self:
        """Starts a program on a pty of its own. `streams` replaces some of its three."""
        master, slave = pty.openpty()
        _set_size(master, size)

        def controlling() -> None:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        chosen = {"stdin": slave, "stdout": slave, "stderr": slave, **streams}
        process = subprocess.Popen(
            argv,
            env=env,
            preexec_fn=controlling,  # noqa: PLW1509  no threads here
            pass_fds=(slave,),
            **chosen,
        )
        return cls(process, master, slave)

    def resize(self, columns: int, rows: int) -> None:
        """Changes the window."""
        _set_size(self.master, (columns, rows))

    def type(self, data: bytes) -> None:
        """Types."""
        while data:
            data = data[os.write(self.master, data) :]

    def look(self, text: bytes) -> None:
        """Waits until the screen has shown `text` after what was looked for before."""
        limit = time.monotonic() + WAIT
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, limit - time.monotonic()))
            if not ready:
                raise AssertionError(f"{text!r} not seen within {WAIT} s, but {bytes(self.seen[-2000:])!r}")
            self.seen += os.read(self.master, 65536)
        del self.seen[: self.seen.index(text) + len(text)]

    def end(self) -> tuple[int, bytes]:
        """Waits for the program's end: its status, and what was shown and not looked at."""
        limit = time.monotonic() + WAIT
        while self.process.poll() is None:
            if time.monotonic() > limit:
                raise AssertionError(f"it did not end within {WAIT} s; shown: {bytes(self.seen[-2000:])!r}")
            self._read(0.02)
        while self._read(0.0):
            pass
        return self.process.returncode, bytes(self.seen)

    def _read(self, wait: float) -> bool:
        ready, _, _ = select.select([self.master], [], [], wait)
        if ready:
            self.seen += os.read(self.master, 65536)
        return bool(ready)

    @property
    def modes(self) -> list[Any]:
        """What `stty -g` would say of the terminal."""
        return termios.tcgetattr(self.slave)

    @property
    def is_raw(self) -> bool:
        """Whether keys are neither echoed nor collected to lines."""
        return not self.modes[3] & (termios.ICANON | termios.ECHO)

    def kill(self, number: int) -> None:
        """Sends the program a signal."""
        self.process.send_signal(number)

    def leave(self) -> None:
        """Goes away, whatever still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def _set_size(master: int, size: tuple[int, int]) -> None:
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
