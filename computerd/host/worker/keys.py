"""What is in a folder, as the keys that a listing is in the order of: each name, and each name of a folder with a slash, where its contents come.

Who lists a large folder page by page asks for it again and again. So the keys of the last such folder are kept, in order, for as long as it is
the same and has not changed; the time of its last change says so, unless that was a moment before it was read.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

from computerd.host.worker import staging

_TICK_NS: Final = 50_000_000
"""File systems tell times by the kernel's tick, of 10 ms at most: a change so soon before the reading may not be the last with that time."""
_KEPT: Final = range(1_000, 250_001)
"""Keys of a folder that is worth it, and of one that is not too large: some 20 MiB."""

Identity = tuple[int, int, int, int, bool]


class Keys:
    """The keys of folders."""

    def __init__(self) -> None:
        self._kept: tuple[Identity, list[bytes]] | None = None

    def after(self, folder: int, after: bytes, below: bool, number: int) -> list[bytes]:
        """The smallest keys above a path, in order.

        Args:
            folder: A descriptor of the folder.
            after: Only what comes after that, relative to it; with the key of the folder that it is in, if any. Ends with a slash when what is
                below that folder was had. Empty: from the start.
            below: Whether what is below folders is wanted.
            number: How many.
        """
        if not after:  # one reading, and most folders have no second page
            return nsmallest(number, _read(folder, below))
        keys = self._all(folder, below)
        found = bisect_right(keys, after)
        above = after.partition(b"/")[0] + b"/"
        inside = [above] if below and after != above and after.startswith(above) and _holds(keys, above) else []
        return inside + keys[found : found + number - len(inside)]

    def _all(self, folder: int, below: bool) -> list[bytes]:
        kept, now = self._kept, _identity(folder, below)
        if kept is not None and kept[0] == now:
            return kept[1]
        began = time.time_ns()
        keys = sorted(_read(folder, below))
        then = _identity(folder, below)
        lasting = now == then and max(now[2:4]) < began - _TICK_NS and len(keys) in _KEPT
        if lasting:
            self._kept = now, keys
        return keys


def _identity(folder: int, below: bool) -> Identity:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, below


def _holds(keys: list[bytes], key: bytes) -> bool:
    at = bisect_left(keys, key)
    return at < len(keys) and keys[at] == key


def _read(folder: int, below: bool) -> Iterator[bytes]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            if staging.is_name(name):
                continue
            yield name
            if below and entry.is_dir(follow_symlinks=False):
                yield name + b"/"
