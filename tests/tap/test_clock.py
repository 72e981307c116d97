"""Which clock the daemon's timers follow (L5 of the threat model)."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

MAKE = """
import time
from computerd.tap import Options, makeService
options = Options()
options.parseOptions(["--listen", "tcp:0:interface=127.0.0.1"])
makeService(options)
from twisted.internet import reactor
assert reactor.seconds is time.monotonic, reactor.seconds
fired = []
wall = time.time
reactor.callLater(0.05, fired.append, 1)
reactor.callLater(3600, fired.append, 2)
for step in (-86400, 86400, 0):
    time.time = lambda: wall() + step
    end = time.monotonic() + (0.2 if step < 0 else 0.01)
    while time.monotonic() < end and not fired:
        reactor.iterate(0.01)
    assert fired == [1], (step, fired)
"""


class ClockTests(SynchronousTestCase):
    """L5: Twisted's own is the wall clock, and that steps."""

    def test_a_step_of_the_wall_clock_moves_no_timer(self) -> None:
        """L5: neither a day back nor a day forth makes one late or early."""
        file = self.mktemp()
        with open(file, "w"):
            os.chmod(file, 0o600)
        environ = {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COMPUTERD_CONFIG": os.path.abspath(file),
            "PATH": os.defpath,
        }
        done = subprocess.run(
            [sys.executable, "-c", MAKE], check=False, capture_output=True, text=True, timeout=60, env=environ
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
