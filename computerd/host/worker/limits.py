"""The limits that the API promises for files, as the worker keeps them. It knows nothing of the contract; a test holds both together."""

from __future__ import annotations

from typing import Final

ARCHIVE_BYTES: Final = 1 << 30
"""Of all files of an archive, holes counted, so that what was packed can be unpacked."""
ARCHIVE_ENTRIES: Final = 100_000
FILE_BYTES: Final = 100 << 20
"""Of a file that is read."""
DEPTH: Final = 10
"""Levels of folders in one listing."""
PAGE: Final = 100
"""Entries of one listing."""
PATH_BYTES: Final = 4096
"""PATH_MAX of Linux."""
