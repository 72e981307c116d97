"""`computerctl install`: computerd as a service of this host."""

from __future__ import annotations

import argparse
import os
import re
import stat
import sys
from pathlib import Path
from typing import Final

from computerd.config.loading import SYSTEM_FILE
from computerd.ctl import programs
from computerd.ctl.changes import Change, File, Folder
from computerd.ctl.context import Context
from computerd.ctl.errors import CommandError
from computerd.ctl.plan import Plan
from computerd.ctl.setup import STATE_MODE

RECORD: Final = "install.json"
UNITS: Final = Path("/etc/systemd/system")
SYSCTL: Final = Path("/etc/sysctl.d/60-computerd.conf")
_EXEC: Final = re.compile(r"^ExecStart=.*$", re.MULTILINE)

CONFIG: Final = """\
# computerd: see "Configuration" in its documentation. computerctl config show lists every option and where its value comes from.
# systemctl reload computerd reads keys and limits anew; the rest is read at the start.

# listen = ["tcp:7390:interface=127.0.0.1"]

[agent]
# user = "agent"

[agent.users]
# "the member id of an owner" = "the Unix user of that owner's sessions"
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    command = commands.add_parser("install", parents=[common], help="make computerd a service of this host (systemd)")
    command.add_argument("--dry-run", action="store_true", help="only show what would be done")
    command.add_argument("--undo", action="store_true", help="take back what install did, and nothing else")
    command.set_defaults(run=_run)


def _run(context: Context, arguments: argparse.Namespace) -> int:
    state = context.config().state_dir
    if arguments.undo:
        if not Plan(state / RECORD, [], context.out).take_back(dry_run=arguments.dry_run):
            context.say("install has changed nothing here")
        return 0
    if context.uid != 0 and not arguments.dry_run:
        raise CommandError("only root can install a service: run this as root")
    check_owner(Path(sys.executable))
    if not Plan(state / RECORD, changes(state), context.out).carry_out(dry_run=arguments.dry_run):
        context.say("everything is there already")
    if not arguments.dry_run:
        context.say(
            f"next: computerctl setup && systemctl daemon-reload && sysctl -p {SYSCTL} && systemctl enable --now computerd"
        )
    return 0


def changes(state: Path) -> list[Change]:
    """The state folder for the record, the units, kernel settings, and a configuration file unless there is one."""
    return [
        Folder(str(state), STATE_MODE),
        Folder(str(UNITS), 0o755),
        *(File(str(UNITS / name), unit(name)) for name in ("computerd.service", "computerd.socket")),
        Folder(str(SYSCTL.parent), 0o755),
        File(str(SYSCTL), source(SYSCTL.name)),
        Folder(str(SYSTEM_FILE.parent), 0o755),
        File(str(SYSTEM_FILE), CONFIG, replace=False),
    ]


def unit(name: str) -> str:
    """A unit file for the interpreter that runs now.

    Raises:
        CommandError: This copy of computerd came without its units.
    """
    python = Path(sys.executable)
    start = f"ExecStart={python} -I {python.parent / 'twistd'} --nodaemon --pidfile= computerd"
    return _EXEC.sub(lambda found: start, source(name))


def source(name: str) -> str:
    """The text of one of the files in `systemd`: installed beside the interpreter, or in a clone.

    Raises:
        CommandError: It is nowhere.
    """
    for folder in (Path(sys.prefix) / "share" / "computerd" / "systemd", programs.TOP / "systemd"):
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise CommandError(f"{name} came not with this copy of computerd: install it again")


def check_owner(program: Path) -> None:
    """A service of root must not run what somebody else can change.

    Raises:
        CommandError: Somebody else owns, or may write to, the interpreter, this package or a folder above them.
    """
    if re.search(r"\s", str(program)):
        raise CommandError(
            f"{program}: a unit can't name a path with blanks in it; install computerd into another folder, in its source folder: "
            "python3 -m venv /usr/lib/computerd && /usr/lib/computerd/bin/pip install ."
        )
    for start in (program, Path(os.path.realpath(program)), programs.TOP / "computerd"):
        for place in (start, *start.parents):
            state = place.stat()
            if state.st_uid != 0 or (state.st_mode & 0o022 and not state.st_mode & stat.S_ISVTX):
                raise CommandError(
                    f"{place} can be changed by others than root, who would then run as root; install computerd into a folder of root's, "
                    "in its source folder: python3 -m venv /usr/lib/computerd && /usr/lib/computerd/bin/pip install ."
                )
