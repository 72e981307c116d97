"""What of the local file system is to be pushed: looked at once, before anything is sent."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from computerd.contract import limits
from computerd.opc.failure import Failure
from computerd.opc.plain import visible

Kind = Literal["file", "directory", "symlink"]
Ignored = Callable[[str, bool], bool]
"""Whether a name relative to the folder (first) is left out; second: whether it is a folder. Called for a folder before what is in it."""
MIB: Final = limits.MIB


class Item(NamedTuple):
    """A file, folder or link.

    Attributes:
        name: Its place in the archive, with slashes.
        path: Its place here.
        target: Of a symbolic link.
        twin: Device and inode of a file that has several names.
        kept: Whether the file is there already, as far as can be told: it is named, and not sent.
    """

    name: str
    path: str
    kind: Kind
    size: int
    mode: int
    mtime_ns: int
    target: str | None = None
    twin: tuple[int, int] | None = None
    kept: bool = False


class LocalTree(NamedTuple):
    """A folder, or a single file as if it were alone in one.

    Attributes:
        folder: Whether it is a folder.
        items: A folder before what is in it, else in the byte order of names.
        left_out: Sockets, FIFOs and devices, which no archive takes.
    """

    folder: bool
    items: list[Item]
    left_out: list[str]

    @property
    def bytes(self) -> int:
        """Of the files."""
        return sum(item.size for item in self.items if item.kind == "file")


def look(source: str, ignored: Ignored | None = None) -> LocalTree:
    """What is at `source`. A link there is followed; links below are kept as links.

    Raises:
        Failure: It can't be read, or is more than an archive may hold.
    """
    try:
        found = os.stat(source)
        if stat.S_ISREG(found.st_mode):
            name = os.path.basename(source)
            tree = LocalTree(False, [_item(name, os.path.realpath(source), found)], [])
        elif stat.S_ISDIR(found.st_mode):
            tree = LocalTree(True, [], [])
            _walk(source, tree, ignored or (lambda name, folder: False))
        else:
            raise Failure("invalid_path", f"{visible(source)} is neither a file nor a folder.")
    except OSError as error:
        raise unreadable(error.filename or source, error) from None
    if tree.bytes > limits.MAX_ARCHIVE_BYTES:
        raise Failure(
            "too_large",
            f"{visible(source)} holds {tree.bytes // MIB} MiB; a push takes {limits.MAX_ARCHIVE_BYTES // MIB} MiB. "
            "Push parts of it, or leave some out (--gitignore).",
        )
    return tree


def staying(tree: LocalTree) -> tuple[LocalTree, list[str]]:
    """A tree without the links that lead out of it, which no daemon takes; and their names."""
    out = [item.name for item in tree.items if item.kind == "symlink" and _leads_out(item)]
    if not out:
        return tree, out
    names = set(out)
    return tree._replace(items=[item for item in tree.items if item.name not in names]), out


def _leads_out(link: Item) -> bool:
    """Whether a link names a place above the top, seen as if there were no other links."""
    target = link.target or ""
    depth = link.name.count("/")
    for part in target.split("/"):
        if part not in ("", "."):
            depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return target.startswith("/")


def unreadable(path: str | bytes | int, error: OSError) -> Failure:
    """Something here can't be read."""
    return Failure("unreadable", f"can't read {visible(str(path))}: {error.strerror or error}. Nothing was changed.")


def _walk(top: str, tree: LocalTree, ignored: Ignored) -> None:
    waiting: list[Iterator[Item]] = [_children(top, "", tree, ignored)]
    while waiting:
        item = next(waiting[-1], None)
        if item is None:
            waiting.pop()
            continue
        tree.items.append(item)
        if len(tree.items) > limits.MAX_ARCHIVE_ENTRIES:
            raise Failure(
                "too_large",
                f"{visible(top)} holds more than the {limits.MAX_ARCHIVE_ENTRIES} files and folders that a push takes. "
                "Push parts of it, or leave some out (--gitignore).",
            )
        if item.kind == "directory":
            waiting.append(_children(item.path, item.name + "/", tree, ignored))


def _children(path: str, prefix: str, tree: LocalTree, ignored: Ignored) -> Iterator[Item]:
    with os.scandir(path) as entries:
        found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in found:
        name = prefix + entry.name
        if ignored(name, entry.is_dir(follow_symlinks=False)):
            continue
        looked = entry.stat(follow_symlinks=False)
        if stat.S_IFMT(looked.st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            yield _item(name, entry.path, looked)
        else:
            tree.left_out.append(name)


def _item(name: str, path: str, found: os.stat_result) -> Item:
    mode, mtime = stat.S_IMODE(found.st_mode), found.st_mtime_ns
    if stat.S_ISDIR(found.st_mode):
        return Item(name, path, "directory", 0, mode, mtime)
    if stat.S_ISLNK(found.st_mode):
        return Item(name, path, "symlink", 0, mode, mtime, target=os.readlink(path))
    if not os.access(path, os.R_OK, effective_ids=True):
        raise PermissionError(13, "Permission denied", path)
    twin = (found.st_dev, found.st_ino) if found.st_nlink > 1 else None
    return Item(name, path, "file", found.st_size, mode, mtime, twin=twin)
