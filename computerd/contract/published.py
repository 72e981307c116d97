"""Reads the published schema of the API. Imports next to nothing, so that `opc schema` answers at once."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

FILE: Final = "computer-api.v1.json"
"""The committed schema, in this package."""
TABLES: Final = ("objects", "methods", "notifications", "events", "deltas", "errors", "closeCodes", "limits")
"""The document's members that are no JSON Schema."""

_PREFIX: Final = "#/$defs/"


def text() -> str:
    """The whole document, as it is committed."""
    return files(__package__ or "computerd.contract").joinpath(FILE).read_text(encoding="utf-8")


@cache
def document() -> dict[str, Any]:
    """The whole document. Not to be changed by whoever reads it."""
    loaded: dict[str, Any] = json.loads(text())
    return loaded


def names() -> list[str]:
    """Every name that `named` knows, in order, each in its own spelling."""
    return sorted(_index(), key=lambda name: (name.lower(), name))


def named(name: str) -> Any:
    """What the schema says of one thing, complete in itself: it brings along the `$defs` that it refers to.

    Args:
        name: An object (`Session`), params or a result (`ListEvents`), a method (`terminals.open`), an event or delta type
            (`session.created`), a notification (`ready`), or a table (`errors`). Upper and lower case are the same unless two differ only by it.

    Raises:
        KeyError: There is no such thing; its one argument is a sentence with the names that come close.
    """
    index = _index()
    if name not in index:
        lower = {known.lower(): known for known in sorted(index, reverse=True)}
        if name.lower() not in lower:
            raise KeyError(_unknown(name, lower))
        name = lower[name.lower()]
    kind, value = index[name]
    if kind == "table":
        return value
    schema: dict[str, Any] = {"$schema": document()["$schema"], **value}
    definitions = _reachable(value)
    return {**schema, "$defs": definitions} if definitions else schema


def _unknown(name: str, lower: dict[str, str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  only for those who mistype

    close = [lower[match] for match in get_close_matches(name.lower(), lower, n=5, cutoff=0.5)]
    hint = f"Did you mean {', '.join(close)}?" if close else "`opc schema` prints all that there is."
    return f"The schema has nothing named {name[:100]}. {hint}"


@cache
def _index() -> dict[str, tuple[str, Any]]:
    """What each name stands for: a definition, a method's row or a table."""
    whole = document()
    definitions = whole["$defs"]
    index: dict[str, tuple[str, Any]] = {table: ("table", whole[table]) for table in TABLES}
    for row in whole["notifications"]:
        index[row["name"]] = ("definition", definitions[row["params"]["$ref"].removeprefix(_PREFIX)])
    for row in (*whole["events"], *whole["deltas"]):
        index[row["type"]] = ("definition", definitions[row["schema"]["$ref"].removeprefix(_PREFIX)])
    for row in whole["methods"]:
        others = {key: value for key, value in row.items() if key not in ("name", "summary")}
        index[row["name"]] = ("method", {"title": row["name"], "description": row["summary"], **others})
    index |= {name: ("definition", definition) for name, definition in definitions.items()}
    return index


def _reachable(schema: Any) -> dict[str, Any]:
    """The definitions that `schema` refers to, and those that they refer to."""
    definitions = document()["$defs"]
    found: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            name = node.get("$ref", "").removeprefix(_PREFIX) if isinstance(node.get("$ref", ""), str) else ""
            if name and name not in found:
                found[name] = definitions[name]
                waiting.append(definitions[name])
            waiting += node.values()
    return dict(sorted(found.items()))
