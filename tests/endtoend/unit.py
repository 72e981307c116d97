"""A daemon under `systemd/computerd.service`, in a systemd that is process 1 of namespaces of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from attrs import define, field
from twisted.trial.unittest import SkipTest

import computerd
from tests.endtoend.client import WAIT
from tests.endtoend.computer import Computer, eventually

_SYSTEMD: Final = "/lib/systemd/systemd"
_ROOT: Final = Path(computerd.__file__).parents[1]
_BOOT: Final = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib/systemd
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/systemd/system/computerd.service.d /run/lock
cp "$1" /run/systemd/system/computerd.service
cp "$2/drop-in.conf" /run/systemd/system/computerd.service.d/test.conf
cp "$2/test.target" /run/systemd/system/
exec env -i container=nest PATH=/usr/sbin:/usr/bin:/sbin:/bin {systemd} --unit=test.target --log-target=null --show-status=no
"""
# DefaultDependencies pull nothing in but what the unit needs: no udev, no log-ins, no mounts of the host
_TARGET: Final = """
[Unit]
DefaultDependencies=no
Requires=computerd.service
After=computerd.service
"""
_DROP_IN: Final = """
[Unit]
DefaultDependencies=no
After=
StartLimitIntervalSec=0

[Service]
ExecStart=
ExecStart=/usr/bin/env {command}
Environment=COMPUTERD_CONFIG={configuration} PYTHONPATH={root} PYTHONDONTWRITEBYTECODE=1
StandardOutput=append:{log}
StandardError=append:{log}
"""


@define(eq=False)
class UnderSystemd(Computer):
    """`start` boots systemd the first time, and after a kill waits until it has brought the daemon back.

    Attributes:
        main: The daemon's process, as it is seen from here.
    """

    main: int = 0
    _killed: int = field(default=0)

    @property
    def pid(self) -> int:
        """See `Computer`."""
        return self.main

    def start(self) -> None:
        """See `Computer`. `ready` does not count the half second that systemd waits before it starts anew."""
        if self.process is None:
            self._boot()
        eventually(self._has_started, "systemd starts the daemon", on_failure=lambda: self.log)
        eventually(self._answers, "the daemon answers", on_failure=lambda: self.log)
        self.ready = time.clock_gettime(time.CLOCK_BOOTTIME) - _started(self.main)
        self.at_rest = self.footprint()[1:]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """See `Computer`: of the daemon, not of systemd, which starts it again."""
        self._killed = self.main
        os.kill(self.main, number)
        return 0

    def _boot(self) -> None:
        if not os.access(_SYSTEMD, os.X_OK):
            raise SkipTest("needs systemd")
        self.folder.chmod(0o755)
        options = {"command": " ".join(self.command()), "configuration": self.configuration, "log": self.folder / "log"}
        (self.folder / "drop-in.conf").write_text(_DROP_IN.format(root=_ROOT, **options))
        (self.folder / "test.target").write_text(_TARGET)
        unit = _ROOT / "systemd" / "computerd.service"
        space = ["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--cgroup", "--uts", "--ipc", "--kill-child"]
        script = ["/bin/sh", "-c", _BOOT.format(systemd=_SYSTEMD), "sh", str(unit), str(self.folder)]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*space, *script], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _has_started(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"systemd ended with {self.process.returncode}: {self.log}")
        wanted = f"--listen\0tcp:{self.port}:interface=127.0.0.1\0"
        for process in Path("/proc").iterdir():
            try:
                if not process.name.isdigit() or int(process.name) == self._killed:
                    continue
                line = (process / "cmdline").read_text()
                # not env, and not a child between its fork and its exec
                if wanted in line and line.startswith(sys.executable) and self._parent(process) == "systemd":
                    self.main = int(process.name)
                    return True
            except OSError:
                continue
        return False

    def _parent(self, process: Path) -> str:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        return Path(f"/proc/{fields[1]}/comm").read_text().strip()

    def _answers(self) -> bool:
        return self.main != self._killed and Computer._answers(self)

    def remove(self) -> None:
        """See `Computer`: all processes of the namespace end with its first."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT)
        Computer.remove(self)


def _started(pid: int) -> float:
    """When a process started, in seconds since the boot."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")
