"""Maps of sparse files, in the four forms of GNU tar (its manual, "Storing Sparse Files"). Pure.

A map is a list of `(offset, length)` in the file; what is stored are these segments one after another. All functions raise ValueError for a map
that can't be.
"""

from __future__ import annotations

from typing import Final

from computerd.host.worker.tape import Tape
from computerd.host.worker.ustar import BLOCK

MAX_SEGMENTS: Final = 100_000
_MAX_DIGITS: Final = 20

NAME: Final = b"GNU.sparse.name"
MAP: Final = b"GNU.sparse.map"
"""Format 0.1: `offset,length,offset,length`."""
PAIRS: Final = (b"GNU.sparse.offset", b"GNU.sparse.numbytes")
"""Format 0.0: many records of the same two keys, which become a MAP."""
_MAJOR: Final = b"GNU.sparse.major"
_MINOR: Final = b"GNU.sparse.minor"
_SIZE: Final = b"GNU.sparse.size"
_REAL_SIZE: Final = b"GNU.sparse.realsize"
_SAYING: Final = (MAP, _MAJOR, _SIZE)
KEYS: Final = (NAME, MAP, _MAJOR, _MINOR, _SIZE, _REAL_SIZE)

Segments = list[tuple[int, int]]


def is_said(records: dict[bytes, bytes]) -> bool:
    """Whether pax records say that a file is sparse."""
    return not records.keys().isdisjoint(_SAYING)


def pax(tape: Tape, records: dict[bytes, bytes], stored: int) -> tuple[int, Segments, int]:
    """The size of the file, its map, and how many bytes of what is stored were the map."""
    size = _decimal(records.get(_REAL_SIZE) or records.get(_SIZE, b""))
    if _MAJOR not in records:
        text = records.get(MAP)
        return size, _pairs([_decimal(number) for number in text.split(b",")] if text else []), 0
    if (records[_MAJOR], records.get(_MINOR)) != (b"1", b"0"):
        raise ValueError("a format that is not known")
    found, used = _map_in_data(tape, stored)
    return size, found, used


def gnu(tape: Tape, block: bytes) -> tuple[int, Segments]:
    """The size of the file and its map, in a header of GNU's own type S and the blocks that may follow it."""
    found: Segments = _of_header(block[386:482])
    more = block[482]
    while more:
        following = tape.take(BLOCK)
        found += _of_header(following[:504])
        more = following[504]
        if len(found) > MAX_SEGMENTS:
            raise ValueError("too many segments")
    return _octal(block[483:495]), found


def check(size: int, segments: Segments, stored: int) -> None:
    """Whether the segments follow one another within the file, and are what is stored."""
    at = 0
    for offset, length in segments:
        if offset < at or length < 0:
            raise ValueError("segments that overlap")
        at = offset + length
    if at > size or sum(length for _, length in segments) != stored:
        raise ValueError("segments that are not what is stored")


def _map_in_data(tape: Tape, stored: int) -> tuple[Segments, int]:
    """Format 1.0: lines of decimal numbers before the data, filled up to a block; the first says how many pairs follow."""
    numbers: list[int] = []
    wanted, used, rest = 1, 0, b""
    while len(numbers) < wanted:
        used += BLOCK
        if used > stored:
            raise ValueError("a map that is larger than what is stored")
        *lines, rest = (rest + tape.take(BLOCK)).split(b"\n")
        for line in lines:
            if len(numbers) < wanted:
                numbers.append(_decimal(line))
                wanted = 1 + 2 * numbers[0]
        if len(rest) > _MAX_DIGITS and len(numbers) < wanted:
            raise ValueError("a number without an end")
        if wanted > 1 + 2 * MAX_SEGMENTS:
            raise ValueError("too many segments")
    return _pairs(numbers[1:]), used


def _of_header(data: bytes) -> Segments:
    """Pairs of octal numbers of 12 bytes, up to an empty one."""
    found = []
    for at in range(0, len(data), 24):
        if data[at] == 0:
            break
        found.append((_octal(data[at : at + 12]), _octal(data[at + 12 : at + 24])))
    return found


def _pairs(numbers: list[int]) -> Segments:
    if len(numbers) % 2 or len(numbers) > 2 * MAX_SEGMENTS:
        raise ValueError("a map of half a pair, or too many")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _octal(data: bytes) -> int:
    if data[0] == 0x80:
        return int.from_bytes(data[1:], "big")
    text = data.partition(b"\0")[0].strip(b" ")
    if not text.isdigit():
        raise ValueError("no number")
    return int(text, 8)


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > _MAX_DIGITS:
        raise ValueError("no number")
    return int(text)
