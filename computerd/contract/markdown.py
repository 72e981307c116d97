"""The pieces that the reference pages are made of: MyST Markdown from bits of JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

Schema = dict[str, Any]

PREFIX: Final = "#/$defs/"
"""In front of a definition's name in a `$ref`."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may hold any inline Markdown."""
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def anchor(kind: str, name: str) -> str:
    """The target that a heading of `heading` has."""
    return f"{kind}-{name.lower().replace('.', '-').replace('_', '-')}"


def heading(kind: str, name: str, level: int = 2) -> str:
    """A heading that other pages can link to."""
    return f"({anchor(kind, name)})=\n\n{'#' * level} `{name}`\n\n"


def link(kind: str, name: str) -> str:
    """A link to such a heading, on whichever page it is."""
    return f"[`{name}`](#{anchor(kind, name)})"


def fields(schema: Schema) -> str:
    """The table of an object's fields. One that may be absent has a question mark."""
    required = schema.get("required", [])
    rows = [
        (f"`{name}`" if name in required else f"`{name}`?", type_words(field), _meaning(field))
        for name, field in schema.get("properties", {}).items()
    ]
    return table(("Field", "Type", "Meaning"), rows) if rows else "No fields.\n"


def _meaning(field: Schema) -> str:
    described = [option["description"] for option in (field, *field.get("anyOf", ())) if "description" in option]
    words = described[:1] or ([f"matches `{field['pattern']}`"] if "pattern" in field else [])
    if "default" in field:
        words.append(f"default {str(field['default']).lower()}")
    return "; ".join(words)


def type_words(field: Schema) -> str:
    """A field's type in a few words, with links to objects."""
    if "$ref" in field:
        return link("object", field["$ref"].removeprefix(PREFIX))
    if "anyOf" in field:
        return " or ".join(type_words(option) for option in field["anyOf"])
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    return _plain_words(field)


def _plain_words(field: Schema) -> str:
    kind = field.get("type", "any JSON value")
    if kind == "array":
        return f"list of {type_words(field.get('items', {}))}{_between(field, 'minItems', 'maxItems', ' items')}"
    if kind == "object":
        values = field.get("additionalProperties")
        named = f" of {type_words(values)} by name" if isinstance(values, dict) and values else ""
        return f"object{named}{_between(field, 'minProperties', 'maxProperties', ' members')}"
    if kind == "string":
        return f"string{_between(field, 'minLength', 'maxLength', ' characters')}"
    return f"{kind}{_between(field, 'minimum', 'maximum', '')}"


def _between(field: Schema, least: str, most: str, unit: str) -> str:
    low, high = field.get(least), field.get(most)
    # 2**53 - 1 is what a double still holds exactly: no limit that anybody meets.
    high = None if high == 2**53 - 1 else high
    if low is None:
        return "" if high is None else f", up to {high:,}{unit}"
    if high is None:
        return f", from {low:,}{unit}"
    return f", {low:,}{unit}" if low == high else f", {low:,} to {high:,}{unit}"
