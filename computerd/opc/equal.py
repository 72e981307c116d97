"""Whether two trees are the same, as far as can be told without reading the files: as rsync does, by size and time.

Times are compared to a millisecond, which is what the API tells. Of the modes only the owner's right to execute counts: the rest depends on
whose umask it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def divided(items: Sequence[Item], entries: Iterable[Entry]) -> tuple[list[Item], str | None]:
    """Looks at both sides. `entries` are taken only as long as they can tell something new.

    Returns:
        The items, with `kept` said of the files that are there already; and the name of something that is not the same at both sides, or None.
    """
    left = {item.name: item for item in items}
    kept = set()
    differs = None
    for entry in entries:
        item = left.pop(entry.local_name, None)
        if item is None or not same(item, entry):
            differs = differs or entry.local_name
        elif item.kind == "file" and item.twin is None:
            kept.add(item.name)
        if differs is not None and not left:
            break
    return [item._replace(kept=item.name in kept) for item in items], differs or next(iter(left), None)
