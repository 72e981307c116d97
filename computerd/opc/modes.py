"""Follows what a program switches on in a terminal, to undo it when the program can't any more.

Output is watched as it passes. Of the sequences that ECMA-48 and xterm define only those are remembered that would make
the user's own shell unusable: `ctlseqs.txt` of xterm, sections "DEC Private Mode Set" and "XTMODKEYS"; the kitty keyboard
protocol's page for `CSI > u`. Nothing is undone that was not seen switched on: leaving an alternate screen
that was never entered would move the cursor.

State: in text; in a sequence that is not complete yet (kept, it is short); in a string such as a window title (skipped to its end,
not kept). A sequence may be cut anywhere between two pieces of output.
"""

from __future__ import annotations

import re
from typing import Final

_ESC: Final = 0x1B
_MAX_SEQUENCE: Final = 256
"""Bytes of a control sequence that are waited for; a longer one is none that we know."""

_SEQUENCE: Final = re.compile(
    rb"\x1b(?:\[(?P<parameters>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    rb"|(?P<string>[\]PX^_])"
    rb"|(?P<short>[ -/]*[0-Z\\`-~]))"
)
_INCOMPLETE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[ -/]*)\Z")
# BEL, CAN, SUB, or the beginning of another sequence, of which ESC \ is the proper one.
_STRING_END: Final = re.compile(rb"[\x07\x18\x1a]|(?=\x1b)")

ALTERNATE_SCREENS: Final = frozenset({47, 1047, 1049})
HIDDEN_BY_RESET: Final = 25
"""DECTCEM: the one mode that is on from the start, the cursor."""
WATCHED: Final = frozenset(
    {1, 9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2026} | ALTERNATE_SCREENS | {HIDDEN_BY_RESET}
)
"""Cursor keys, mouse reports and their encodings, focus reports, bracketed paste, synchronised output, screens, the cursor."""


class Modes:
    """What is switched on at the moment."""

    def __init__(self) -> None:
        self._rest = b""
        self._in_string = False
        self._reset()

    def _reset(self) -> None:
        self._changed: set[int] = set()
        self._keypad = False
        self._kitty = 0
        self._kitty_flags = False
        self._modify_keys = False
        self._shape = False
        self._styled = False
        self._line_drawing = False

    def feed(self, data: bytes) -> None:
        """Watches the next piece of output."""
        if not self._rest and not self._in_string and _ESC not in data:
            return
        data = self._rest + data
        self._rest = b""
        place = 0
        while place >= 0:
            if self._in_string:
                end = _STRING_END.search(data, place)
                if end is None:
                    return
                self._in_string, place = False, end.end()
            place = data.find(_ESC, place)
            if place >= 0:
                place = self._sequence(data, place)

    def _sequence(self, data: bytes, place: int) -> int:
        """Takes the sequence at `place` in. Returns where it ends, or -1 when more is to come."""
        found = _SEQUENCE.match(data, place)
        if found is None:
            if _INCOMPLETE.match(data, place) and len(data) - place <= _MAX_SEQUENCE:
                self._rest = data[place:]
                return -1
            return place + 1
        if found["string"] is not None:
            self._in_string = True
        elif found["short"] is not None:
            self._short(found["short"])
        else:
            self._control(found["parameters"], found["between"] + found["final"])
        return found.end()

    def _short(self, name: bytes) -> None:
        if name == b"=":
            self._keypad = True
        elif name == b">":
            self._keypad = False
        elif name in (b"(0", b"(B"):
            self._line_drawing = name == b"(0"
        elif name == b"c":
            # RIS, a full reset
            self._reset()

    def _control(self, parameters: bytes, name: bytes) -> None:
        mark = parameters[:1] if parameters[:1] in (b"?", b">", b"<", b"=") else b""
        match mark, name:
            case b"?", (b"h" | b"l"):
                self._private(_numbers(parameters[1:]), on=name == b"h")
            case b">", b"u":
                self._kitty += 1
            case b"<", b"u":
                self._kitty = max(0, self._kitty - (_numbers(parameters[1:])[0] or 1))
            case b"=", b"u":
                self._kitty_flags = _numbers(parameters[1:])[0] != 0
            case b">", b"m":
                numbers = _numbers(parameters[1:])
                if numbers[0] == 4:
                    self._modify_keys = len(numbers) > 1 and numbers[1] != 0
            case b"", b"m":
                self._styled = _numbers(parameters)[-1] != 0
            case b"", b" q":
                self._shape = _numbers(parameters)[0] != 0
            case b"", b"!p":
                # DECSTR, a soft reset
                self._changed -= {1, HIDDEN_BY_RESET}
                self._keypad = self._styled = self._line_drawing = False

    def _private(self, numbers: list[int], *, on: bool) -> None:
        for number in numbers:
            if number in ALTERNATE_SCREENS and not on:
                self._changed -= ALTERNATE_SCREENS
            elif number in WATCHED:
                (self._changed.add if on != (number == HIDDEN_BY_RESET) else self._changed.discard)(number)

    @property
    def alternate_screen(self) -> bool:
        """Whether a program has the screen to itself."""
        return bool(self._changed & ALTERNATE_SCREENS)

    def undo(self) -> bytes:
        """What switches off everything that is on, and nothing else. Empty when nothing is.

        Output that was cut within a sequence is ended first, or the terminal would take what follows for its rest.
        """
        out = b"\x1b\\" if self._in_string else b"\x18" if self._rest else b""
        out += b"".join(b"\x1b[?%dl" % n for n in sorted(self._changed - ALTERNATE_SCREENS - {HIDDEN_BY_RESET}))
        # kitty keeps a stack of keyboard modes for each screen: ours is popped before the screen is left
        out += b"\x1b[<%du" % self._kitty if self._kitty else b""
        out += b"\x1b[=0u" if self._kitty_flags else b""
        out += b"\x1b[>4;0m" if self._modify_keys else b""
        out += b"\x1b>" if self._keypad else b""
        out += b"\x1b(B\x0f" if self._line_drawing else b""
        out += b"\x1b[0 q" if self._shape else b""
        out += b"\x1b[m" if self._styled else b""
        out += b"".join(b"\x1b[?%dl" % n for n in sorted(self._changed & ALTERNATE_SCREENS))
        return out + (b"\x1b[?25h" if HIDDEN_BY_RESET in self._changed else b"")


def _numbers(parameters: bytes) -> list[int]:
    """The numbers of a sequence, an absent one as 0. Subparameters after a colon belong to their number and are left out."""
    return [
        int(text) if (text := part.partition(b":")[0])[:6].isdigit() and len(text) <= 6 else 0
        for part in parameters.split(b";")
    ]
