"""The shape of every id, and how new ones are made."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Final

from attrs import field, frozen

_ALPHABET: Final = string.digits + string.ascii_lowercase + string.ascii_uppercase


@frozen
class Identifier:
    """One sort of id: a prefix, then `length` characters of `[0-9A-Za-z]`.

    Attributes:
        prefix: Such as `cs_`.
        length: Characters after the prefix.
        pattern: A regular expression for Python that matches such ids and nothing else.
    """

    prefix: str
    length: int
    pattern: str = field(init=False)

    @pattern.default
    def _pattern(self) -> str:
        # \Z, because Python's $ also matches before a line feed at the end
        return rf"^{self.prefix}[0-9A-Za-z]{{{self.length}}}\Z"

    def matches(self, text: str) -> bool:
        """Whether `text` has this shape."""
        return re.match(self.pattern, text) is not None

    def new(self, random: Callable[[int], bytes]) -> str:
        """A fresh id. `random(n)` returns n bytes of a cryptographic source."""
        characters: list[str] = []
        while len(characters) < self.length:
            # 248 is the largest multiple of 62 under 256: bytes above it would favour some characters
            characters += [_ALPHABET[b % 62] for b in random(2 * self.length) if b < 248]
        return self.prefix + "".join(characters[: self.length])


SESSION: Final = Identifier("cs_", 16)
EVENT: Final = Identifier("ev_", 16)
TURN: Final = Identifier("tn_", 12)
ASK: Final = Identifier("ak_", 12)
SUBAGENT: Final = Identifier("sa_", 12)
TERMINAL: Final = Identifier("tm_", 12)
CONNECTION: Final = Identifier("cn_", 12)
REQUEST: Final = Identifier("rq_", 12)
LOG_EPOCH: Final = Identifier("le_", 12)
