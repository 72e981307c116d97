"""The daemon's side of the start: what stands on the command line of the user's Python, and the frame that it waits for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import Final

from computerd.host.worker import frames

PACKAGE: Final = "computerd.host.worker"
BOOT: Final = f"""import json,os
def take(n):
    b=b""
    while len(b)<n:
        p=os.read(0,n-len(b))
        if not p:raise SystemExit(1)
        b+=p
    return b
boot=json.loads(take(int.from_bytes(take(4),"big"))[5:])
exec(compile(boot["modules"]["{PACKAGE}.starting"],"starting","exec"),{{"__name__":"starting","boot":boot}})
"""
"""The program, for `python -I -S -E -c`. It holds no apostrophe, so that a shell takes it between two."""


def sources() -> dict[str, str]:
    """The worker's modules, by their whole names."""
    found = {}
    for file in resources.files(PACKAGE).iterdir():
        name, dot, suffix = file.name.partition(".")
        if dot and suffix == "py" and name not in ("__init__", "boot"):
            found[f"{PACKAGE}.{name}"] = file.read_text("utf-8")
    return found


def first_frame(paths: Sequence[str] = ()) -> bytes:
    """What a worker waits for.

    Args:
        paths: Folders with libraries that it may use when the user can read them; for zstandard.
    """
    payload = json.dumps({"modules": sources(), "paths": list(paths)}).encode()
    if len(payload) > frames.MAX_BOOT:
        raise ValueError("the worker's program is too large for its first frame")
    return frames.encode(0, frames.BOOT, payload)
