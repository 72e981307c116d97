"""The port through which a terminal's output leaves. `net` implements it, one for each connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class Waiting(Protocol):
    """Something whose output is held back."""

    def resume(self) -> None:
        """There is room again: go on."""


class Outbox(Protocol):
    """What a connection sends, in the order in which it was given. No source gives more than one frame to a full outbox, so nothing waits long."""

    def frame(self, channel: int, data: bytes, source: Waiting) -> bool:
        """Sends 1 to 65,532 bytes on `channel`. Always takes them.

        Returns:
            False when the transport is full: give no more, and `source.resume` will be called once when there is room.
        """

    def messages(self, texts: Sequence[bytes], source: Waiting, *, all_the_same: bool = False) -> bool:
        """Sends text messages, one after the other, that somebody else keeps too.

        Args:
            texts: At least one.
            source: Who has them.
            all_the_same: Take them although the transport is full, as `notify` does.

        Returns:
            False when the transport is full: then they were taken only with `all_the_same`; give no more, and `source.resume` will be called
            once when there is room.
        """

    def forget(self, source: Waiting) -> None:
        """`source` has ended and needs no `resume` any more."""

    def notify(self, method: str, params: Struct) -> None:
        """Sends a notification."""
