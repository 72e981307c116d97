"""The client's half of RFC 6455, as far as the Computer API needs it: bytes to messages and back. Holds no I/O.

Why not Autobahn, which serves the other end: importing it and the Twisted reactor takes 0.37 to 0.5 s, each time that somebody
runs a command, where this takes 3 ms, and the whole of `opc exec -- true` about as long as ssh(1). What a client of one known server
needs is little: no extension, no fragments of its own. The tests hold it against another implementation, both ways.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from enum import IntEnum
from typing import Final, NamedTuple

from computerd.contract import limits

GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3."""
MAX_MESSAGE: Final = 16 * limits.MIB
"""Bytes of one message that are put up with. The server's results are far smaller."""
MAX_CONTROL: Final = 125
"""Bytes of a control frame (section 5.5)."""


class Opcode(IntEnum):
    """Section 5.2."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class Message(NamedTuple):
    """A whole message, or a control frame."""

    opcode: Opcode
    payload: bytes


class BadServerError(Exception):
    """The other end does not speak RFC 6455."""


def accept(key: str) -> str:
    """The value of Sec-WebSocket-Accept that answers `key` (section 4.2.2)."""
    return base64.b64encode(hashlib.sha1(key.encode() + GUID, usedforsecurity=False).digest()).decode()


def mask(payload: bytes, key: bytes) -> bytes:
    """`payload` with `key`, 4 bytes, laid over it (section 5.3). As one number: 60 µs for 64 KiB."""
    size = len(payload)
    pad = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(pad, "little")).to_bytes(size, "little")


def encode(opcode: Opcode, payload: bytes, key: bytes) -> bytes:
    """One final frame. `key` is 4 random bytes, fresh for each frame."""
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", 0x80 | opcode, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, size)
    return head + key + mask(payload, key)


def closing(payload: bytes) -> tuple[int, str]:
    """Code and reason of a close frame; 1005 when it bears none (section 7.1.5)."""
    if len(payload) < 2:
        return 1005, ""
    return int.from_bytes(payload[:2], "big"), payload[2:].decode("utf-8", "replace")


class Decoder:
    """Makes messages of what arrives, however it is cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parts = bytearray()
        self._fragmented: Opcode | None = None

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes.

        Raises:
            BadServerError: A frame that the RFC forbids, or a message over MAX_MESSAGE.
        """
        self._buffer += data
        messages: list[Message] = []
        place = 0
        while (frame := self._frame(place)) is not None:
            final, opcode, start, place = frame
            message = self._assemble(final, opcode, bytes(self._buffer[start:place]))
            if message is not None:
                messages.append(message)
        del self._buffer[:place]
        return messages

    def _frame(self, place: int) -> tuple[bool, Opcode, int, int] | None:
        """Final or not, opcode, where the payload begins and ends; None when the frame at `place` is not whole yet."""
        buffer = self._buffer
        if len(buffer) < place + 2:
            return None
        first, second = buffer[place], buffer[place + 1]
        if first & 0x70:
            raise BadServerError("it used an extension that was not agreed on")
        if second & 0x80:
            raise BadServerError("its frames are masked")
        size, start = second, place + 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(buffer) < start + width:
                return None
            size = int.from_bytes(buffer[start : start + width], "big")
            start += width
        if size > MAX_MESSAGE:
            raise BadServerError(f"it sent a message of {size} bytes")
        opcode = _opcode(first & 0x0F)
        if opcode >= Opcode.CLOSE and (size > MAX_CONTROL or not first & 0x80):
            raise BadServerError("it sent a control frame that is too long or in parts")
        if len(buffer) < start + size:
            return None
        return bool(first & 0x80), opcode, start, start + size

    def _assemble(self, final: bool, opcode: Opcode, payload: bytes) -> Message | None:
        if opcode >= Opcode.CLOSE:
            return Message(opcode, payload)
        if (opcode is Opcode.CONTINUATION) != (self._fragmented is not None):
            raise BadServerError("the parts of its messages do not fit together")
        if final and self._fragmented is None:
            return Message(opcode, payload)
        self._fragmented = self._fragmented if self._fragmented is not None else opcode
        self._parts += payload
        if len(self._parts) > MAX_MESSAGE:
            raise BadServerError("it sent a message without end")
        if not final:
            return None
        message = Message(self._fragmented, bytes(self._parts))
        self._fragmented = None
        self._parts.clear()
        return message


def _opcode(number: int) -> Opcode:
    try:
        return Opcode(number)
    except ValueError:
        raise BadServerError(f"it sent a frame of the unknown kind {number}") from None
