"""A pax archive of local files (POSIX.1-2024, pax, "pax Interchange Format"), made while it is sent. It bears no owners.

Times are kept to the nanosecond, so that a second push can tell which files have changed.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from computerd.opc.exchange import PIECE
from computerd.opc.failure import Failure
from computerd.opc.localtree import Item, unreadable
from computerd.opc.plain import visible

BLOCK: Final = 512
_TYPES: Final = {"file": b"0", "directory": b"5", "symlink": b"2"}
_HARD_LINK: Final = b"1"
_KEPT: Final = b"U"
_KEPT_SIZE: Final = b"COMPUTERD.size"
"""The daemon's own: see its page on files, "Files that are there already"."""
_PAX: Final = b"x"
_FIELD: Final = 100
"""Bytes of a name or link in the old header. What is longer, or not ASCII, is in a pax header."""


def pack(items: Iterable[Item], counted: Callable[[int], None]) -> Iterator[bytes]:
    """The archive, in pieces of about PIECE.

    Args:
        items: What it holds.
        counted: Told of the files' bytes as they are read.

    Raises:
        Failure: A file can't be read, or shrank meanwhile.
    """
    waiting = bytearray()
    twins: dict[tuple[int, int], str] = {}
    for item in items:
        if item.twin is not None and (first := twins.setdefault(item.twin, item.name)) != item.name:
            waiting += _header(item, 0, _HARD_LINK, first)
            counted(item.size)
        elif item.kept:
            waiting += _header(item, 0, _KEPT, "")
        elif item.kind != "file":
            waiting += _header(item, 0, _TYPES[item.kind], item.target or "")
        else:
            for data in _file(item):
                counted(len(data) if data.__class__ is bytes else 0)
                waiting += data
                if len(waiting) >= PIECE:
                    yield bytes(waiting)
                    waiting.clear()
        if len(waiting) >= PIECE:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting) + bytes(2 * BLOCK)


def _file(item: Item) -> Iterator[bytes | bytearray]:
    """Header and padding as bytearray, what was read as bytes."""
    try:
        # it may have become a link or a FIFO since it was looked at
        fd = os.open(item.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(item.path, error) from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise _changed(item)
        now = item._replace(size=found.st_size, mtime_ns=found.st_mtime_ns)
        yield bytearray(_header(now, now.size, _TYPES["file"], ""))
        left = now.size
        while left:
            data = os.read(fd, min(left, PIECE))
            if not data:
                raise _changed(item)
            left -= len(data)
            yield data
        yield bytearray(-now.size % BLOCK)
    except OSError as error:
        raise unreadable(item.path, error) from None
    finally:
        os.close(fd)


def _changed(item: Item) -> Failure:
    return Failure("unreadable", f"{visible(item.path)} changed while it was read. Nothing was sent whole; push again.")


def _header(item: Item, size: int, kind: bytes, link: str) -> bytes:
    name, target = os.fsencode(item.name + ("/" if item.kind == "directory" else "")), os.fsencode(link)
    seconds, fraction = divmod(item.mtime_ns, 1_000_000_000)
    records: list[tuple[bytes, bytes]] = []
    if len(name) > _FIELD or not name.isascii():
        records.append((b"path", name))
    if len(target) > _FIELD or not target.isascii():
        records.append((b"linkpath", target))
    if fraction or not 0 <= seconds < 8**11:
        records.append((b"mtime", _decimal(item.mtime_ns)))
        seconds = min(max(0, seconds), 8**11 - 1)
    extra = b""
    if item.kept:
        records.append((_KEPT_SIZE, b"%d" % item.size))
    if records:
        if not all(_is_utf8(value) for _, value in records):
            records.insert(0, (b"hdrcharset", b"BINARY"))
        body = b"".join([_record(key, value) for key, value in records])
        extra = _extended(len(body)) + body + bytes(-len(body) % BLOCK)
    return extra + _block(name, item.mode & 0o777, size, seconds, kind, target)


@functools.lru_cache(maxsize=64)
def _extended(size: int) -> bytes:
    """The header of an extended header: with a time only, it is the same for each file."""
    return _block(b"pax", 0o644, size, 0, _PAX, b"")


def _block(name: bytes, mode: int, size: int, seconds: int, kind: bytes, target: bytes) -> bytes:
    """One header of 512 bytes."""
    head = b"%s%07o\0%07o\0%07o\0%011o\0%011o\0        %s%s" % (
        _ascii(name),
        mode,
        0,
        0,
        size,
        seconds,
        kind,
        _ascii(target),
    )
    head += b"ustar\x0000"
    return b"%s%06o\0 %s" % (head[:148], sum(head), head[156:].ljust(BLOCK - 156, b"\0"))


def _ascii(name: bytes) -> bytes:
    """As far as it fits: readers that know pax take it from there."""
    return (name if name.isascii() else name.decode("ascii", "replace").encode("ascii", "replace"))[:_FIELD].ljust(
        _FIELD, b"\0"
    )


def _record(key: bytes, value: bytes) -> bytes:
    r"""`LENGTH key=value\n`, where the length counts itself."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def _decimal(nanoseconds: int) -> bytes:
    sign, value = (b"-", -nanoseconds) if nanoseconds < 0 else (b"", nanoseconds)
    return b"%s%d.%09d" % (sign, value // 1_000_000_000, value % 1_000_000_000)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
