"""Frames between the daemon and a worker: `length, request, kind, payload`, where length counts what follows itself. Pure."""

from __future__ import annotations

import struct
from typing import Final

HEAD: Final = struct.Struct(">IIc")
MAX_PAYLOAD: Final = 65_536
"""Bytes of a frame's payload, but for the first one."""
MAX_BOOT: Final = 1 << 20
WINDOW: Final = 262_144
"""Bytes of data that a request may have on its way in one direction, until the other side says W."""

BOOT: Final = b"B"
CALL: Final = b"C"
DATA: Final = b"D"
END: Final = b"E"
CANCEL: Final = b"X"
MORE: Final = b"W"
RESULT: Final = b"R"
FAILURE: Final = b"F"
BUSY: Final = b"P"
"""From a worker: the request is not forgotten, it only takes its time."""


class Malformed(Exception):
    """What came is no frame."""


def encode(request: int, kind: bytes, payload: bytes = b"") -> bytes:
    """A frame."""
    return HEAD.pack(5 + len(payload), request, kind) + payload


class Decoder:
    """Cuts what was read into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes | memoryview) -> list[tuple[int, bytes, bytes]]:
        """Takes what was read; returns `(request, kind, payload)` of each frame that is whole.

        Raises:
            Malformed: A length can't be.
        """
        self._data += data
        found: list[tuple[int, bytes, bytes]] = []
        at = 0
        with memoryview(self._data) as view:
            while len(view) - at >= HEAD.size:
                length, request, kind = HEAD.unpack_from(view, at)
                if not 5 <= length <= 5 + MAX_PAYLOAD:
                    raise Malformed(f"a length of {length}")
                end = at + 4 + length
                if end > len(view):
                    break
                found.append((request, kind, bytes(view[at + HEAD.size : end])))
                at = end
        del self._data[:at]
        return found
