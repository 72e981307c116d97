"""Where a file has no data, as file systems tell it (lseek(2), SEEK_DATA and SEEK_HOLE)."""

from __future__ import annotations

import errno
import os
from typing import Final

_MAX_SEGMENTS: Final = 10_000
"""Pieces of data in a sparse file; one that has more is packed as if it had no holes."""


def segments(file: int, now: os.stat_result) -> list[tuple[int, int]] | None:
    """Where a file has data, as places and lengths, ending with an empty one at its end; None when it has no holes, or too many."""
    if now.st_blocks * 512 >= now.st_size:
        return None
    found: list[tuple[int, int]] = []
    at = 0
    try:
        while at < now.st_size and len(found) < _MAX_SEGMENTS:
            start = os.lseek(file, at, os.SEEK_DATA)
            at = min(os.lseek(file, start, os.SEEK_HOLE), now.st_size)
            if start < now.st_size:
                found.append((start, at - start))
    except OSError as error:
        if error.errno != errno.ENXIO:  # it is where there is no data any more
            return None
    if len(found) >= _MAX_SEGMENTS or found == [(0, now.st_size)]:
        return None
    return [*found, (now.st_size, 0)]
