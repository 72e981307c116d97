"""Where the frames of a zstd stream end (RFC 8878, section 3.1): whether it was cut. It does not look into what they hold. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_SKIPPED: Final = b"\x2a\x4d\x18"
"""A skippable frame's magic number, after its first byte."""
_DICTIONARY: Final = (0, 1, 2, 4)
"""Bytes of the dictionary's number, by the descriptor's lowest two bits."""
_SIZE: Final = (0, 2, 4, 8)
"""Bytes of the content's size, by its highest two; for the first, one byte if the frame has a single segment."""
_REPEATED: Final = 1
"""A block that is one byte, many times."""

Next = tuple[int, Callable[[bytes], "Next"]]
"""How many bytes are wanted, and who says by them what comes after."""


class Frames:
    """Follows a stream."""

    def __init__(self) -> None:
        self._left = 0
        self._head = b""
        self._checked = False
        self._next: Next = (4, self._frame)

    @property
    def whole(self) -> bool:
        """Whether what was fed ends with a frame, or is nothing."""
        return self._left == 0 and not self._head and self._next[1] == self._frame

    def feed(self, data: bytes) -> None:
        """Takes the next bytes. What is no zstd may be taken for anything: who decodes it says so."""
        at = 0
        while at < len(data):
            if self._left:
                size = min(self._left, len(data) - at)
                self._left -= size
                at += size
                continue
            wanted, then = self._next
            piece = data[at : at + wanted - len(self._head)]
            at += len(piece)
            self._head += piece
            if len(self._head) == wanted:
                head, self._head = self._head, b""
                self._next = then(head)

    def _frame(self, magic: bytes) -> Next:
        if magic[1:] == _SKIPPED:
            return 4, self._skipped
        return 1, self._descriptor

    def _skipped(self, size: bytes) -> Next:
        self._left = int.from_bytes(size, "little")
        return 4, self._frame

    def _descriptor(self, one: bytes) -> Next:
        descriptor = one[0]
        single = bool(descriptor & 0x20)
        self._checked = bool(descriptor & 0x04)
        size = _SIZE[descriptor >> 6] or int(single)
        self._left = (0 if single else 1) + _DICTIONARY[descriptor & 3] + size
        return 3, self._block

    def _block(self, head: bytes) -> Next:
        number = int.from_bytes(head, "little")
        self._left = 1 if number >> 1 & 3 == _REPEATED else number >> 3
        if not number & 1:
            return 3, self._block
        if self._checked:
            self._left += 4
        return 4, self._frame
