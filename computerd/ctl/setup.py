"""`computerctl setup`: what the daemon needs on a host, and how to be rid of it again."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from computerd.config import Config, trust
from computerd.config.options import USER_NAME
from computerd.ctl.changes import Change, Folder, User
from computerd.ctl.context import Context
from computerd.ctl.errors import CommandError
from computerd.ctl.plan import Plan

RECORD: Final = "setup.json"
STATE_MODE: Final = 0o700
WORKSPACES_MODE: Final = 0o755
"""Root's, and never the agent's to write in: each workspace inside belongs to its user."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "setup", parents=[common], help="make the Unix user and the folders that the daemon needs"
    )
    command.add_argument("--dry-run", action="store_true", help="only show what would be done")
    command.add_argument("--undo", action="store_true", help="take back what setup did, and nothing else")
    command.add_argument(
        "--user", metavar="USER", type=_name, help="the Unix user to make, instead of those of the configuration"
    )
    command.set_defaults(run=_run)


def _name(text: str) -> str:
    if not re.fullmatch(USER_NAME, text):
        raise argparse.ArgumentTypeError("is no name that a Unix user can have")
    return text


def _run(context: Context, arguments: argparse.Namespace) -> int:
    changes = plan(context.config(), arguments.user, context.out)
    if arguments.undo:
        if not changes.take_back(dry_run=arguments.dry_run):
            context.say("setup has changed nothing here")
    elif not changes.carry_out(dry_run=arguments.dry_run):
        context.say("everything is there already")
    return 0


def plan(config: Config, user: str | None, say: Callable[[str], None]) -> Plan:
    """What has to be there: the state folder, the workspace root, and, as root, the Unix users."""
    return Plan(config.state_dir / RECORD, list(_changes(config, user, workspaces=True)), say)


def plan_user(config: Config, user: str, say: Callable[[str], None]) -> Plan:
    """Only the Unix user, and the folder in which it is recorded."""
    return Plan(config.state_dir / RECORD, list(_changes(config, user, workspaces=False)), say)


def _changes(config: Config, user: str | None, *, workspaces: bool) -> Iterator[Change]:
    root = os.geteuid() == 0
    if user is not None and not root:
        raise CommandError("only root can make a Unix user: run this as root")
    if root:
        trust.check_folders(config)
    folders = [*_folders(config.state_dir, STATE_MODE)]
    if workspaces:
        folders += _folders(config.workspace_root, WORKSPACES_MODE)
    # Both may lie in one folder that is missing, such as ~/.local.
    seen: set[str] = set()
    for folder in folders:
        if folder.path not in seen:
            yield folder
        seen.add(folder.path)
    if root:
        for name in dict.fromkeys([user] if user is not None else [config.agent.user, *config.agent.users.values()]):
            yield User(name)


def _folders(path: Path, mode: int) -> Iterator[Folder]:
    """The folder, and before it those above it that are missing."""
    for above in reversed(path.parents):
        if not above.exists():
            yield Folder(str(above), 0o755)
    yield Folder(str(path), mode)
