"""An archive as it comes in: bytes that are read once, from front to back."""

from __future__ import annotations

from collections.abc import Iterator

from computerd.host.worker.failures import INVALID_ARCHIVE, TOO_LARGE, Refused


class Tape:
    """Bytes, as many as `limit`."""

    def __init__(self, pieces: Iterator[bytes], limit: int) -> None:
        self._pieces = pieces
        self._left = limit
        self._piece = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        """The next bytes. Raises Refused at the end of the tape."""
        end = self._at + size
        if end <= len(self._piece):
            found = self._piece[self._at : end]
            self._at = end
            return found
        return b"".join(self.pieces(size))

    def pieces(self, size: int) -> Iterator[memoryview]:
        """The next bytes, as they come. Raises Refused at the end of the tape."""
        while size:
            if self._at == len(self._piece) and not self._more():
                raise Refused(INVALID_ARCHIVE, "The archive is cut off.")
            found = memoryview(self._piece)[self._at : self._at + size]
            self._at += len(found)
            size -= len(found)
            yield found

    def skip(self, size: int) -> None:
        """Leaves bytes out."""
        if self._at + size <= len(self._piece):
            self._at += size
            return
        for _ in self.pieces(size):
            pass

    def rest(self) -> Iterator[bytes]:
        """What is left, as it comes."""
        while self._at < len(self._piece) or self._more():
            found = self._piece[self._at :]
            self._at = len(self._piece)
            yield found

    def _more(self) -> bool:
        piece = next(self._pieces, b"")
        self._left -= len(piece)
        if self._left < 0:
            raise Refused(TOO_LARGE, "The archive is larger than what it may hold could make it.")
        self._piece = piece
        self._at = 0
        return bool(piece)
