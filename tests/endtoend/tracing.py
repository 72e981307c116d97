"""Which calls a daemon and all that it starts make on paths, and as whom: strace(1), and what its output says.

COMPUTERD_TRACES names a folder: each daemon that a test starts is traced then, into a file of its own there.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import define, field

VARIABLE: Final = "COMPUTERD_TRACES"
_CALLS: Final = "%file,fchdir,open_by_handle_at,setuid,setreuid,setresuid,clone,clone3,fork,vfork"
_LINE: Final = re.compile(r"(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)")
_WORKSPACE: Final = re.compile(r"/workspaces/cs_\w{16}")
_STRING: Final = re.compile(r'(?:(\w+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
_FORKS: Final = ("clone", "clone3", "fork", "vfork")
_USERS: Final = ("setuid", "setreuid", "setresuid")
_OWN: Final = ("mkdirat", "mkdir", "fchownat", "chown", "lchown", "rmdir", "unlinkat")
"""With which root makes a workspace and hands it over: on its name, in the folder of all workspaces, which is root's."""


def prefix() -> list[str]:
    """What a daemon's command begins with. The daemon keeps its place as our child: the tracer is the one that steps aside."""
    folder = os.environ.get(VARIABLE)
    strace = shutil.which("strace")
    if not folder or strace is None:
        return []
    handle, name = tempfile.mkstemp(suffix=".strace", dir=folder)
    os.close(handle)
    return [
        strace,
        "-D",
        "-f",
        "-qq",
        "-y",
        "-s",
        "4096",
        "--seccomp-bpf",
        "-e",
        f"trace={_CALLS}",
        "-e",
        "signal=none",
        "-o",
        name,
    ]


@define
class Account:
    """What was traced.

    Attributes:
        roots: Calls of root on what is in a workspace, as strace shows them.
        making: Calls of root on a workspace's own name.
        users: Calls of anybody else on what is in a workspace.
        calls: Of all, by whom.
    """

    roots: list[str] = field(factory=list)
    making: Counter[str] = field(factory=Counter)
    users: int = 0
    calls: Counter[str] = field(factory=Counter)

    def add(self, trace: Path) -> None:
        """Reads a file of strace's."""
        lines = list(_whole(trace.read_text(errors="replace").splitlines()))
        parents = {
            int(result[1]): pid
            for pid, name, text in lines
            if name in _FORKS and (result := re.search(r"\) += (\d+)$", text))
        }
        users: dict[int, str] = {}
        folders: dict[int, str] = {}
        for pid, name, text in lines:
            if pid not in users:
                parent = parents.get(pid, -1)
                users[pid], folders[pid] = users.get(parent, "0"), folders.get(parent, "/")
            if name in _USERS:
                if text.endswith("= 0"):
                    users[pid] = re.findall(r"-?\d+", text)[0]
            elif name not in _FORKS:
                self._count(name, text, users[pid], folders[pid])
                if name in ("chdir", "fchdir") and text.endswith("= 0"):
                    found = re.search(r'"(.*)"|<(.*)>', text)
                    assert found is not None, text
                    folders[pid] = os.path.join(folders[pid], found[1] or found[2])

    def _count(self, name: str, text: str, user: str, folder: str) -> None:
        who = "root" if user == "0" else "user"
        self.calls[who] += 1
        # an exec's first string is the program; the others are no paths
        strings = list(_STRING.finditer(text))[: 1 if name.startswith("execve") else 2]
        paths = [os.path.join(_base(found, folder), found[3]) for found in strings] or [
            folder if name != "fchdir" else text
        ]
        inside = [found for path in paths if (found := _WORKSPACE.search(path)) is not None]
        if not inside:
            return
        if who == "user":
            self.users += 1
        elif name in _OWN and all(found.end() == len(found.string) for found in inside):
            self.making[name] += 1
        else:
            self.roots.append(f"{name}({text}")


def _base(found: re.Match[str], folder: str) -> str:
    """What a path is relative to."""
    if found[1] is None or found[1] == "AT_FDCWD":
        return folder
    return found[2]


def _whole(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Process, name and rest of each call, also of those whose line another one has cut."""
    begun: dict[int, str] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        pid, text = int(found[1]), found[4]
        if text.endswith("<unfinished ...>"):
            begun[pid] = text.removesuffix("<unfinished ...>")
            continue
        if found[2]:
            text = begun.pop(pid, "") + text
        yield pid, found[2] or found[3], text
