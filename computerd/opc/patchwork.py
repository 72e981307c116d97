"""A folder that is mostly here already: what is equal is taken from the old one, and only the rest is fetched, file by file.

The new folder is made beside the old one, with hard links to the files that are equal, so it is whole before anything is replaced. For
many files, or for most of the bytes, one archive is faster; then this is not used.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from computerd.contract import limits
from computerd.opc.equal import same
from computerd.opc.failure import Failure
from computerd.opc.landing import stays
from computerd.opc.localtree import Item, look
from computerd.opc.plain import shortened, visible
from computerd.opc.tree import Entry
from computerd.opc.unpack import Member

MOST_FILES: Final = 200
"""That are fetched one by one: each is a request."""
MAX_NAMES: Final = 64 * limits.MIB
"""Characters of the paths and targets that are listed, all together: several times what a full archive of real files has."""
Fetch = Callable[[Entry], AbstractContextManager[Iterator[bytes]]]


class Work(NamedTuple):
    """What is to be done.

    Attributes:
        entries: All that the folder is to hold.
        same: The names of those that are here, with their places.
        differs: The names of what is not the same, at either side.
        fetched: How many files are to be fetched.
        bytes: Of them.
        equal: How many files and links are equal.
        worth_it: Whether that is better than an archive.
    """

    entries: Sequence[Entry]
    same: dict[str, Item]
    differs: list[str]
    fetched: int
    bytes: int
    equal: int
    worth_it: bool


def gathered(entries: Iterable[Entry], folder: str) -> list[Entry]:
    """All of them, without what only a listing tells. Whoever lists may never come to an end.

    Raises:
        Failure: They are more than an archive of `folder` may hold.
    """
    found: list[Entry] = []
    names = 0
    for entry in entries:
        names += len(entry.path) + len(entry.name) + len(entry.target or "")
        if len(found) == limits.MAX_ARCHIVE_ENTRIES or names > MAX_NAMES:
            raise Failure(
                "too_large",
                f"{visible(shortened(folder, 200))} holds more than the {limits.MAX_ARCHIVE_ENTRIES} files and folders "
                "that a pull takes, or longer names. Nothing was changed. Pull parts of it.",
            )
        found.append(entry._replace(told={}))
    return found


def work(entries: Sequence[Entry], folder: str) -> Work:
    """Compares what is listed with a local folder.

    Raises:
        Failure: The folder can't be read.
    """
    entries = [entry for entry in entries if _kept(entry)]
    here = {item.name: item for item in look(folder).items}
    equal: dict[str, Item] = {}
    missing: list[Entry] = []
    differs: list[str] = []
    for entry in entries:
        item = here.pop(entry.local_name, None)
        if item is not None and same(item, entry):
            equal[entry.name] = item
            continue
        differs.append(entry.local_name)
        if entry.kind == "file":
            missing.append(entry)
    lacking = sum(entry.size for entry in missing)
    everything = sum(entry.size for entry in entries if entry.kind == "file")
    return Work(
        entries,
        equal,
        [*differs, *here],
        len(missing),
        lacking,
        sum(item.kind != "directory" for item in equal.values()),
        len(missing) <= MOST_FILES
        and 2 * lacking <= everything
        and all(entry.size <= limits.MAX_FILE_BYTES for entry in missing)
        and not any(entry.encoded for entry in entries),
    )


def _kept(entry: Entry) -> bool:
    """Whether a pull would keep it."""
    if entry.kind == "symlink":
        return stays(entry.target or "", entry.name.count("/"))
    return entry.kind != "other"


class Patchwork:
    """The members of the new folder, as if an archive held them.

    Args:
        work: What is to be done.
        old: The old folder.
        fetch: Fetches a file.
    """

    def __init__(self, work: Work, old: str, fetch: Fetch) -> None:
        self._work = work
        self._old = old
        self._fetch = fetch
        self._data: Iterator[bytes] = iter(())

    def __iter__(self) -> Iterator[Member]:
        """Each of them; a folder before what is in it."""
        found = os.lstat(self._old)
        yield _member("", "directory", 0, stat.S_IMODE(found.st_mode), found.st_mtime_ns)
        for entry in self._work.entries:
            item = self._work.same.get(entry.name)
            modified = entry.modified_ms * 1_000_000
            if entry.kind == "directory":
                yield _member(entry.name, "directory", 0, entry.mode, modified)
            elif entry.kind == "symlink":
                yield _member(entry.name, "symlink", 0, entry.mode, modified, entry.target or "")
            elif item is not None:
                yield _member(entry.name, "kept", item.size, entry.mode, item.mtime_ns, item.path)
            else:
                with self._fetch(entry) as pieces:
                    self._data = self._counted(entry, pieces)
                    yield _member(entry.name, "file", entry.size, entry.mode, modified)

    def data(self) -> Iterator[bytes]:
        """Of the current one."""
        return self._data

    def _counted(self, entry: Entry, pieces: Iterator[bytes]) -> Iterator[bytes]:
        count = 0
        for piece in pieces:
            count += len(piece)
            if count > entry.size:  # perhaps it never ends
                raise _changed(entry)
            yield piece
        if count != entry.size:
            raise _changed(entry)


def _changed(entry: Entry) -> Failure:
    name = visible(shortened(entry.path, 200))
    return Failure("unavailable", f"{name} changed while it was fetched. Nothing was changed here; pull again.")


def _member(name: str, kind: str, size: int, mode: int, mtime_ns: int, target: str = "") -> Member:
    return Member(name, kind, size, mode & 0o777, mtime_ns, target, None, size)
