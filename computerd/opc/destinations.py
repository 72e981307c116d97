"""Where a push or a pull is to land, from what was typed. Unlike cp(1), it never depends on what is there."""

from __future__ import annotations

import os

from computerd.opc.failure import Failure
from computerd.opc.plain import visible
from computerd.opc.tree import spelled


def pushed(source: str, dest: str | None, *, single: bool) -> str:
    """The path of the new folder. For a folder, a DEST that ends in a slash, or is `.`, is the folder that it is to be in.

    Args:
        source: What is pushed.
        dest: What was said, or None.
        single: Whether a file or an archive is pushed, which need a folder with a name.

    Raises:
        Failure: It can't be told, or is none.
    """
    if not single and (dest is None or os.path.basename(dest) in ("", ".")):
        dest = os.path.join(dest or "", os.path.basename(os.path.abspath(source)))
    dest = dest or ""
    parts = [part for part in dest.split("/") if part not in ("", ".")]
    path = ("/" if dest.startswith("/") else "") + "/".join(parts)
    if path in ("", "/"):
        raise Failure(
            "invalid_path",
            f"a push makes a new folder: say what it is to be called, as in `opc push {visible(source)} DEST`.",
        )
    if spelled(path) != path:
        raise Failure("invalid_path", f"{visible(path)} is not UTF-8, so nothing new can have that name. Give a DEST.")
    return path


def pulled(source: str, dest: str | None) -> str:
    """Where it is to land. A DEST that ends in a slash, or is `.` or `..`, is the folder that it is to be in.

    Raises:
        Failure: It can't be told.
    """
    parts = [part for part in source.split("/") if part not in ("", ".")]
    own = parts[-1] if parts and parts[-1] != ".." else ""
    if dest is None or os.path.basename(dest) in ("", ".", ".."):
        if not own:
            raise Failure("invalid_path", f"say what {visible(source)} is to be called here: `opc pull SRC DEST`.")
        dest = os.path.join(dest or "", own)
    return dest.rstrip("/") or "/"
