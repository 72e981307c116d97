"""The bytes of an archive on their way to the daemon: collected into pieces that are worth a system call, and compressed."""

from __future__ import annotations

import os
from typing import Final

from computerd.host.worker.coding import Encoder
from computerd.host.worker.failures import UNAVAILABLE, Refused
from computerd.host.worker.paths import spell
from computerd.host.worker.request import Request

_BATCH: Final = 262_144


class Output:
    """One archive's."""

    def __init__(self, request: Request, encoder: Encoder) -> None:
        self._request = request
        self._encoder = encoder
        self._held: list[bytes] = []
        self._room = memoryview(bytearray(_BATCH))
        self._size = 0

    def copy(self, file: int, start: int, length: int, path: bytes) -> None:
        """Writes what a file holds, so many bytes of it whatever becomes of it.

        Raises:
            Refused: They are no longer there.
            OSError: They can't be read.
        """
        end = start + length
        while start < end:
            piece = self._room[: end - start]
            size = os.preadv(file, [piece], start)
            if not size:
                raise Refused(UNAVAILABLE, f"`{spell(path)[0]}` became shorter while it was read.")
            if size == _BATCH:  # without a copy
                self._flush()
                self._request.write(self._encoder.compress(piece))
            else:
                self.write(bytes(piece[:size]))
            start += size

    def write(self, data: bytes) -> None:
        """Writes a little."""
        self._held.append(data)
        self._size += len(data)
        if self._size >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._held)
        self._held.clear()
        self._size = 0
        self._request.write(self._encoder.compress(data))

    def end(self) -> None:
        """That was all."""
        self._flush()
        self._request.write(self._encoder.flush())
