"""Whether two trees are the same, as far as can be told without reading the files: as rsync does, by size and time.

Times are compared to a millisecond, which is what the API tells. Of the modes only the owner's right to execute counts: the rest depends on
whose umask it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from computerd.opc.localtree import Item
from computerd.opc.tree import Entry

TOLERANCE_MS: Final = 1
"""A time that went through a floating-point number may be rounded either way."""
_EXECUTE: Final = 0o100


def same(item: Item, entry: Entry) -> bool:
    """Whether a local file, folder or link seems to be what is in the workspace."""
    if item.kind != entry.kind:
        return False
    if item.kind == "symlink":
        return item.target == entry.target
    if item.kind == "directory":
        return True
    return (
        item.size == entry.size
        and abs(item.mtime_ns // 1_000_000 - entry.modified_ms) <= TOLERANCE_MS
        and item.mode & _EXECUTE == entry.mode & _EXECUTE
    )


def divided(items: Iterable[Item], entries: Iterable[Entry]) -> tuple[list[Item], str | None]:
    """Looks at both sides.

    Returns:
        The items, with `kept` said of the files that are there already; and the name of something that is not the same at both sides, or None.
    """
    there = {entry.local_name: entry for entry in entries}
    found: list[Item] = []
    differs = None
    for item in items:
        entry = there.pop(item.name, None)
        equal = entry is not None and same(item, entry)
        if not equal:
            differs = differs or item.name
        found.append(item._replace(kept=equal and item.kind == "file" and item.twin is None))
    return found, differs or next(iter(there), None)
