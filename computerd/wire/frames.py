"""Binary frames: a channel number of 4 bytes, big-endian, then a terminal's data."""

from __future__ import annotations

from struct import Struct
from typing import Final

from computerd.contract import limits

PREFIX: Final = Struct(">I")
"""The channel number in front of the data."""
MAX_DATA: Final = limits.MAX_FRAME_BYTES - limits.CHANNEL_BYTES
"""The most data that one output frame carries, in bytes: the limit of a frame includes its channel number."""

_unpack: Final = PREFIX.unpack_from


class BadFrame(ValueError):
    """A frame too short to name its channel: the connection is closed with 1002."""


def split(frame: bytes) -> tuple[int, bytes]:
    """The channel, 0 to 2**32-1, and the data, which may be empty.

    Raises:
        BadFrame: Under 4 bytes.
    """
    if len(frame) < limits.CHANNEL_BYTES:
        raise BadFrame(f"a frame of {len(frame)} bytes names no channel")
    return _unpack(frame)[0], frame[limits.CHANNEL_BYTES :]


def join(channel: int, data: bytes) -> bytes:
    """The frame that carries `data`, at most MAX_DATA bytes, on `channel`."""
    return PREFIX.pack(channel) + data
