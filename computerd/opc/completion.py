"""`opc completion`: the scripts that teach a shell the command line of `opc`.

They are made from the parser by shtab when it changes, and lie beside this module: running the generator each time that a shell
starts would cost it a tenth of a second and a dependency.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

SHELLS: Final = ("bash", "zsh", "fish")


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Prints the script for one shell."""
    sys.stdout.write(script(options.shell))
    return 0


def file_name(shell: str) -> str:
    """The name of a shell's script, in this package."""
    return f"opc.{shell}"


def script(shell: str) -> str:
    """The script for `shell`, one of SHELLS."""
    return files(__package__ or "computerd.opc").joinpath(file_name(shell)).read_text(encoding="utf-8")
