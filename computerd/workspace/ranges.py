"""Which part of a file a `Range` header asks for (RFC 9110, section 14). Pure."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

_SPEC: Final = re.compile(r"[ \t,]*([0-9]{0,1000})-([0-9]{0,1000})[ \t,]*")
"""Longer numbers are no syntax of ours; Python reads no more than 4,300 digits."""


@frozen
class Span:
    """Some bytes in a row.

    Attributes:
        start: The first one's place, from 0.
        length: How many, at least one.
    """

    start: int
    length: int

    def of(self, size: int) -> str:
        """The value of `Content-Range`."""
        return f"bytes {self.start}-{self.start + self.length - 1}/{size}"


class Unsatisfiable(Exception):
    """The part that is asked for begins after the end."""


def span(text: str | None, size: int) -> Span | None:
    """What a Range header asks for of `size` bytes.

    Returns:
        None: everything, because there is no header, or it can be ignored: its unit or syntax is not ours, it asks for several parts, which
        a server need not give, or the file is empty (some clients send a Range with everything that they ask for).

    Raises:
        Unsatisfiable: Nothing of it is there.
    """
    unit, sign, ranges = (text or "").partition("=")
    match = _SPEC.fullmatch(ranges) if sign and unit.strip().lower() == "bytes" else None
    if match is None or not size:
        return None
    first, last = match[1], match[2]
    if not first:
        return _suffix(last, size)
    start, end = int(first), int(last) if last else size - 1
    if last and end < start:
        return None
    if start >= size:
        raise Unsatisfiable
    return Span(start, min(end, size - 1) - start + 1)


def _suffix(digits: str, size: int) -> Span | None:
    """The last so many bytes."""
    if not digits:
        return None
    length = min(int(digits), size)
    if not length:
        raise Unsatisfiable
    return Span(size - length, length)
