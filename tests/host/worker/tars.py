"""Tar archives written by hand: right ones, and wrong ones that no tar would write."""

from __future__ import annotations

import time
from typing import Final

END: Final = bytes(1024)
NOW: Final = int(time.time())


def header(
    name: bytes = b"file",
    kind: bytes = b"0",
    *,
    size: int | bytes = 0,
    mode: int = 0o644,
    link: bytes = b"",
    mtime: int | bytes = NOW,
    magic: bytes = b"ustar\x0000",
    prefix: bytes = b"",
    rest: bytes = b"",
) -> bytes:
    """A header. Numbers that are given as bytes stand there as they are; `rest` replaces what follows the magic number."""

    def number(value: int | bytes) -> bytes:
        return value.ljust(12, b"\0") if isinstance(value, bytes) else b"%011o\0" % value

    after = rest or bytes(64) + bytes(16) + prefix.ljust(155, b"\0")
    first = name.ljust(100, b"\0") + b"%07o\0" % mode + b"0000000\0" * 2 + number(size) + number(mtime)
    last = kind + link.ljust(100, b"\0") + magic + after
    block = (first + b" " * 8 + last).ljust(512, b"\0")
    assert len(block) == 512
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def filled(data: bytes) -> bytes:
    """Data, filled up to a block."""
    return data + bytes(-len(data) % 512)


def file(name: bytes, data: bytes = b"", mode: int = 0o644) -> bytes:
    """A file."""
    return header(name, size=len(data), mode=mode) + filled(data)


def folder(name: bytes, mode: int = 0o755) -> bytes:
    """A folder."""
    return header(name, b"5", mode=mode)


def symlink(name: bytes, target: bytes) -> bytes:
    """A symbolic link."""
    return header(name, b"2", link=target, mode=0o777)


def hard_link(name: bytes, target: bytes) -> bytes:
    """A hard link."""
    return header(name, b"1", link=target)


def kept(name: bytes, size: int, mtime: int, mode: int = 0o644) -> bytes:
    """A file that the folder has which is replaced."""
    return pax((b"COMPUTERD.size", b"%d" % size)) + header(name, b"U", mtime=mtime, mode=mode)


def pax(*records: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    """A pax header."""
    body = b""
    for key, value in records:
        length = len(key) + len(value) + 3
        while len(b"%d" % length) + len(key) + len(value) + 3 != length:
            length += 1
        body += b"%d %b=%b\n" % (length, key, value)
    return header(b"PaxHeaders/x", kind, size=len(body)) + filled(body)


def long_name(name: bytes, kind: bytes = b"L") -> bytes:
    """A GNU header of a long name."""
    return header(b"././@LongLink", kind, size=len(name) + 1, magic=b"ustar  \0") + filled(name + b"\0")
