"""What a word of the command line may be, and what it means. A word that is none of its kind is refused with an example of one."""

from __future__ import annotations

import argparse
import re
from typing import Final

MAX_CELLS: Final = 1000
MAX_LISTED: Final = 5000
MAX_ID: Final = 255


def size(text: str) -> tuple[int, int]:
    """Columns and rows, from `120x40`."""
    match = re.fullmatch(r"([0-9]{1,4})x([0-9]{1,4})", text)
    if match is None or not all(1 <= int(number) <= MAX_CELLS for number in match.groups()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no size: write columns and rows such as 120x40, 1 to {MAX_CELLS} each"
        )
    return int(match[1]), int(match[2])


def term(text: str) -> str:
    """A value of TERM that the API takes."""
    if re.fullmatch(r"[A-Za-z0-9._+-]{1,64}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a terminal such as xterm-256color")
    return text


def count(text: str) -> int:
    """How many to list."""
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LISTED:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MAX_LISTED}")
    return int(text)


def sequence(text: str) -> int:
    """A number of an event, or of events."""
    if re.fullmatch(r"[0-9]{1,15}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of an event")
    return int(text)


def event_type(text: str) -> str:
    """A type of events. What this client does not know may be one: servers may have more."""
    if re.fullmatch(r"[^\s,]{1,64}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no type of events such as terminal.opened")
    return text


def identifier(text: str) -> str:
    """An id of a session. Whether there is one is for the daemon to say."""
    if not text or len(text) > MAX_ID or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is no id of a session such as cs_0123456789abcdef")
    return text


def pair(text: str) -> tuple[str, str]:
    """Key and value, from `key=value`."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair: write KEY=VALUE; --unset KEY removes one")
    return key, value
