"""What a field may be, in words: for refusals and for the reference pages."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import inspect

Type = inspect.Type


def bare(kind: Type) -> Type:
    """`kind` without what only describes it."""
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def at(kind: Type, steps: Sequence[str]) -> Type:
    """The type that is found inside `kind` by following fields' names and list indices."""
    for step in steps:
        kind = bare(kind)
        if isinstance(kind, inspect.UnionType):
            kind = next(t for t in map(bare, kind.types) if not isinstance(t, inspect.NoneType))
        if isinstance(kind, inspect.StructType):
            kind = next(field.type for field in kind.fields if field.encode_name == step)
        elif isinstance(kind, inspect.ListType):
            kind = kind.item_type
    return kind


def phrase(kind: Type) -> str:
    """Such as "an integer from 1 to 1000". A type may bring its own words, as `extra={"allowed": …}` of its Meta."""
    if isinstance(kind, inspect.Metadata):
        words = (kind.extra or {}).get("allowed")
        return words if isinstance(words, str) else phrase(kind.type)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(phrase(t) for t in kind.types)
    if isinstance(kind, inspect.IntType):
        return (
            str(kind.ge) if kind.ge is not None and kind.ge == kind.le else "an integer" + _range(kind.ge, kind.le, "")
        )
    if isinstance(kind, inspect.StrType):
        matching = "" if kind.pattern is None else f" that matches {published(kind.pattern)}"
        return "a string" + _range(kind.min_length, kind.max_length, "character") + matching
    if isinstance(kind, inspect.LiteralType):
        return _one_of(kind)
    if isinstance(kind, inspect.ListType):
        return f"a list{_range(kind.min_length, kind.max_length, 'item')}, each {phrase(kind.item_type)}"
    return _structure(kind)


def _one_of(kind: inspect.LiteralType) -> str:
    values = [f'"{value}"' for value in kind.values]
    return values[0] if len(values) == 1 else f"one of {', '.join(values)}"


def _structure(kind: Type) -> str:
    if isinstance(kind, inspect.StructType):
        names = ", ".join(field.encode_name for field in kind.fields)
        return f"an object with the fields {names}" if names else "an object without fields"
    if isinstance(kind, inspect.DictType):
        return "an object" + _range(kind.min_length, kind.max_length, "member")
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    if isinstance(kind, inspect.FloatType):
        return "a number"
    return "null" if isinstance(kind, inspect.NoneType) else "any JSON value"


def _range(least: float | None, most: float | None, unit: str) -> str:
    """Such as " from 1 to 50", or " of 1 to 200 characters" with a unit."""
    join = " of" if unit else ""
    if most is None:
        if least is None:
            return ""
        return f"{join} at least {least}{_plural(unit, least)}" if unit else f", {least} or more"
    if least is None:
        return f"{join} at most {most}{_plural(unit, most)}"
    return f"{join} {least} to {most}{_plural(unit, most)}" if unit else f" from {least} to {most}"


def _plural(unit: str, number: float) -> str:
    return f" {unit}" + ("" if number == 1 else "s") if unit else ""


def published(pattern: str) -> str:
    r"""`pattern` as ECMA 262 spells it, for JSON Schema and for people.

    Python's `$` also matches before a line feed at the end, so our patterns end in `\Z`, which ECMA's `$` means.
    """
    return pattern[:-2] + "$" if pattern.endswith(r"\Z") else pattern
