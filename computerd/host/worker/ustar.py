"""The blocks of a tar archive, as POSIX calls it pax interchange format (IEEE Std 1003.1, pax). Pure.

A header of 512 bytes, and what it describes filled up to blocks of 512; before it, where ustar can't say it, a header of type `x` with records
`length key=value` for the entry that follows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

BLOCK: Final = 512
END: Final = bytes(2 * BLOCK)
"""What an archive ends with."""
FILE: Final = b"0"
HARD_LINK: Final = b"1"
SYMLINK: Final = b"2"
FOLDER: Final = b"5"
KEPT: Final = b"U"
"""Ours, from those that POSIX leaves to us: a file that the folder has already which is replaced. It has no content here, and KEPT_SIZE."""
KEPT_SIZE: Final = b"COMPUTERD.size"
PAX: Final = b"x"

NAME_BYTES: Final = 100
_MAX_OCTAL: Final = 8**11 - 1
_OWNER: Final = b"0000000\0" * 2
"""Nobody's numbers and names: who unpacks it, owns it."""
_TAIL: Final = b"ustar\00000" + bytes(64) + b"0000000\0" * 2 + bytes(155 + 12)
_PAX_NAME: Final = b"PaxHeaders/x".ljust(NAME_BYTES, b"\0")
_pax_headers: dict[int, bytes] = {}


def padding(size: int) -> bytes:
    """What fills up the last block."""
    return bytes(-size % BLOCK)


def checksum(block: bytes) -> int:
    """The sum of its bytes, where those of the sum itself count as spaces.

    Adler-32 adds bytes too, many times faster than a loop: its lower half is 1 more than the sum, modulo 65,521, which half a block can't reach.
    """
    return (zlib.adler32(block[:256]) & 0xFFFF) + (zlib.adler32(block[256:]) & 0xFFFF) - 2 - _own(block[148:156])


@lru_cache(maxsize=4096)
def _own(field: bytes) -> int:
    return sum(field) - 8 * 0x20


def header(name: bytes, kind: bytes, mode: int, size: int, mtime: int, link: bytes = b"") -> bytes:
    """A header. What is too long for it is cut; see `records`."""
    time = mtime if 0 <= mtime <= _MAX_OCTAL else 0
    first = b"%b%07o\0%b%011o\0%011o\0" % (
        name[:NAME_BYTES].ljust(NAME_BYTES, b"\0"),
        mode,
        _OWNER,
        min(size, _MAX_OCTAL),
        time,
    )
    last, total = _plain(kind) if not link else _last(kind, link)
    return b"%b%06o\0 %b" % (first, total + (zlib.adler32(first) & 0xFFFF), last)


@lru_cache(maxsize=8)
def _plain(kind: bytes) -> tuple[bytes, int]:
    return _last(kind, b"")


def _last(kind: bytes, link: bytes) -> tuple[bytes, int]:
    """What comes after the sum in a header, and what it and the spaces add to the sum, and to the 1 of Adler-32."""
    last = kind + link[:NAME_BYTES].ljust(NAME_BYTES, b"\0") + _TAIL
    return last, (zlib.adler32(last) & 0xFFFF) - 2 + 8 * 0x20


def record(key: bytes, value: bytes) -> bytes:
    """A record of a pax header, which begins with its own length."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    if len(str(length)) > len(str(rest)):
        length += 1
    return b"%d %b=%b\n" % (length, key, value)


def pax(records: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A header of type x with its records."""
    body = b"".join([record(key, value) for key, value in records])
    head = _pax_headers.get(len(body))
    if head is None:
        head = header(_PAX_NAME, PAX, 0o644, len(body), 0)
        if len(body) < BLOCK:
            _pax_headers[len(body)] = head
    return head + body + padding(len(body))


def file_header(name: bytes, mode: int, size: int, mtime_ns: int) -> bytes:
    """All headers of a regular file: what `records` and `header` say, as fast as may be, as there are many of them."""
    seconds, fraction = divmod(mtime_ns, 1_000_000_000)
    if len(name) > NAME_BYTES or not name.isascii() or not _TEN_DIGITS <= seconds < 10 * _TEN_DIGITS:
        said = records(name, mtime_ns)
        return (pax(said) if said else b"") + header(name, FILE, mode, size, seconds)
    time = b"%b30 mtime=%d.%09d\n%b" % (_TIME_HEADER, seconds, fraction, _TIME_PADDING) if fraction else b""
    return time + header(name, FILE, mode, size, seconds)


def records(name: bytes, mtime_ns: int, link: bytes = b"") -> list[tuple[bytes, bytes]]:
    """What ustar can't say of an entry."""
    found = []
    seconds, fraction = divmod(mtime_ns, 1_000_000_000)
    if fraction or not 0 <= seconds <= _MAX_OCTAL:
        found.append((b"mtime", decimal(mtime_ns)))
    if len(name) > NAME_BYTES or not name.isascii():
        found.append((b"path", name))
    if len(link) > NAME_BYTES or not link.isascii():
        found.append((b"linkpath", link))
    if not (_is_utf8(name) and _is_utf8(link)):
        found.insert(0, (b"hdrcharset", b"BINARY"))
    return found


def decimal(nanoseconds: int) -> bytes:
    """Seconds with a fraction, as pax writes times."""
    seconds, fraction = divmod(abs(nanoseconds), 1_000_000_000)
    text = b"%d.%09d" % (seconds, fraction) if fraction else b"%d" % seconds
    return (b"-" if nanoseconds < 0 else b"") + (text.rstrip(b"0") if fraction else text)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_TEN_DIGITS: Final = 1_000_000_000
_TIME_HEADER: Final = header(_PAX_NAME, PAX, 0o644, 30, 0)
_TIME_PADDING: Final = padding(30)
