"""`computerctl doctor`: what is right and wrong with this host, and what to do about it."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

from attrs import asdict

from computerd.config import ConfigError
from computerd.ctl.belongings import Belongings
from computerd.ctl.context import Context
from computerd.ctl.finding import Finding, State, wrong
from computerd.ctl.machine import Machine


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "doctor", parents=[common], help="look for what is wrong with this host; status 1 if something is"
    )
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=_run)


def _run(context: Context, arguments: argparse.Namespace) -> int:
    findings = list(examine(context))
    if arguments.json:
        context.out(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            context.out(f"{finding.state:5}  {finding.check}: {finding.found}")
            if finding.advice:
                context.out(f"       -> {finding.advice}")
    return int(any(finding.state is State.WRONG for finding in findings))


def examine(context: Context) -> Iterator[Finding]:
    """Every finding. With a broken configuration, those that need none."""
    config = None
    try:
        config = context.config()
    except ConfigError as problem:
        yield wrong(
            "configuration", str(problem), "the daemon will not start with it (status 78); computerctl config check"
        )
    yield from Machine(config, context.now).findings()
    if config is not None:
        yield from Belongings(config, context.uid, context.now, time.monotonic).findings()
