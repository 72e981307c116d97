"""The part of the cgroup tree that systemd (or whoever started the daemon) has delegated to it.

    …/computerd.service/            delegated: the daemon is alone in it when it starts
        main/                       the daemon, because a cgroup with processes of its own can't have limits for those below
        cs_0123456789abcdef/        a session, with its limits
            tm_0123456789ab/        a terminal

Only version 2 of cgroups (kernel 5.14 and newer for `cgroup.kill`). Without it, or without permission, everything here does nothing,
and `describe` says why.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import define, field

from computerd.contract.identifiers import SESSION, TERMINAL
from computerd.host.settings import CgroupLimits

_OWN_WEIGHT: Final = 1000
"""The daemon's `cpu.weight`, ten times the default: an agent that uses up the processor must not stop its owner."""
_RETRIES: Final = 32
"""Folders looked at again each time, whose last process had not gone when they were to be removed."""


def own_cgroup(proc: Path = Path("/proc/self")) -> Path | None:
    """The folder of this process's cgroup of version 2, or None."""
    try:
        lines = (proc / "cgroup").read_text().splitlines()
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return None
    place = next((line[3:] for line in lines if line.startswith("0::/")), None)
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        if place is not None and after.startswith("cgroup2 "):
            root, point = before.split()[3:5]
            if root == "/" or place == root or place.startswith(root + "/"):
                return Path(point) / place[len(root.rstrip("/")) :].lstrip("/")
    return None


def _not_delegated(base: Path) -> str | None:
    """Why `base` is not ours to divide, or None."""
    if not (base / "cgroup.type").exists():
        return "the daemon is in the root cgroup"
    if not (base / "cgroup.kill").exists():
        return "the kernel has no cgroup.kill"
    if not all(os.access(base / name, os.W_OK) for name in ("", "cgroup.procs", "cgroup.subtree_control")):
        return f"{base} is not writable"
    if (base / "cgroup.procs").read_text().split() not in ([], [str(os.getpid())]):
        return f"the daemon shares {base} with other processes"
    return None


def _write(file: Path, text: str) -> bool:
    try:
        file.write_text(text)
    except OSError:
        return False
    return True


@define
class Cgroups:
    """Divides the daemon's cgroup among sessions and terminals.

    Attributes:
        base: The delegated folder; None when there is none.
        why_not: Why there is none.
        limits: Of each session.
    """

    base: Path | None
    why_not: str = ""
    limits: CgroupLimits = field(factory=CgroupLimits)
    _controllers: frozenset[str] = field(default=frozenset(), init=False)
    _lingering: dict[Path, None] = field(factory=dict, init=False)

    @classmethod
    def find(cls, limits: CgroupLimits, base: Path | None = None) -> Cgroups:
        """Takes the daemon's own cgroup (or `base`) if it is delegated: moves the daemon into `main`, kills what an earlier run left."""
        base = own_cgroup() if base is None else base
        if base is None:
            return cls(None, "there is no cgroup of version 2")
        try:
            why_not = _not_delegated(base)
            if why_not is None:
                cgroups = cls(base, "", limits)
                cgroups._adopt(base)
                return cgroups
        except OSError as error:
            why_not = f"{base} can't be used: {error.strerror}"
        return cls(None, why_not, limits)

    def _adopt(self, base: Path) -> None:
        main = base / "main"
        main.mkdir(exist_ok=True)
        if str(os.getpid()) in (base / "cgroup.procs").read_text().split():
            (main / "cgroup.procs").write_text(str(os.getpid()))
        for session in base.iterdir():
            if SESSION.matches(session.name) and session.is_dir():
                self._kill(session)
        available = (base / "cgroup.controllers").read_text().split()
        enabled = [name for name in ("pids", "memory", "cpu") if name in available]
        self._controllers = frozenset(name for name in enabled if _write(base / "cgroup.subtree_control", f"+{name}"))
        if "cpu" in self._controllers:
            _write(main / "cpu.weight", str(_OWN_WEIGHT))

    def describe(self) -> str:
        """One line for people."""
        if self.base is None:
            return f"no cgroups: {self.why_not}"
        return f"cgroups below {self.base}, with {', '.join(sorted(self._controllers)) or 'no controllers'}"

    def place(self, session_id: str, terminal_id: str) -> str:
        """Makes a terminal's cgroup, and returns the file that a process joins it by; `""` where there is none.

        Raises:
            OSError: It can't be made.
        """
        if self.base is None:
            return ""
        if not (SESSION.matches(session_id) and TERMINAL.matches(terminal_id)):
            raise ValueError(f"not ids: {session_id!r}, {terminal_id!r}")
        session = self.base / session_id
        session.mkdir(exist_ok=True)
        # each time: the limits may have been read anew since the session's last terminal
        self._limit(session)
        terminal = session / terminal_id
        terminal.mkdir()
        return str(terminal / "cgroup.procs")

    def _limit(self, session: Path) -> None:
        for controller, name, value in (
            ("pids", "pids.max", self.limits.processes),
            ("memory", "memory.max", self.limits.memory),
            ("cpu", "cpu.weight", self.limits.weight),
        ):
            if controller in self._controllers:
                (session / name).write_text("max" if value is None else str(value))

    def vacate(self, session_id: str, terminal_id: str) -> None:
        """A terminal has ended: removes its cgroup and its session's, now or when the last process has left them."""
        if self.base is None:
            return
        session = self.base / session_id
        waiting = list(self._lingering)[:_RETRIES]
        for folder in (session / terminal_id, *waiting, session):
            self._lingering.pop(folder, None)
            self._remove(folder)

    def _remove(self, folder: Path) -> None:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            self._lingering[folder] = None  # at the end of the queue

    def kill(self, session_id: str, terminal_id: str | None = None) -> bool:
        """SIGKILL to everything in a terminal's cgroup, or a session's. False: there is none."""
        if self.base is None:
            return False
        folder = self.base / session_id
        folder = folder if terminal_id is None else folder / terminal_id
        if not folder.is_dir():
            return False
        self._kill(folder)
        return True

    def _kill(self, folder: Path) -> None:
        _write(folder / "cgroup.kill", "1")
        with suppress(OSError):
            for below in folder.iterdir():
                if TERMINAL.matches(below.name):
                    self._remove(below)
        self._remove(folder)
