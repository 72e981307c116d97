"""Escapes: what a person types at the beginning of a line to speak to `opc` itself, as with ssh(1).

States: at the beginning of a line; just after the escape character there; elsewhere. A line begins at the start and after
a carriage return or line feed was typed. The escape character is held back until the next key tells what it was.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

HELP: Final = """\
Supported escape sequences:
 {0}.   - leave: hang up, and end with 255
 {0}^Z  - suspend opc (the daemon hangs up on a client that is silent for over a minute)
 {0}#   - status: round-trip time, bytes, session
 {0}?   - this message
 {0}{0}   - the escape character itself
(They are recognised only at the beginning of a line.)
"""


class Key(Enum):
    """What was asked of `opc`."""

    LEAVE = auto()
    SUSPEND = auto()
    STATUS = auto()
    HELP = auto()


_KEYS: Final = {ord("."): Key.LEAVE, 0x1A: Key.SUSPEND, ord("#"): Key.STATUS, ord("?"): Key.HELP}
_LINE_ENDS: Final = b"\r\n"


class Escapes:
    """Takes escapes out of typed input.

    Args:
        character: The escape character, one byte, or None: nothing is an escape.
    """

    def __init__(self, character: bytes | None) -> None:
        self._character = character[0] if character else None
        self._line_start = True
        self._held = False

    def feed(self, data: bytes) -> list[bytes | Key]:
        """What to do with `data`, in order: bytes to send, and keys to obey. Without escapes it comes back as it is."""
        if self._character is None or not data:
            return [data] if data else []
        out: list[bytes | Key] = []
        plain = bytearray()
        for byte in data:
            if self._held:
                self._after_escape(byte, plain, out)
            elif self._line_start and byte == self._character:
                self._held = True
            else:
                plain.append(byte)
                self._line_start = byte in _LINE_ENDS
        if plain:
            out.append(bytes(plain))
        return out

    def _after_escape(self, byte: int, plain: bytearray, out: list[bytes | Key]) -> None:
        self._held = False
        if (key := _KEYS.get(byte)) is not None and byte != self._character:
            if plain:
                out.append(bytes(plain))
                plain.clear()
            out.append(key)
            return
        if byte != self._character:
            plain.append(self._character or 0)
        plain.append(byte)
        self._line_start = byte in _LINE_ENDS

    def help(self) -> str:
        """Every escape, one a line."""
        return HELP.format(chr(self._character or 0))
