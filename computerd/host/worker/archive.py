"""Reads the entries of a tar archive: ustar, pax, what GNU tar and older ones write. Pure.

It comes from anyone. Whatever is not said as these formats say it is `invalid_archive`, and nothing is read twice or kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from computerd.host.worker import sparse
from computerd.host.worker.failures import INVALID_ARCHIVE, Refused
from computerd.host.worker.paths import spell
from computerd.host.worker.tape import Tape
from computerd.host.worker.ustar import BLOCK, FILE, FOLDER, HARD_LINK, KEPT, KEPT_SIZE, SYMLINK, checksum

_MAX_HEADER: Final = 1 << 20
"""Bytes of a pax header or of a long name: a map of a sparse file may be in it."""
_MAX_BEFORE: Final = 8
"""Headers that may come before an entry to say more of it."""
_MAX_SECONDS: Final = 1 << 40
_RECORD: Final = re.compile(rb"(\d{1,7}) ([^=\n]+)=")
_NEWLINE: Final = 0x0A
_POINT: Final = 0x2E
_ENDS: Final = (b"\0", b" ")
"""Of a number. Some old tars leave it out where the digits fill the field."""
_ZEROS: Final = bytes(BLOCK)
_FILES: Final = (b"0", b"\0", b"7")
_OTHERS: Final = (HARD_LINK, SYMLINK, FOLDER, KEPT)
_GNU_SPARSE: Final = b"S"
_PAX: Final = (b"x", b"X")
_KNOWN: Final = frozenset((b"path", b"linkpath", b"size", b"mtime", KEPT_SIZE, *sparse.KEYS))
"""Of pax headers; what else they say is of owners, access lists and other times."""
_NEVER: Final = {b"3": "a device", b"4": "a device", b"6": "a FIFO", b"M": "a part of a file"}

Records = dict[bytes, bytes]


class Entry:
    """What an archive holds.

    Attributes:
        name: As it is written.
        kind: FILE, HARD_LINK, SYMLINK, FOLDER or KEPT of `ustar`.
        size: Bytes of the file when it is there.
        stored: Bytes of it in the archive.
        segments: Where they go, when the file has holes.
        link: What a link says.
    """

    __slots__ = ("kind", "link", "mode", "mtime_ns", "name", "segments", "size", "stored")

    def __init__(self, name: bytes, kind: bytes, mode: int, mtime_ns: int, size: int, link: bytes) -> None:
        self.name = name
        self.kind = kind
        self.mode = mode
        self.mtime_ns = mtime_ns
        self.size = size
        self.stored = size
        self.segments: list[tuple[int, int]] | None = None
        self.link = link


def entries(tape: Tape) -> Iterator[Entry]:
    """The entries, to the end of the tape. Of each, all that is stored must be taken from the tape before the next.

    Raises:
        Refused: `invalid_archive`.
    """
    everywhere: Records = {}
    records: Records = {}
    before = 0
    while (block := tape.take(BLOCK)) != _ZEROS:
        _check_sum(block)
        kind = block[156:157]
        before += 1
        if before > _MAX_BEFORE:
            raise invalid("It has too many headers before an entry.")
        if kind in _PAX:
            records.update(_pax(_body(tape, block)))
        elif kind == b"g":
            everywhere.update(_pax(_body(tape, block)))
        elif kind in (b"L", b"K"):
            records[b"path" if kind == b"L" else b"linkpath"] = _body(tape, block).partition(b"\0")[0]
        elif kind == b"V":
            tape.skip(_filled(_number(block[124:136])))
        else:
            entry = _entry(tape, block, kind, {**everywhere, **records} if everywhere else records)
            yield entry
            tape.skip(-entry.stored % BLOCK)
            records, before = {}, 0
    if records or tape.take(BLOCK) != _ZEROS:
        raise invalid("It does not end as an archive does.")
    for piece in tape.rest():
        if piece.count(0) != len(piece):
            raise invalid("Something comes after its end.")


def invalid(message: str) -> Refused:
    """An archive that can't be."""
    return Refused(INVALID_ARCHIVE, message)


def shown(name: bytes) -> str:
    """A name in a message."""
    text = spell(name)[0]
    return f"`{text}`" if len(text) <= 200 else f"`{text[:90]}…{text[-90:]}`"


