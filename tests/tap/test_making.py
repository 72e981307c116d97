"""What is imported, and when."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from computerd.tap import tls

MAKE = """
import sys
from computerd.tap import Options, makeService
options = Options()
options.parseOptions({arguments})
makeService(options)
print("OpenSSL" in sys.modules and sys.modules["OpenSSL"] is not None, "twisted.internet.tcp" in sys.modules)
"""


class TlsTests(SynchronousTestCase):
    """pyOpenSSL only where it is needed."""

    def made(self, *arguments: str) -> str:
        """What a process that makes the service says of its modules."""
        file = self.mktemp()
        with open(file, "w"):
            os.chmod(file, 0o600)
        done = subprocess.run(
            [sys.executable, "-c", MAKE.format(arguments=list(arguments))],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            env={
                "PYTHONPATH": os.pathsep.join(sys.path),
                "COMPUTERD_CONFIG": os.path.abspath(file),
                "PATH": os.defpath,
            },
        )
        return done.stdout.strip()

    def test_a_plain_endpoint_spares_it(self) -> None:
        self.assertEqual(self.made("--listen", "tcp:0:interface=127.0.0.1"), "False True")

    def test_a_tls_endpoint_has_it(self) -> None:
        self.assertEqual(self.made("--listen", "tcp:0", "--listen", "ssl:0:privateKey=x"), "True True")

    def test_which_endpoints_may_want_it(self) -> None:
        for plain in ("tcp:7390", "unix:/run/x", "systemd:domain=INET:index=0", "tcp6:7390"):
            self.assertFalse(tls.wanted([plain]), plain)
        for other in ("ssl:7390", "tls:example", "txtorcon:80", "haproxy:ssl:443"):
            self.assertTrue(tls.wanted(["tcp:7390", other]), other)

    def test_it_can_be_imported_again_afterwards(self) -> None:
        before = sys.modules.get("OpenSSL")
        with tls.spared():
            pass
        self.assertIs(sys.modules.get("OpenSSL"), before)
