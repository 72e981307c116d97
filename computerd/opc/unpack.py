"""Reads a pax archive as it comes (POSIX.1-2024, pax). It was made by somebody who may mean harm, so every number is checked before it is used.

Python's own tarfile would do, but for its speed with many small files, and for hosts whose Python lacks its fixes of 2025
(CVE-2025-8194: a negative offset makes it loop for ever).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple
from zlib import adler32

from computerd.contract import limits
from computerd.opc.failure import Failure
from computerd.opc.plain import shortened, visible

BLOCK: Final = 512
MAX_PAX: Final = 1024 * 1024
"""Bytes of one extended header."""
MAX_BEFORE: Final = 8
"""Headers that may come before an entry to say more of it."""
MAX_END: Final = 1024 * 1024
"""Zeros that may follow the end, which fill up a record: 10 KiB as tar writes them, more with its --blocking-factor."""
_KINDS: Final = {b"0": "file", b"\0": "file", b"7": "file", b"5": "directory", b"2": "symlink", b"1": "hardlink"}
_LONG: Final = {b"L": "path", b"K": "linkpath"}
"""What GNU tar has for long names in its own format."""


_KNOWN: Final = frozenset(
    (
        b"path",
        b"linkpath",
        b"size",
        b"mtime",
        b"GNU.sparse.major",
        b"GNU.sparse.minor",
        b"GNU.sparse.name",
        b"GNU.sparse.realsize",
        b"GNU.sparse.size",
    )
)
"""Keys of extended headers that are kept, so that there is an end to them. The last one tells GNU's older formats of sparse files."""


class Member(NamedTuple):
    """What the archive holds next.

    Attributes:
        name: As it is there.
        kind: `file`, `directory`, `symlink` or `hardlink`.
        size: Bytes of the file.
        target: Of a link.
        holes: The parts of a sparse file that have data, each with its place and length; None: all of it.
        stored: Bytes that follow in the archive.
    """

    name: str
    kind: str
    size: int
    mode: int
    mtime_ns: int
    target: str
    holes: list[tuple[int, int]] | None
    stored: int


def invalid(why: str) -> Failure:
    """The archive is none that can be taken."""
    return Failure("invalid_archive", f"the archive can't be unpacked: {why}. Nothing was changed.")


class Archive:
    """The members of an archive, one after the other.

    Args:
        source: The archive, in pieces of which none is empty.
    """

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source = source
        self._buffer = b""
        self._place = 0
        self._left = 0
        self._padding = 0

    def __iter__(self) -> Iterator[Member]:
        """Each member. Its data is to be read, as far as it is wanted, before the next is asked for.

        Raises:
            Failure: It is damaged, cut, or holds what a workspace's archive can't.
        """
        general: dict[str, bytes] = {}
        pax: dict[str, bytes] = {}
        before = 0
        while True:
            for _ in self.data():
                pass
            self._exactly(self._padding)
            self._padding = 0
            block = self._exactly(BLOCK)
            if not block.strip(b"\0"):
                self._end()
                return
            before += 1
            if before > MAX_BEFORE:
                raise invalid("there are too many headers before an entry")
            kind, size = _checked(block), _number(block[124:136])
            if kind in (b"x", b"g"):
                (pax if kind == b"x" else general).update(_records(self._extension(size)))
            elif kind in _LONG:
                pax[_LONG[kind]] = self._extension(size).rstrip(b"\0")
            else:
                yield self._member(block, kind, size, general | pax)
                pax, before = {}, 0

    def data(self) -> Iterator[bytes]:
        """What is left of the current member's data."""
        while self._left:
            if self._place >= len(self._buffer):
                self._fill()
            piece = self._buffer[self._place : self._place + self._left]
            self._place += len(piece)
            self._left -= len(piece)
            yield piece

    def _end(self) -> None:
        """All of what comes after the end, which may be zeros."""
        count = 0
        for piece in chain((self._buffer[self._place :],), self._source):
            count += len(piece)
            if piece.count(0) != len(piece):
                raise invalid("something comes after its end")
            if count > MAX_END:
                raise invalid("too much comes after its end")

    def _member(self, block: bytes, kind: bytes, size: int, pax: dict[str, bytes]) -> Member:
        told = _KINDS.get(kind)
        name = pax.get("path") or _name(block)
        if told is None:
            raise invalid(f"{_shown(name)} is no file, folder or link")
        stored = _decimal(pax["size"]) if "size" in pax else size
        if told != "file":
            stored = 0
        if stored > limits.MAX_ARCHIVE_BYTES:
            raise invalid(f"{_shown(name)} is too large")
        mtime = _nanoseconds(pax["mtime"]) if "mtime" in pax else _number(block[136:148]) * 1_000_000_000
        target = pax.get("linkpath") or _text(block[157:257])
        self._left, self._padding = stored, -stored % BLOCK
        size, holes = stored, None
        if any(key.startswith("GNU.sparse.") for key in pax):
            name, size, holes = self._sparse(name, pax)
        return Member(
            os.fsdecode(name),
            "directory" if told == "file" and name.endswith(b"/") else told,
            size,
            _number(block[100:108]) & 0o777,
            mtime,
            os.fsdecode(target),
            holes,
            self._left,
        )

    def _sparse(self, name: bytes, pax: dict[str, bytes]) -> tuple[bytes, int, list[tuple[int, int]]]:
        """GNU's format 1.0 ("Storing Sparse Files" in tar's manual): a map in decimal numbers, one a line, before the data."""
        if pax.get("GNU.sparse.major") != b"1" or pax.get("GNU.sparse.minor") != b"0":
            raise invalid(f"{_shown(name)} is sparse in an old format")
        size = _decimal(pax.get("GNU.sparse.realsize", b""))
        before = self._left
        numbers = [self._map_number() for _ in range(2 * min(self._map_number(), limits.MAX_ARCHIVE_ENTRIES))]
        self._take(-(before - self._left) % BLOCK)
        holes = list(zip(numbers[::2], numbers[1::2], strict=True))
        end = 0
        for place, length in holes:
            if place < end or place + length > size:
                raise invalid(f"the map of {_shown(name)} makes no sense")
            end = place + length
        if sum(length for _, length in holes) != self._left or size > limits.MAX_ARCHIVE_BYTES:
            raise invalid(f"the map of {_shown(name)} makes no sense")
        return pax.get("GNU.sparse.name", name), size, holes

    def _map_number(self) -> int:
        digits = b""
        while (one := self._take(1)) != b"\n":
            digits += one
            if len(digits) > 20:
                raise invalid("the map of a sparse file has no numbers")
        return _decimal(digits)

    def _take(self, count: int) -> bytes:
        if count > self._left:
            raise invalid("the map of a sparse file is cut")
        self._left -= count
        return self._exactly(count)

    def _extension(self, size: int) -> bytes:
        if size > MAX_PAX:
            raise invalid("an extended header is too large")
        data = self._exactly(size)
        self._exactly(-size % BLOCK)
        return data

    def _exactly(self, count: int) -> bytes:
        data = self._buffer[self._place : self._place + count]
        self._place += len(data)
        while len(data) < count:
            self._fill()
            more = self._buffer[: count - len(data)]
            self._place = len(more)
            data += more
        return data

    def _fill(self) -> None:
        self._place = 0
        self._buffer = next(self._source, b"")
        if not self._buffer:
            raise invalid("it is cut")


