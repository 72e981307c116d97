"""`opc config show`: every setting, and where it comes from."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping

from computerd.opc import locate
from computerd.opc.settings import Setting, Settings

HIDDEN = "(set)"
"""What is shown of a token."""


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Prints them.

    Raises:
        Failure: They can't be settled.
    """
    shown = rows(locate.configured(options, env), env)
    if options.json:
        print(json.dumps({key: {"value": value, "origin": origin} for key, value, origin in shown}, ensure_ascii=False))
        return 0
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False) if value is not None else '(not set)'}"
        for key, value, _ in shown
    ]
    width = max(map(len, lines))
    for line, (_, _, origin) in zip(lines, shown, strict=True):
        print(f"{line.ljust(width)}  # {origin}" if options.origin else line)
    return 0


def rows(settings: Settings, env: Mapping[str, str]) -> list[tuple[str, str | None, str]]:
    """Key, value and origin of each setting. A token is never shown."""
    local = f"the local socket: {' or '.join(locate.sockets(env))}"
    table: list[tuple[str, Setting | None, str]] = [
        ("host", settings.host, "built in"),
        ("url", settings.url, local),
        (
            "token",
            settings.token and Setting(HIDDEN, settings.token.origin),
            local if settings.url is None else "built in",
        ),
        ("escape", settings.escape, ""),
        ("color", settings.color, ""),
    ]
    return [
        (key, found.value if found else None, found.origin if found else otherwise) for key, found, otherwise in table
    ]
