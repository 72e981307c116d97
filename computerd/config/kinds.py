"""Kinds of values: each says what it allows, reads it from text (a flag, the environment) and from TOML, and writes it again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

Value = object


@frozen
class Kind:
    """A kind of value.

    Attributes:
        allowed: What may stand there, to follow "must be".
        from_text: From a flag or an environment variable. Raises ValueError.
        from_toml: From a TOML value. Raises ValueError.
        shown: As it would be written in the file.
    """

    allowed: str
    from_text: Callable[[str], Value]
    from_toml: Callable[[object], Value]
    shown: Callable[[Value], str]


def _quoted(value: Value) -> str:
    return json.dumps(value if isinstance(value, (str, list, tuple)) else str(value), ensure_ascii=False)


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def text(allowed: str, pattern: str) -> Kind:
    """A string that matches `pattern` as a whole."""
    whole = re.compile(pattern)

    def parse(value: str) -> str:
        if not whole.fullmatch(value):
            raise ValueError
        return value

    return Kind(allowed, parse, lambda value: parse(_string(value)), _quoted)


def choice(*names: str) -> Kind:
    """One of some words."""
    return text(" or ".join(f'"{name}"' for name in names), "|".join(map(re.escape, names)))


def path() -> Kind:
    """An absolute path. In a flag or variable a relative one is taken from the current folder."""

    def plain(value: str) -> str:
        if not value or "\0" in value or "\n" in value:
            raise ValueError
        return value

    def absolute(value: object) -> Path:
        if not plain(_string(value)).startswith("/"):
            raise ValueError
        return Path(_string(value))

    return Kind("an absolute path", lambda value: Path(plain(value)).absolute(), absolute, _quoted)


def switch() -> Kind:
    """True or false."""

    def parse(value: str) -> bool:
        words = {
            "true": True,
            "1": True,
            "yes": True,
            "on": True,
            "false": False,
            "0": False,
            "no": False,
            "off": False,
        }
        if value.lower() not in words:
            raise ValueError
        return words[value.lower()]

    def toml(value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return Kind("true or false", parse, toml, lambda value: "true" if value else "false")


def number(least: int, most: int, *, none: str | None = None) -> Kind:
    """An integer in a range; the word `none`, where there is one, stands for no limit."""

    def check(value: object) -> int | None:
        if none is not None and value == none:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError
        return value

    def parse(value: str) -> int | None:
        return check(int(value) if re.fullmatch(r"[0-9]{1,18}", value) else value)

    words = f"an integer from {least} to {most}" + (f' or "{none}"' if none else "")
    return Kind(words, parse, check, lambda value: _quoted(none) if value is None else str(value))


_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def size(least: int) -> Kind:
    """Bytes, with K, M, G or T for powers of 1024, or `unlimited`."""

    def parse(value: str) -> int | None:
        if value == "unlimited":
            return None
        found = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", value)
        if not found or int(found[1]) * _UNITS[found[2]] < least:
            raise ValueError
        return int(found[1]) * _UNITS[found[2]]

    def toml(value: object) -> int | None:
        return parse(str(value) if isinstance(value, int) and not isinstance(value, bool) else _string(value))

    words = f'bytes, such as "2G", of {least} at least, or "unlimited"'
    return Kind(words, parse, toml, lambda value: '"unlimited"' if value is None else str(value))


def mask() -> Kind:
    """A file mode mask, in octal digits."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"0?[0-7]{3}", value):
            raise ValueError
        return int(value, 8)

    return Kind(
        'octal digits such as "022"', parse, lambda value: parse(_string(value)), lambda value: f'"{value:03o}"'
    )


def words(allowed: str, pattern: str, *, least: int = 0) -> Kind:
    """Several strings: an array in TOML, parted by blanks elsewhere."""
    whole = re.compile(pattern)

    def check(values: list[str]) -> tuple[str, ...]:
        if len(values) < least or not all(whole.fullmatch(value) for value in values):
            raise ValueError
        return tuple(dict.fromkeys(values))

    def toml(value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValueError
        return check([_string(item) for item in value])

    return Kind(
        f"{allowed} (in TOML an array of strings)", lambda value: check(value.split()), toml, lambda v: _array(v)
    )


def _array(value: Value) -> str:
    return json.dumps(list(value), ensure_ascii=False) if isinstance(value, tuple) else "[]"


def table(allowed: str, key: str, entry: str) -> Kind:
    """From names to names: a table in TOML, `NAME=VALUE` parted by blanks or commas elsewhere."""
    keys, entries = re.compile(key), re.compile(entry)

    def check(pairs: Mapping[object, object]) -> Mapping[str, str]:
        for name, value in pairs.items():
            if not keys.fullmatch(_string(name)) or not entries.fullmatch(_string(value)):
                raise ValueError
        return {_string(name): _string(value) for name, value in pairs.items()}

    def parse(value: str) -> Mapping[str, str]:
        pairs = [pair.partition("=") for pair in re.split(r"[\s,]+", value) if pair]
        if any(not mark for _, mark, _ in pairs) or len({name for name, _, _ in pairs}) != len(pairs):
            raise ValueError
        return check({name: user for name, _, user in pairs})

    def toml(value: object) -> Mapping[str, str]:
        if not isinstance(value, dict):
            raise ValueError
        return check(value)

    def shown(value: Value) -> str:
        pairs = value.items() if isinstance(value, Mapping) else ()
        return "{" + ", ".join(f"{_quoted(name)} = {_quoted(user)}" for name, user in pairs) + "}"

    return Kind(allowed, parse, toml, shown)
