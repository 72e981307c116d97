"""`computerctl`: the host administrator's program."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

import computerd
from computerd.config import ConfigError
from computerd.config.errors import EX_CONFIG
from computerd.ctl import audit, configuration, doctor, install, key, setup, token, tryout
from computerd.ctl.context import Context
from computerd.ctl.errors import CommandError
from computerd.journal.refusal import DamagedError, JournalError
from computerd.net.keys import KeyProblem

FAILURE: Final = 1
INTERRUPTED: Final = 130
"""128 + SIGINT, as shells say it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Returns:
        0; 1 when it failed, or `doctor` or `audit` found something wrong; 2 for wrong usage; 78 for a wrong configuration;
        the program's own status for `try`.
    """
    arguments = parser().parse_args(argv)
    context = Context(
        flags={"state-dir": arguments.state_dir, "config": arguments.config},
        environ=dict(os.environ),
        uid=os.geteuid(),
        now=time.time,
        random=os.urandom,
        out=print,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    return guarded(context, arguments)


def guarded(context: Context, arguments: argparse.Namespace) -> int:
    """Runs the command that was parsed; what it can't do is one line and a status."""
    try:
        status: int = arguments.run(context, arguments)
        sys.stdout.flush()
    except ConfigError as problem:
        context.say(f"computerctl: {problem}")
        return EX_CONFIG
    except (CommandError, KeyProblem, JournalError, DamagedError) as problem:
        context.say(f"computerctl: {problem}")
        return FAILURE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    return status


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    # Both options may stand before or after the command's name; the second parser must not undo what the first has read.
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--state-dir", metavar="DIR", default=argparse.SUPPRESS, help="the daemon's state folder")
    common.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="the daemon's configuration file")
    top = argparse.ArgumentParser(
        prog="computerctl",
        description="Keys, credentials, Unix users and the health of a host that runs computerd.",
        allow_abbrev=False,
    )
    top.add_argument("--state-dir", metavar="DIR", help="the daemon's state folder")
    top.add_argument("--config", metavar="FILE", help="the daemon's configuration file")
    top.add_argument("--version", action="version", version=f"computerctl {computerd.__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for module in (tryout, setup, install, key, token, audit, configuration, doctor):
        module.add(commands, common)
    return top


if __name__ == "__main__":
    sys.exit(main())
