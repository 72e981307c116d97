"""What root does in a workspace: nothing (F1)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.endtoend import tracing


class TracingTests(SynchronousTestCase):
    """F1: what root does in a workspace."""

    timeout = 900

    def test_root_does_nothing_in_a_workspace(self) -> None:
        """F1, D10: no system call of root names a path in one, not even to look, while all tests of files run; its user's are seen."""
        if os.geteuid() != 0 or shutil.which("strace") is None:
            self.skipTest("needs root and strace")
        folder = tempfile.mkdtemp(prefix="computerd-test-")
        self.addCleanup(shutil.rmtree, folder)
        names = [
            f"tests.endtoend.{name}" for name in ("test_files", "test_files_life", "test_files_opc", "test_files_races")
        ]
        done = subprocess.run(
            [sys.executable, "-m", "twisted.trial", f"--temp-directory={folder}/trial", *names],
            env={**os.environ, tracing.VARIABLE: folder, "COMPUTERD_RACES": "1", "COMPUTERD_BIG": str(64 << 20)},
            capture_output=True, check=False, text=True, cwd=os.getcwd(),
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        seen = tracing.Account()
        for trace in Path(folder).glob("*.strace"):
            seen.add(trace)
        print(f"calls on paths: {dict(seen.calls)}; in workspaces: {seen.users} of users, {len(seen.roots)} of root")
        self.assertEqual(seen.roots, [])
        self.assertGreater(seen.users, 10_000)
        self.assertGreater(seen.making["mkdirat"], 10)
        self.assertGreater(seen.making["fchownat"], 10)
