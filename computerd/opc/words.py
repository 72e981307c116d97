"""The words of a command line: which are options, which name the session, which are the command.

`opc shell [SESSION] [flags] [--] [COMMAND [ARG...]]`: the session is recognised by its shape, flags end at the first
word that is neither, and nothing after `--` or after the command's first word is looked at.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from typing import NamedTuple

PREFIX = "cs_"
"""What the id of a session begins with. No command of that name is hidden: it can stand after `--`."""


class Words(NamedTuple):
    """A command line, sorted.

    Attributes:
        flags: For the parser of options.
        session: The id, as it was written, or None.
        command: The words of the command.
    """

    flags: list[str]
    session: str | None
    command: list[str]


def sort(arguments: Sequence[str], valued: Collection[str]) -> Words:
    """Sorts what follows the verb.

    Args:
        arguments: The words after the verb.
        valued: The options whose value is the next word, such as `--size` and `-e`.
    """
    flags: list[str] = []
    session: str | None = None
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("-") and word != "-":
            flags.append(word)
            if takes_next(word, valued) and rest:
                flags.append(rest.pop(0))
        elif session is None and word.startswith(PREFIX):
            session = word
        else:
            return Words(flags, session, [word, *rest])
    return Words(flags, session, rest)


def apart(arguments: Sequence[str], valued: Collection[str]) -> tuple[list[str], list[str]]:
    """The options among the words that follow a verb, with their values, and the other words. After `--`, and with `-` alone, there are none."""
    flags: list[str] = []
    others: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return flags, [*others, *rest]
        if not word.startswith("-") or word == "-":
            others.append(word)
            continue
        flags.append(word)
        if takes_next(word, valued) and rest:
            flags.append(rest.pop(0))
    return flags, others


def takes_next(word: str, valued: Collection[str]) -> bool:
    """Whether the value of `word` is the word after it: `--size`, `-e`, and `-nte`, but not `--size=…` and `-e%`."""
    if word.startswith("--"):
        return word in valued
    for place, letter in enumerate(word[1:], 1):
        if f"-{letter}" in valued:
            return place == len(word) - 1
    return False


def command_line(command: Sequence[str]) -> str | None:
    """What the remote shell is given, or None: its login shell.

    One word is passed as it is, so that `'a | b'` is a pipe; several are quoted, so that each arrives as one word.
    """
    if not command:
        return None
    return command[0] if len(command) == 1 else shlex.join(command)
