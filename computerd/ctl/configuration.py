"""`computerctl config`: what the daemon would start with, and where each value comes from."""

from __future__ import annotations

import argparse
import json

from computerd.ctl.context import Context


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    config = commands.add_parser("config", help="the daemon's configuration").add_subparsers(
        metavar="COMMAND", required=True
    )
    show = config.add_parser("show", parents=[common], help="every option, its value and who set it")
    show.add_argument("--json", action="store_true", help="as JSON")
    show.set_defaults(run=_show)
    check = config.add_parser("check", parents=[common], help="say what is wrong with it; status 78 if something is")
    check.set_defaults(run=_check)


def _show(context: Context, arguments: argparse.Namespace) -> int:
    settings = context.config().describe_origins()
    if arguments.json:
        context.out(
            json.dumps(
                [{"key": s.key, "value": s.value, "origin": s.origin} for s in settings], indent=2, ensure_ascii=False
            )
        )
        return 0
    width = max(len(f"{setting.key} = {setting.value}") for setting in settings if len(setting.value) < 60)
    for setting in settings:
        context.out(f"{setting.key} = {setting.value}".ljust(width) + f"  # {setting.origin}")
    return 0


def _check(context: Context, arguments: argparse.Namespace) -> int:
    config = context.config()
    for notice in config.notices:
        context.say(f"note: {notice}")
    context.say(f"{config.file or 'no configuration file'}: good")
    return 0
