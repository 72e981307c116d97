"""What the tests of files have in common: a daemon with a session, its workspace, and a folder of ours."""

from __future__ import annotations

import base64
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.opc.fake_journal import session
from tests.opc.person import OPC, Daemon, wait_until

ID = session(1)["id"]


def tree(top: Path) -> dict[str, Any]:
    """What is below a folder: contents, and whether it can be run."""
    found: dict[str, Any] = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            run = bool(path.stat().st_mode & stat.S_IXUSR)
            # the API tells milliseconds, and tarfile keeps times as floating-point numbers
            when = path.stat().st_mtime_ns // 1_000_000
            found[name] = "folder" if path.is_dir() else (path.read_bytes(), run, when)
    return found


def fill(top: Path) -> Path:
    """A folder with a bit of everything."""
    (top / "src" / "deep").mkdir(parents=True)
    (top / "src" / "deep" / "ünï.txt").write_text("text\n")
    (top / "src" / "run").write_text("#!/bin/sh\n")
    (top / "src" / "run").chmod(0o755)
    (top / "empty").mkdir()
    (top / "link").symlink_to("src/run")
    (top / "data").write_bytes(bytes(range(256)) * 4000)
    return top


class WithWorkspace(SynchronousTestCase):
    """One session, whose workspace is the folder `there`; `opc` runs in the folder `here`."""

    def setUp(self) -> None:
        self.daemon = Daemon.start(session(1))
        self.addCleanup(self.daemon.stop)
        self.here = self.daemon.folder
        self.there = self.daemon.folder / ID
        self.there.mkdir()

    def state(self) -> dict[str, Any]:
        return self.daemon.tell("/_/state")

    def pushed(self) -> list[dict[str, Any]]:
        """The uploads that the daemon was asked for."""
        found: list[dict[str, Any]] = self.state()["pushed"]
        return found

    def fault(self, what: str, **fault: Any) -> None:
        self.daemon.tell("/_/fault", what=what, faults=[fault])

    def archive(self, body: bytes) -> None:
        """What the next pull gets, whatever is there."""
        self.fault("GET archive", body=base64.b64encode(body).decode())

    def good(self, *words: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        done = self.daemon.run(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def bad(self, *words: str, status: int = 255, **more: Any) -> str:
        """What it says when it fails, on one line."""
        done = self.daemon.run(*words, **more)
        self.assertEqual(done.returncode, status, (done.stdout, done.stderr))
        said = done.stderr.decode()
        if status == 255:
            self.assertEqual(said.count("\n"), 1, said)
        return said

    def interrupted(self, number: signal.Signals, ready: Any, *words: str) -> tuple[int, str]:
        """Sends it a signal when `ready()`. Returns its status and what it said."""
        process = subprocess.Popen(
            [*OPC, *words], env=self.daemon.env(), cwd=self.here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        wait_until(ready, "it works")
        process.send_signal(number)
        said = process.stderr.read().decode()
        return process.wait(), said

    def left_over(self) -> list[str]:
        """What a pull may have left beside its target."""
        return [path.name for path in self.here.iterdir() if path.name.startswith(".opc-pull-")]
