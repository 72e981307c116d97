"""A daemon that is alone in a cgroup of version 2, as under systemd with `Delegate=`."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from attrs import define, field
from twisted.trial.unittest import SkipTest

from tests.endtoend.computer import Computer, eventually

ENTER = """
for name in $(cat "$1/cgroup.subtree_control"); do echo "-$name" > "$1/cgroup.subtree_control"; done
echo $$ > "$1/cgroup.procs" && shift && exec "$@"
"""
"""A cgroup that divides controllers among others has no processes of its own: systemd makes the unit's anew, this undoes that part."""


def hierarchy() -> Path:
    """Where cgroups can be made.

    Raises:
        SkipTest: Nowhere.
    """
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4])
        if after.startswith("cgroup2 ") and os.access(point, os.W_OK) and (point / "cgroup.procs").exists():
            return point
    raise SkipTest("needs a cgroup tree of version 2 that may be written")


@define(eq=False)
class Delegated(Computer):
    """Has a cgroup of its own, which it divides among sessions and terminals.

    Attributes:
        cgroup: The folder.
    """

    cgroup: Path = field(default=Path("/"))

    def start(self) -> None:
        """See `Computer`."""
        if self.cgroup == Path("/"):
            self.cgroup = hierarchy() / self.folder.name
            self.cgroup.mkdir()
            if not (self.cgroup / "cgroup.kill").exists():
                self.cgroup.rmdir()
                raise SkipTest("needs Linux 5.14 or newer, for cgroup.kill")
        Computer.start(self)

    def command(self) -> list[str]:
        """See `Computer`."""
        return ["/bin/sh", "-c", ENTER, "sh", str(self.cgroup), *Computer.command(self)]

    def inside(self) -> set[int]:
        """The processes of its terminals."""
        found: set[int] = set()
        for file in self.cgroup.rglob("tm_*/cgroup.procs"):
            with suppress(OSError):  # it has just been removed
                found.update(map(int, file.read_text().split()))
        return found

    def remove(self) -> None:
        """See `Computer`."""
        Computer.remove(self)
        if not self.cgroup.is_dir() or self.cgroup == Path("/"):
            return
        for pid in self.inside():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(self._removed, "the cgroup is empty")

    def _removed(self) -> bool:
        with suppress(OSError):
            for folder in sorted((path for path in self.cgroup.rglob("*") if path.is_dir()), reverse=True):
                folder.rmdir()
            self.cgroup.rmdir()
        return not self.cgroup.exists()
