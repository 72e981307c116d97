"""Runs computerctl within the test's process."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from computerd.ctl.context import Context
from computerd.ctl.main import guarded, parser

NOW = 1_800_000_000.0


@frozen
class Ran:
    """How a command went: its status, and the lines of what was asked for and of what was said."""

    status: int
    out: list[str]
    said: list[str]


class CtlTestCase(SynchronousTestCase):
    """Has a state folder of its own, a clock that stands, and a source of numbers that always gives the same ones."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.state = self.folder / "state"
        self.now = NOW
        self.random = random.Random(1).randbytes

    def ctl(self, *words: str, environ: Mapping[str, str] | None = None) -> Ran:
        """Runs `computerctl --state-dir … WORDS`."""
        arguments = parser().parse_args(["--state-dir", str(self.state), *words])
        out: list[str] = []
        said: list[str] = []
        context = Context(
            flags={"state-dir": arguments.state_dir, "config": arguments.config},
            environ={
                "HOME": str(self.folder),
                "COMPUTERD_WORKSPACE_ROOT": str(self.folder / "workspaces"),
                **(environ or {}),
            },
            uid=os.geteuid(),
            now=lambda: self.now,
            random=self.random,
            out=out.append,
            say=said.append,
        )
        return Ran(guarded(context, arguments), out, said)

    def good(self, *words: str, environ: Mapping[str, str] | None = None) -> list[str]:
        """Runs a command that must work; its output."""
        ran = self.ctl(*words, environ=environ)
        self.assertEqual(ran.status, 0, ran.said)
        return ran.out
