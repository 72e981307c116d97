"""What comes from a worker, cut into frames and checked. Pure.

    length (4 bytes, of what follows it) · request (4 bytes) · kind (1 byte) · payload, up to 64 KiB

All numbers are big-endian. Who sends data has a window for each request; who receives it gives more when he has dealt with what came.
`worker.frames` is the other side's, with the kinds and the numbers.
"""

from __future__ import annotations

import struct
from typing import Final

from attrs import define, field

from computerd.host.worker.frames import BUSY, DATA, END, FAILURE, HEAD, MAX_PAYLOAD, MORE, RESULT

_FROM_WORKER: Final = frozenset((RESULT, DATA, END, FAILURE, MORE, BUSY))
_AFTER_LENGTH: Final = 5
_COUNT: Final = struct.Struct(">I")


class Violation(Exception):
    """The worker has sent what it may not: it is to be killed. The message is for the log, and holds nothing of what was sent."""


def grant(size: int) -> bytes:
    """The payload of a frame of more room."""
    return _COUNT.pack(size)


def granted(payload: bytes) -> int:
    """What such a payload gives: at least 1.

    Raises:
        Violation: It is none.
    """
    if len(payload) != _COUNT.size:
        raise Violation("a window that is no number")
    (size,) = _COUNT.unpack(payload)
    if size == 0:
        raise Violation("a window of nothing")
    return int(size)


@define
class Frames:
    """Cuts what a worker sends into frames. It keeps no more than was fed and one frame."""

    _seen: bytearray = field(factory=bytearray, init=False)
    _at: int = field(default=0, init=False)

    def feed(self, data: bytes) -> None:
        """Takes what was read. All whole frames must have been taken before: see `next`."""
        del self._seen[: self._at]
        self._at = 0
        self._seen += data

    def next(self) -> tuple[int, bytes, bytes] | None:
        """Request, kind and payload of the next frame; None: it is not whole yet.

        Raises:
            Violation: It is no frame of a worker's.
        """
        start = self._at + HEAD.size
        if len(self._seen) < start:
            return None
        length, request, kind = HEAD.unpack_from(self._seen, self._at)
        size = length - _AFTER_LENGTH
        if not 0 <= size <= MAX_PAYLOAD:
            raise Violation(f"a frame of {length} bytes")
        if kind not in _FROM_WORKER:
            raise Violation("a frame of no kind")
        if len(self._seen) < start + size:
            return None
        self._at = start + size
        return request, kind, bytes(memoryview(self._seen)[start : self._at])