def _checked(block: bytes) -> bytes:
    """The type in a header whose checksum is right."""
    # zlib's Adler-32 has in its lower half the sum of up to 256 bytes, and 1 (RFC 1950, section 8.2): sum() takes ten times as long
    total = (adler32(block[:256]) & 0xFFFF) + (adler32(block[256:]) & 0xFFFF) - 2
    if total - sum(block[148:156]) + 8 * 32 != _number(block[148:156]):
        raise invalid("a header is damaged")
    return block[156:157]


def _number(field: bytes) -> int:
    """An octal number; or GNU's binary one, which may not be negative here."""
    if field[0] & 0x80:
        if field[0] != 0x80:
            raise invalid("a number is negative")
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    try:
        value = int(digits or b"0", 8)
    except ValueError:
        value = -1
    if value < 0:
        raise invalid("a number is none")
    return value


def _decimal(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 18:
        raise invalid("a number is none")
    return int(digits)


def _nanoseconds(text: bytes) -> int:
    """A time, such as `1234.5` or `-0.25`."""
    sign = -1 if text.startswith(b"-") else 1
    whole, _, fraction = text.removeprefix(b"-").partition(b".")
    if len(whole) > 12 or len(fraction) > 100:
        raise invalid("a time is none")
    return sign * (_decimal(whole) * 1_000_000_000 + (_decimal(fraction[:9].ljust(9, b"0")) if fraction else 0))


def _records(data: bytes) -> dict[str, bytes]:
    r"""The records of an extended header that concern us: `LENGTH key=value\n`."""
    found: dict[str, bytes] = {}
    place = 0
    while place < len(data):
        blank = data.find(b" ", place, place + 20)
        length = _decimal(data[place:blank]) if blank > 0 else 0
        record = data[blank + 1 : place + length]
        key, equals, value = record.partition(b"=")
        if not equals or not record.endswith(b"\n") or place + length > len(data) or not key.isascii():
            raise invalid("an extended header is damaged")
        place += length
        if key not in _KNOWN:
            continue
        if value == b"\n":  # an empty value takes back what was said before
            found.pop(key.decode(), None)
        else:
            found[key.decode()] = value[:-1]
    return found


def _name(block: bytes) -> bytes:
    name, prefix = _text(block[:100]), _text(block[345:500]) if block[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _shown(name: bytes) -> str:
    return visible(shortened(os.fsdecode(name), 200))
