"""What stops a start: a configuration that can't be used."""

from __future__ import annotations

from typing import Final

EX_CONFIG: Final = 78
"""Exit status for a bad configuration (sysexits.h); the unit has it in `RestartPreventExitStatus=`."""


class ConfigError(Exception):
    """One line for the operator: where it is written, which key, and what is allowed."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        """One line, whatever the values in it were: control characters are shown, not sent to a terminal."""
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in super().__str__())
