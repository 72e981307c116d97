"""How `computerctl` starts: what it consists of takes a moment to load, in which Ctrl-C should end it without a traceback."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Loads the program and runs it. Ctrl-C while it loads ends this process as the signal does by itself.

    Returns:
        The exit status: see `computerd.ctl.main`.
    """
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from computerd.ctl import main as program  # noqa: PLC0415  # the point of this module

    if raises:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return program.main()


if __name__ == "__main__":
    sys.exit(main())
