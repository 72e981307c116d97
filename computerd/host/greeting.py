"""What a launcher says before the user's program speaks. Pure; see `launcher` for the form."""

from __future__ import annotations

from typing import Final

from attrs import define, field, frozen

_MAX_NOISE: Final = 64 * 1024
"""Bytes that may precede the launcher's word: a process of the user may already write to the same terminal."""
_MAX_FAILURE: Final = 64
"""Bytes of a stage, a space, an errno and a line end."""


@frozen
class Ready:
    """The program runs as the user, in the folder. `rest` is the first of its output."""

    rest: bytes


@frozen
class Failed:
    """The launcher gave up at `stage`, with errno `number` or 0."""

    stage: str
    number: int


@define
class Greeting:
    """Waits for the launcher's word among the first bytes of its descriptor 1."""

    nonce: bytes
    _seen: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> Ready | Failed | None:
        """Takes what was read; None means that the word has not come yet."""
        self._seen += data
        mark = b"\0" + self.nonce
        at = self._seen.find(mark)
        if at < 0:
            self._seen = self._seen[-len(mark) :] if len(self._seen) > _MAX_NOISE else self._seen
            return None
        rest = self._seen[at + len(mark) :]
        if rest[:1] == b".":
            return Ready(rest[1:])
        line, end, _ = rest[1:].partition(b"\n")
        if not end and len(line) < _MAX_FAILURE:
            return None
        stage, _, number = line.decode("ascii", "replace").rstrip("\r").partition(" ")
        return Failed(stage, int(number) if number.isdigit() else 0)
