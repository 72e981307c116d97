"""What `computerctl doctor` says about one thing."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


class State(StrEnum):
    """How a thing is."""

    GOOD = "good"
    NOTE = "note"
    WRONG = "wrong"


@frozen
class Finding:
    """One line of the report.

    Attributes:
        check: What was looked at.
        state: `wrong` means: terminals, or what protects them, will not work as promised.
        found: What is the case.
        advice: What to do about it; empty when it is good.
    """

    check: str
    state: State
    found: str
    advice: str = ""


def good(check: str, found: str) -> Finding:
    """As it should be."""
    return Finding(check, State.GOOD, found)


def note(check: str, found: str, advice: str) -> Finding:
    """Works, but could be better."""
    return Finding(check, State.NOTE, found, advice)


def wrong(check: str, found: str, advice: str) -> Finding:
    """Has to be changed."""
    return Finding(check, State.WRONG, found, advice)
