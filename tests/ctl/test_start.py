"""How computerctl starts, and what it calls itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from computerd.ctl import programs

SECONDS = 60.0
TOP = Path(__file__).resolve().parent.parent.parent
SLOW = """
import sys

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "computerd.ctl.main":
            print("loading", flush=True)
            sys.stdin.read()

sys.meta_path.insert(0, Slow())
from computerd.ctl.start import main
sys.argv[1:] = ["--version"]
sys.exit(main())
"""
"""Starts computerctl, and has it wait in the middle of its loading until standard input is closed."""


class Loading(SynchronousTestCase):
    """Ctrl-C before the program is there."""

    def start(self, prepare: Callable[[], object]) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-c", SLOW],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(TOP)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=prepare,  # noqa: PLW1509  no threads here
        )
        self.addCleanup(child.kill)
        assert child.stdout is not None
        self.assertEqual(child.stdout.readline(), b"loading\n")
        return child

    def test_ends_it_without_a_traceback(self) -> None:
        child = self.start(lambda: None)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(SECONDS), -signal.SIGINT)
        self.assertEqual(child.communicate(timeout=SECONDS), (b"", b""))

    def test_stays_ignored(self) -> None:
        child = self.start(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=SECONDS)
        self.assertEqual((child.returncode, err), (0, b""))
        self.assertTrue(out.startswith(b"computerctl "))


class Name(SynchronousTestCase):
    """What a person types to call it again."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("a b", "usr", "other"):
            (self.folder / name).mkdir()
        self.program = self.folder / "a b" / "computerctl"
        self.program.touch(0o755)
        (self.folder / "other" / "computerctl").touch(0o755)
        (self.folder / "usr" / "computerctl").symlink_to(self.program)

    def name(self, called: str, found: str) -> str:
        self.patch(os, "environ", {"PATH": str(self.folder / found)})
        return programs.computerctl(called)

    def test_its_path_where_the_shell_does_not_find_it(self) -> None:
        self.assertEqual(self.name(".venv/bin/computerctl", "nowhere"), ".venv/bin/computerctl")
        self.assertEqual(self.name(str(self.program), "other"), f"'{self.program}'")

    def test_its_name_where_the_shell_finds_it(self) -> None:
        self.assertEqual(self.name(str(self.program), "usr"), "computerctl")
        self.assertEqual(self.name(str(self.folder / "usr" / "computerctl"), "usr"), "computerctl")

    def test_called_in_another_way(self) -> None:
        self.assertEqual(self.name("/somewhere/main.py", "nowhere"), "computerctl")
