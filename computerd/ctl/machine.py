"""What `computerctl doctor` looks at in the machine: kernel, limits, clock, and the parts of computerd that are not Python."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from attrs import frozen
from autobahn.websocket import USES_NVX

from computerd.config import Config
from computerd.ctl.finding import Finding, good, note, wrong

PTYS_WANTED: Final = 16384
"""As systemd/60-computerd.conf sets it; the kernel's own value is 4096, of which it keeps 1024 for itself."""
CONTROLLERS: Final = frozenset({"cpu", "memory", "pids"})
RELEASED: Final = 1_790_000_000
"""A clock before this, in seconds since the epoch (September 2026), is older than this program."""
_TIME_ERROR: Final = 5
"""adjtimex(2): the clock is not synchronised."""
_TIMEX_BYTES: Final = 512
"""More than `struct timex` has on any machine; all zeros only asks."""


@frozen
class Machine:
    """The checks.

    Attributes:
        config: The daemon's configuration; None: it is broken, so that nothing can be compared with it.
        now: Seconds since the epoch.
        root: The folder above `proc` and `sys`.
    """

    config: Config | None
    now: Callable[[], float]
    root: Path = Path("/")

    def findings(self) -> Iterator[Finding]:
        """All of them."""
        yield self.python()
        yield self.native_code()
        yield self.launcher()
        yield self.terminal()
        yield self.terminals()
        yield self.typing_in()
        yield self.cgroup()
        yield self.files()
        yield from self.clock()

    def python(self) -> Finding:
        """The interpreter."""
        return good("python", f"{sys.version.split()[0]} at {sys.executable}")

    def native_code(self) -> Finding:
        """Whether WebSocket frames are unmasked by native code: 1.9 ms a MiB with it, 214 ms without."""
        if USES_NVX:
            return good("websocket", "native code unmasks frames")
        advice = "install a wheel of autobahn for this machine and unset AUTOBAHN_USE_NVX"
        return wrong("websocket", "frames are unmasked by Python, a hundred times slower", advice)

    def launcher(self) -> Finding:
        """What becomes the user before a program starts."""
        perl = shutil.which("perl", path="/usr/bin:/bin:/usr/local/bin")
        if perl is None:
            return note(
                "launcher",
                "perl is missing: terminals start through Python, about 16 ms slower",
                "apt-get install perl-base",
            )
        return good("launcher", perl)

    def terminal(self) -> Finding:
        """Whether a pseudo-terminal can be opened."""
        try:
            for descriptor in os.openpty():
                os.close(descriptor)
        except OSError as problem:
            return wrong(
                "pty",
                f"none can be opened: {problem.strerror}",
                "mount -t devpts devpts /dev/pts -o ptmxmode=0666,mode=0600",
            )
        return good("pty", "one can be opened")

    def terminals(self) -> Finding:
        """How many of them there can be."""
        most, used = self._number("proc/sys/kernel/pty/max"), self._number("proc/sys/kernel/pty/nr")
        if most is None or used is None:
            return note("kernel.pty.max", "can't be read", "mount /proc")
        if most - used < 64:
            return wrong("kernel.pty.max", f"{used} of {most} are in use", f"sysctl -w kernel.pty.max={PTYS_WANTED}")
        if most < PTYS_WANTED:
            advice = f"sysctl -w kernel.pty.max={PTYS_WANTED}: a user who holds them all locks the others out"
            return note("kernel.pty.max", f"{used} of {most} are in use", advice)
        return good("kernel.pty.max", f"{used} of {most} are in use")

    def typing_in(self) -> Finding:
        """Whether a program may put characters into its terminal's input (TIOCSTI)."""
        if self._number("proc/sys/dev/tty/legacy_tiocsti") == 0:
            return good("dev.tty.legacy_tiocsti", "off")
        advice = "sysctl -w dev.tty.legacy_tiocsti=0, from Linux 6.2: computerd does not rely on it, su and others do"
        return note("dev.tty.legacy_tiocsti", "programs may type into terminals that they share", advice)

    def cgroup(self) -> Finding:
        """Whether sessions can have limits."""
        try:
            there = set((self.root / "sys/fs/cgroup/cgroup.controllers").read_text().split())
        except OSError:
            there = set()
        missing = sorted(CONTROLLERS - there)
        if missing:
            advice = "boot with systemd.unified_cgroup_hierarchy=1; until then agent.processes, memory and cpu_weight limit nothing"
            return note("cgroup", f"version 2 has no {', '.join(missing)} here", advice)
        unit = self.root / "sys/fs/cgroup/computerd.slice/computerd.service"
        if not unit.is_dir():
            return note(
                "cgroup",
                "version 2, but computerd does not run as a service",
                "computerctl install, for limits of a session",
            )
        return good("cgroup", "version 2, delegated to the service")

    def files(self) -> Finding:
        """Open files: what terminals are promised can't be more than this process may hand on."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        wanted = self.config.agent.nofile_hard if self.config else 16384
        if hard != resource.RLIM_INFINITY and hard < wanted:
            return note(
                "open files",
                f"the hard limit here is {hard}, agent.nofile_hard is {wanted}",
                "raise it: ulimit -Hn, LimitNOFILE=",
            )
        return good("open files", f"hard limit {'none' if hard == resource.RLIM_INFINITY else hard}")

    def clock(self) -> Iterator[Finding]:
        """Credentials begin and end by the clock."""
        if self.now() < RELEASED:
            yield wrong(
                "clock",
                "it is before this program was made: new credentials count as expired or not yet good",
                "set the clock",
            )
            return
        if ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)) == _TIME_ERROR:
            yield note("clock", "nothing keeps it right", "apt-get install systemd-timesyncd, or chrony")
        else:
            yield good("clock", "kept right")

    def _number(self, path: str) -> int | None:
        try:
            return int((self.root / path).read_text())
        except (OSError, ValueError):
            return None