def _entry(tape: Tape, block: bytes, kind: bytes, records: Records) -> Entry:
    if b"" in records.values():
        records = {key: value for key, value in records.items() if value}  # an empty value takes one back
    name = records.get(sparse.NAME) or records.get(b"path") or _name(block)
    sparse_block = None
    if kind in _FILES or kind == _GNU_SPARSE:
        sparse_block = block if kind == _GNU_SPARSE else None
        kind = FOLDER if name[-1:] == b"/" else FILE
    elif kind not in _OTHERS:
        raise invalid(f"{shown(name)} is {_NEVER.get(kind, 'of a type that is not known')}.")
    size = 0
    if kind == FILE:
        size = _decimal(records[b"size"]) if b"size" in records else _number(block[124:136])
        if size < 0:
            raise invalid(f"{shown(name)} has a size below zero.")
    link = b"" if kind in (FILE, KEPT) else records.get(b"linkpath") or block[157:257].partition(b"\0")[0]
    entry = Entry(name, kind, _number(block[100:108]) & 0o7777, _mtime(block, records), size, link)
    if kind == FILE and (sparse_block is not None or sparse.is_said(records)):
        _sparse(tape, entry, sparse_block, records)
    if kind == KEPT:
        entry.size = _decimal(records.get(KEPT_SIZE, b""))
    return entry


def _sparse(tape: Tape, entry: Entry, block: bytes | None, records: Records) -> None:
    """Makes it an entry with holes."""
    try:
        if block is not None:
            entry.size, entry.segments = sparse.gnu(tape, block)
        else:
            entry.size, entry.segments, used = sparse.pax(tape, records, entry.stored)
            entry.stored -= used
        sparse.check(entry.size, entry.segments, entry.stored)
    except ValueError:
        raise invalid(f"{shown(entry.name)} has a map of holes that can't be.") from None


def _name(block: bytes) -> bytes:
    name = block[:100].partition(b"\0")[0]
    if block[257:263] == b"ustar\0" and block[345]:
        return block[345:500].partition(b"\0")[0] + b"/" + name
    return name


def _check_sum(block: bytes) -> None:
    """Raises Refused. Some old tars added the bytes as signed numbers."""
    said = _sum_said(block[148:156])
    found = checksum(block)
    if found != said and said != found - 256 * sum(byte > 127 for byte in block):
        raise invalid("A header in it is damaged, or it is no tar archive.")


@lru_cache(maxsize=4096)
def _sum_said(field: bytes) -> int:
    try:
        return _number(field)
    except Refused:
        return -1


@lru_cache(maxsize=1024)  # mostly the same few
def _number(data: bytes) -> int:
    """A number of a header: octal, or, as GNU writes large ones, binary."""
    if data[0] & 0x80:
        negative = data[0] & 0x40
        return (
            int.from_bytes(data, "big", signed=True)
            if negative
            else int.from_bytes(bytes([data[0] & 0x7F]) + data[1:], "big")
        )
    text = data[:-1] if data[-1:] in _ENDS else data
    if not text.isdigit():
        text = data.partition(b"\0")[0].strip(b" ")
        if not text:
            return 0
    try:
        return int(text if text.isdigit() else b"none", 8)
    except ValueError:
        raise invalid("A number in it is none.") from None


def _decimal(data: bytes) -> int:
    if not data.isdigit() or len(data) > 20:
        raise invalid("A number in it is none.")
    return int(data)


def _mtime(block: bytes, records: Records) -> int:
    """Nanoseconds since the epoch."""
    text = records.get(b"mtime")
    if text is None:
        seconds, nanoseconds = _number(block[136:148]), 0
    else:
        if len(text) == 20 and text[10] == _POINT and (digits := text[:10] + text[11:]).isdigit():
            return int(digits)  # as nearly all are
        whole, _, fraction = text.removeprefix(b"-").partition(b".")
        if fraction and not fraction.isdigit():
            raise invalid("A time in it is none.")
        seconds, nanoseconds = _decimal(whole), int((fraction + b"000000000")[:9])
    if abs(seconds) > _MAX_SECONDS:
        raise invalid("A time in it is too far away.")
    whole_ns = seconds * 1_000_000_000 + nanoseconds
    return -whole_ns if text is not None and text.startswith(b"-") else whole_ns


def _filled(size: int) -> int:
    """Bytes with what fills up the last block."""
    if not 0 <= size <= _MAX_HEADER:
        raise invalid("A header in it is too large.")
    return size + -size % BLOCK


def _body(tape: Tape, block: bytes) -> bytes:
    """What a header that says more of the next entry holds."""
    size = _number(block[124:136])
    return tape.take(BLOCK if 0 < size <= BLOCK else _filled(size))[:size]


def _pax(body: bytes) -> Records:
    """The records of a pax header that concern us."""
    found: Records = {}
    pairs: list[bytes] = []
    at = 0
    while at < len(body):
        said = _RECORD.match(body, at)
        end = at + int(said[1]) if said else at
        if said is None or end <= said.end() or end > len(body) or body[end - 1] != _NEWLINE:
            raise invalid("A pax header in it is damaged.")
        key = said[2]
        if key in _KNOWN:
            found[key] = body[said.end() : end - 1]
        elif key in sparse.PAIRS:
            pairs.append(body[said.end() : end - 1])
        at = end
    if pairs:
        found[sparse.MAP] = b",".join(pairs)
    return found
