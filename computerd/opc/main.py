"""`opc`, the program: from the command line to an exit status. Each verb's module is imported only when it is asked for."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from computerd.opc import arguments, fileverbs, say
from computerd.opc.ended import Ended
from computerd.opc.failure import BY_SIGNAL, FAILURE, OWN_FAILURE, Failure

VERBS: Final = {
    "shell": "shell",
    "exec": "shell",
    "sessions": "sessions",
    "events": "events",
    "push": "push",
    "pull": "pull",
    "ls": "ls",
    "cat": "cat",
    "schema": "schema",
    "version": "version",
    "completion": "completion",
    "config": "configuration",
}
"""Each verb's module in this package, which has a `run(options, env)`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line. Returns the exit status.

    0, 1 for a failure, 2 for wrong usage, 130 after Ctrl-C; `shell` and `exec` instead end with the program's own, or with 255.
    `events`, `push`, `pull`, `ls` and `cat` have 255 for a failure too. Told to end by a signal: 128 and its number.
    """
    options = arguments.parse(sys.argv[1:] if argv is None else argv)
    own = (*arguments.TERMINAL_VERBS, *fileverbs.VERBS, "events")
    failed = OWN_FAILURE if options.verb in own else FAILURE
    try:
        status = _run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except Failure as failure:
        _tell(options, failure)
        return failed
    except KeyboardInterrupt:
        return BY_SIGNAL + signal.SIGINT
    except Ended as ended:
        return BY_SIGNAL + ended.number
    except BrokenPipeError:
        _forget_output()
        return BY_SIGNAL + signal.SIGPIPE
    except Exception as error:
        if options.verbose >= 2:
            raise
        _tell(
            options,
            Failure("internal", f"a defect of opc: {type(error).__name__}: {error}. -vv shows where it happened."),
        )
        return failed


def _run(options: Namespace) -> int:
    module = importlib.import_module(f"computerd.opc.{VERBS[options.verb]}")
    status: int = module.run(options, os.environ)
    return status


def _tell(options: Namespace, failure: Failure) -> None:
    # in a stream of events, what is no event would be taken for one
    if getattr(options, "json", False) and options.verb != "events":
        with contextlib.suppress(OSError):
            print(json.dumps(failure.body(), ensure_ascii=False), flush=True)
        return
    say.speaker(options.quiet, options.verbose, options.color or "auto", os.environ).error(failure.message)


def _forget_output() -> None:
    """Or the interpreter would try to write it once more at its end, and complain."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    sys.exit(main())
