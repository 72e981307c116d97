"""What `opc` itself has to say: on standard error, one line each."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

from computerd.opc.plain import visible


def colored(stream: TextIO | None, choice: str, env: Mapping[str, str]) -> bool:
    """Whether to colour what goes to `stream`.

    `--color` wins, then NO_COLOR (no-color.org), FORCE_COLOR, TERM=dumb, then whether it is a terminal.
    """
    if choice != "auto":
        return choice == "always"
    if env.get("NO_COLOR"):
        return False
    if env.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return env.get("TERM") != "dumb" and stream is not None and stream.isatty()


class Say:
    """Speaks to the person.

    Args:
        quiet: Says only what went wrong.
        verbose: How much more to say, 0 to 2.
        color: Whether to colour.
        raw: Whether the terminal is raw: then a line feed does not begin a line.
    """

    def __init__(
        self, *, quiet: bool, verbose: int, color: bool, raw: Callable[[], bool] = lambda: False, fd: int = 2
    ) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._color = color
        self.raw = raw
        self._fd = fd

    def error(self, message: str) -> None:
        """What went wrong and what to do."""
        self._line(message, "1;31")

    def note(self, message: str) -> None:
        """What is good to know."""
        if not self._quiet:
            self._line(message, "1")

    def warn(self, message: str) -> None:
        """What may be wrong."""
        if not self._quiet:
            self._line(message, "1;33")

    def detail(self, message: str, level: int = 1) -> None:
        """What only the curious want to know."""
        if self._verbose >= level:
            self._line(message, "2")

    def text(self, text: str) -> None:
        """Several lines, as they are."""
        if self.raw():
            text = text.replace("\n", "\r\n")
        with contextlib.suppress(OSError):
            data = text.encode("utf-8", "replace")
            while data:
                data = data[os.write(self._fd, data) :]

    def _line(self, message: str, style: str) -> None:
        mark = f"\x1b[{style}mopc:\x1b[m" if self._color else "opc:"
        # names of strangers are made visible where they are told; this is for the one that was forgotten
        self.text(f"{mark} {visible(message)}\n")


def speaker(quiet: bool, verbose: int, choice: str, env: Mapping[str, str]) -> Say:
    """For standard error."""
    return Say(quiet=quiet, verbose=verbose, color=colored(sys.stderr, choice, env))
