"""A client's frame in bytes, as far as the fast way in needs it: whole, final, masked, under 64 KiB (RFC 6455, section 5.2)."""

# mypy: disallow-untyped-calls=False

from __future__ import annotations

from struct import Struct
from typing import Final

from autobahn.websocket import xormasker

TEXT: Final = 0x81
BINARY: Final = 0x82
"""The first byte of a final frame with that opcode."""
SHORTEST: Final = 10
"""Bytes of a binary frame that carries a channel and no data: head, mask and channel."""
REPEATED: Final = [sum(1 << 32 * i for i in range(n)) for n in range(33)]
"""Multiplied by a mask, as a number: the mask n times."""
short_head: Final = Struct(">BBII").unpack_from
"""First byte, length, mask, and the channel, still masked, of a binary frame of under 126 bytes."""

_length: Final = Struct(">H").unpack_from
_SHORT_HEAD: Final = 6
_LONG_HEAD: Final = 8
_NATIVE_FROM: Final = 2000
"""Bytes from which Autobahn's native masker, which takes 8 µs to set up, is faster than one operation on big integers (measured)."""


def frame_end(data: bytes, at: int) -> int:
    """Where the frame that begins at `at` ends, maybe beyond `data`; 0 when it is Autobahn's. Needs `SHORTEST` bytes to look at."""
    first, length = data[at], data[at + 1]
    if first not in (BINARY, TEXT) or length < 128 or length == 255:
        return 0
    if length < 254:
        size = length - 128
        # a binary frame without a channel is refused where all frames are
        return 0 if size < 4 and first == BINARY else at + _SHORT_HEAD + size
    size = _length(data, at + 2)[0]
    # the longer form for a short length is a violation
    return 0 if size < 126 else at + _LONG_HEAD + size


def payload_of(data: bytes, at: int, stop: int) -> bytes:
    """The payload of the frame at `data[at:stop]`."""
    return unmask(data, at + (_SHORT_HEAD if data[at + 1] < 254 else _LONG_HEAD), stop)


def unmask(data: bytes, start: int, stop: int) -> bytes:
    """The payload at `data[start:stop]`, whose mask stands in front of it (RFC 6455, section 5.3)."""
    size = stop - start
    mask = data[start - 4 : start]
    if size >= _NATIVE_FROM:
        payload: bytes = xormasker.create_xor_masker(mask, size).process(data[start:stop])  # type: ignore[attr-defined]  # native or not, chosen when it is imported
        return payload
    key = (mask * (size + 3 >> 2))[:size]
    return (int.from_bytes(data[start:stop], "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
