"""A workspace with a worker in it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from computerd.host.worker import staging
from tests.host.worker.program import LIMIT, Failed, Program

SYSTEM_PYTHON = "/usr/bin/python3"
NOBODY = 65534


class WorkerCase(SynchronousTestCase):
    """Attributes: `top`, the workspace; `worker`, in it; `outside`, a folder beside it with a file `secret`."""

    def setUp(self) -> None:
        base = Path(self.mktemp()).absolute()
        self.top, self.outside = base / "workspace", base / "outside"
        self.top.mkdir(parents=True)
        self.addCleanup(remove, base)
        self.outside.mkdir()
        (self.outside / "secret").write_text("the secret")
        self.worker = self.begin()

    def begin(self, **options: Any) -> Program:
        """Another worker there. It must have nothing to say at its end."""
        worker = Program(self.top, **options)
        self.addCleanup(lambda: self.assertEqual("", worker.close()))
        return worker

    def fails(self, code: str, call: Callable[..., Any], *args: Any, **params: Any) -> str:
        """A call fails with that code; returns the message."""
        try:
            found = call(*args, **params)
        except Failed as failed:
            self.assertEqual(code, failed.code, failed.message)
            return failed.message
        raise self.failureException(f"it did not fail: {found!r}")

    def left(self) -> list[str]:
        """What is in the workspace and should not be: folders that archives are unpacked in."""
        return [name for name in os.listdir(self.top) if staging.is_name(name.encode())]

    def tree(self, folder: Path) -> dict[str, str | bytes]:
        """What is below a folder: `/` for a folder, `-> target` for a link, bytes of a file."""
        found: dict[str, str | bytes] = {}
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_symlink():
                found[name] = f"-> {os.readlink(path)}"
            else:
                found[name] = "/" if path.is_dir() else path.read_bytes() if path.is_file() else "?"
        return found


class NobodyCase(WorkerCase):
    """As a user who may not do everything. Needs root, to become that user, and a Python of the system."""

    def setUp(self) -> None:
        if os.geteuid() != 0:
            raise SkipTest("becomes another user: run as root")
        found = subprocess.run([SYSTEM_PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False)
        if found.returncode:
            raise SkipTest(f"needs Python 3.11 or newer as {SYSTEM_PYTHON}")
        base = Path(tempfile.mkdtemp(prefix="computerd-test-"))
        self.addCleanup(remove, base)
        base.chmod(0o755)
        self.top, self.outside = base / "workspace", base / "outside"
        self.top.mkdir()
        os.chown(self.top, NOBODY, NOBODY)
        self.worker = self.begin(python=SYSTEM_PYTHON, user=NOBODY)


def remove(folder: Path) -> None:
    """Removes a tree that is too deep for what trial removes with."""
    subprocess.run(["rm", "-rf", folder], check=True)


def until(wanted: Callable[[], bool], what: str) -> None:
    """Waits until it is so."""
    end = time.monotonic() + LIMIT
    while not wanted():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.005)
