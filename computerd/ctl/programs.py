"""How the three programs are called: the other two from this one, with the same interpreter and the same copy of computerd."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

import computerd

TOP: Final = Path(computerd.__file__).resolve().parent.parent
"""The folder that holds the package: site-packages, or a clone."""

_CALL: Final = "import sys; sys.path.append(sys.argv.pop(1)); from {module} import {name}; sys.argv[0] = {program!r}; sys.exit({name}())"


def computerctl(called: str) -> str:
    """How a person calls this program again: by its name if his shell finds it so, otherwise by the path under which it was `called`."""
    if os.path.basename(called) != "computerctl":
        return "computerctl"
    found = shutil.which("computerctl")
    return "computerctl" if found and os.path.samefile(found, called) else shlex.quote(called)


def twistd(*arguments: str) -> list[str]:
    """The daemon. `-I` keeps the current folder and PYTHON* variables from bringing code of somebody else into a root process."""
    call = _CALL.format(module="twisted.scripts.twistd", name="run", program="twistd")
    return [sys.executable, "-I", "-c", call, str(TOP), *arguments]


def opc(*arguments: str) -> list[str]:
    """The client."""
    call = _CALL.format(module="computerd.opc.main", name="main", program="opc")
    return [sys.executable, "-I", "-c", call, str(TOP), *arguments]
