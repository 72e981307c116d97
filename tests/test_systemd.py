"""The unit files: what they promise, that systemd takes them, and how much a service under them is exposed."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from computerd.config.errors import EX_CONFIG
from computerd.ctl import install

UNITS = Path(__file__).resolve().parent.parent / "systemd"
EXPOSURE = 43
"""Ten times the score, at most."""


class Service(SynchronousTestCase):
    """computerd.service, line by line where something depends on it."""

    def setUp(self) -> None:
        unit = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
        unit.optionxform = str  # type: ignore[assignment,method-assign]  # as configparser's manual says it
        unit.read(UNITS / "computerd.service")
        self.service = dict(unit["Service"])
        self.unit = dict(unit["Unit"])

    def test_directives(self) -> None:
        """BR-065."""
        for name, value in {
            "Type": "notify",
            "NotifyAccess": "main",
            "WatchdogSec": "20",
            "KillMode": "mixed",
            "TimeoutStopSec": "20",
            "Restart": "always",
            "RestartPreventExitStatus": str(EX_CONFIG),
            "Delegate": "cpu memory pids",
            "OOMPolicy": "continue",
            "CapabilityBoundingSet": "CAP_SETUID CAP_SETGID CAP_KILL CAP_CHOWN",
            "NoNewPrivileges": "yes",
            "UMask": "0077",
            "LimitCORE": "0",
            "StateDirectoryMode": "0700",
            "ProtectProc": "invisible",
            "IPAddressDeny": "169.254.0.0/16 fe80::/10",
            "ExecReload": "/bin/kill -HUP $MAINPID",
        }.items():
            self.assertEqual(self.service.get(name), value, name)

    def test_what_must_not_be_there(self) -> None:
        # A negative OOM score is a terminal's floor too; DAC would let root's mistakes read what agents keep to themselves.
        self.assertNotIn("OOMScoreAdjust", self.service)
        self.assertNotIn("ProtectControlGroups", self.service)
        self.assertNotIn("User", self.service)
        self.assertNotIn("DAC", self.service["CapabilityBoundingSet"])

    def test_start_brings_in_no_code_of_others(self) -> None:
        self.assertIn(" -I ", self.service["ExecStart"])
        self.assertIn("--nodaemon --pidfile= computerd", self.service["ExecStart"])

    def test_a_missing_credential_is_no_error(self) -> None:
        """systemd.exec(5): without a path it is looked for in the credential stores, and left out if it is not there."""
        self.assertEqual(self.service["LoadCredential"], "computerd.auth.public_key")

    def test_installed_unit_names_this_interpreter(self) -> None:
        lines = install.unit("computerd.service").splitlines()
        started = [line for line in lines if line.startswith("ExecStart=")]
        twistd = Path(sys.executable).parent / "twistd"
        self.assertEqual(started, [f"ExecStart={sys.executable} -I {twistd} --nodaemon --pidfile= computerd"])


class Systemd(SynchronousTestCase):
    """What systemd itself says."""

    def setUp(self) -> None:
        if shutil.which("systemd-analyze") is None:
            raise SkipTest("systemd-analyze is missing: apt-get install systemd")
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def analyze(self, *arguments: str) -> None:
        done = subprocess.run(
            ["systemd-analyze", "--no-pager", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-2000:])
        if arguments[0] == "verify":
            self.assertEqual(done.stdout.strip(), "")

    def test_units_are_right(self) -> None:
        self.analyze("verify", str(UNITS / "computerd.service"), str(UNITS / "computerd.socket"))

    def test_exposure(self) -> None:
        self.analyze("security", "--offline=true", f"--threshold={EXPOSURE}", str(UNITS / "computerd.service"))

    def test_a_weaker_unit_would_be_noticed(self) -> None:
        weaker = (
            (UNITS / "computerd.service")
            .read_text(encoding="utf-8")
            .replace("CAP_CHOWN\n", "CAP_CHOWN CAP_DAC_OVERRIDE CAP_SYS_ADMIN\n")
        )
        (self.folder / "computerd.service").write_text(weaker, encoding="utf-8")
        self.assertRaises(
            self.failureException,
            self.analyze,
            "security",
            "--offline=true",
            f"--threshold={EXPOSURE}",
            f"{self.folder}/computerd.service",
        )
