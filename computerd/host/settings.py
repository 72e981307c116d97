"""What the operator decides about processes, as plain data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from attrs import field, frozen

from computerd.host.ptyprocess import possible

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
DEFAULT_LANG: Final = "C.UTF-8"


class HostError(Exception):
    """The host can't serve as it is configured. The message is one line that says what to do."""


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


@frozen
class CgroupLimits:
    """Limits of one session, when the daemon's own cgroup is delegated to it.

    Attributes:
        processes: `pids.max`; None: no limit.
        memory: `memory.max`, in bytes; None: no limit.
        weight: `cpu.weight`, 1 to 10,000; the kernel's own default is 100, the daemon's own is 1,000.
    """

    processes: int | None = None
    memory: int | None = None
    weight: int = 100


@frozen
class HostSettings:
    """How processes are started.

    Attributes:
        workspace_root: The folder that holds the sessions' workspaces.
        agent_user: The Unix user of everybody whom `users` doesn't name. Not used by a daemon that isn't root: it has its own user only.
        users: Unix users of single members.
        allow_system_user: Accept users below uid 1000. Root is never accepted.
        allow_groups: Groups that a user may be in although they are as good as root.
        path: PATH of a terminal.
        lang: LANG of a terminal.
        umask: Of a terminal.
        no_new_privileges: Set-uid programs such as sudo don't work in a terminal.
        open_files: Soft and hard RLIMIT_NOFILE, capped by the daemon's own. 1,024 is what programs expect that close every possible descriptor.
        core_bytes: RLIMIT_CORE.
        oom_score_adj: How much earlier than the daemon a terminal dies when memory runs out. Only as root.
        kill_leftovers: Kill what a terminal leaves behind (with a delegated cgroup), also what nohup and tmux would keep.
        cgroups: Use the daemon's own cgroup, if it is delegated.
        cgroup_limits: Of each session.
        spare_terminals: Pseudo-terminals kept open, so that an owner can enter a machine that has run out of them.
        launcher: `perl` or `python`; None takes the fastest that works here.
        fork: Start programs on a terminal by a fork of the daemon, as Twisted does; otherwise by posix_spawn, and the launcher
            takes the terminal itself: half the time, and a third of the reactor's stall. Old kernels need the fork.
    """

    workspace_root: Path = field(converter=Path)
    agent_user: str | None = None
    users: Mapping[str, str] = field(factory=dict)
    allow_system_user: bool = False
    allow_groups: frozenset[str] = field(default=frozenset(), converter=_names)
    path: str = DEFAULT_PATH
    lang: str = DEFAULT_LANG
    umask: int = 0o022
    no_new_privileges: bool = True
    open_files: tuple[int, int] = (1024, 16384)
    core_bytes: int = 0
    oom_score_adj: int = 200
    kill_leftovers: bool = False
    cgroups: bool = True
    cgroup_limits: CgroupLimits = CgroupLimits()
    spare_terminals: int = 8
    launcher: Literal["perl", "python"] | None = None
    fork: bool = field(factory=lambda: not possible(os.uname().release))
