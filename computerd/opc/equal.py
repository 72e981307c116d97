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


def difference(items: Iterable[Item], entries: Iterable[Entry]) -> str | None:
    """The name of something that is not the same at both sides; None: all is. `entries` are taken only up to there."""
    left = {item.name: item for item in items}
    for entry in entries:
        item = left.pop(entry.local_name, None)
        if item is None or not same(item, entry):
            return entry.local_name
    return next(iter(left), None)
