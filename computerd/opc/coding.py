"""Compression of a stream on its way (RFC 9110, section 8.4.1): gzip, which every daemon and every proxy knows."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from computerd.opc.exchange import PIECE
from computerd.opc.failure import Failure
from computerd.opc.plain import shortened

GZIP: Final = "gzip"
_WRAPPED: Final = 31
"""zlib's name for the gzip format with the largest window."""
_MAGIC: Final = {b"\x1f\x8b": GZIP, b"\x28\xb5\x2f\xfd": "zstd"}
"""How what is compressed begins (RFC 1952, RFC 8878)."""


def compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same, in gzip."""
    packer = zlib.compressobj(6, zlib.DEFLATED, _WRAPPED)
    for piece in pieces:
        if data := packer.compress(piece):
            yield data
    yield packer.flush()


def expanded(pieces: Iterable[bytes], coding: str | None, *, asked: bool) -> Iterator[bytes]:
    """The same, in clear, in pieces of at most PIECE whatever it expands to, and none of them empty.

    Args:
        pieces: What the daemon sends.
        coding: What it says of them.
        asked: Whether gzip was asked for.

    Raises:
        Failure: It is damaged or cut, or in a coding that was not asked for.
    """
    if coding in (None, "", "identity"):
        yield from pieces
        return
    if coding != GZIP or not asked:
        name = repr(shortened(coding, 50))
        raise Failure("invalid_answer", f"the daemon answered in the coding {name}, which was not asked for.")
    unpacker = zlib.decompressobj(_WRAPPED)
    try:
        for piece in pieces:
            rest = piece
            while rest and not unpacker.eof:
                if data := unpacker.decompress(rest, PIECE):
                    yield data
                rest = unpacker.unconsumed_tail
            if unpacker.eof and (rest or unpacker.unused_data):
                raise Failure("invalid_answer", "something comes after the end of what the daemon sent.")
        if data := unpacker.flush():
            yield data
    except zlib.error as error:
        raise Failure("invalid_answer", f"what the daemon sent can't be expanded: {error}.") from None
    if not unpacker.eof:
        raise Failure("invalid_answer", "what the daemon sent is cut.")


def sniffed(start: bytes) -> str | None:
    """The coding of what begins so; None: none that is known."""
    return next((coding for magic, coding in _MAGIC.items() if start.startswith(magic)), None)
