"""An event as a line for a person: time, number, type, who, and what matters of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from computerd.opc.plain import json_line, shortened, visible
from computerd.opc.progress import files

MOST: Final = 200
"""Characters of what matters."""
_VALUE: Final = 40
"""Characters of one value among several."""
_KIND: Final = 64
"""Characters of a type; the API's own have a third of it."""

Data = dict[str, Any]


def line(event: Data) -> str:
    """The line of `event`, in local time. What its sender wrote can't steer a terminal."""
    kind = str(event.get("type"))
    cells = (
        _time(event.get("createdAt")),
        f"{event.get('seq', '?'):>6}",
        f"{shortened(kind, _KIND):<22}",
        f"{_actor(event):<8}",
    )
    return visible("  ".join((*cells, shortened(details(kind, event.get("data")), MOST))).rstrip())


def details(kind: str, data: object) -> str:
    """What matters of an event's data, not yet fit for a terminal; of a type that is not known, all of it."""
    told = _DETAILS.get(kind)
    if told is not None and isinstance(data, dict):
        try:
            return told(data)
        # another version's idea of this type
        except (KeyError, TypeError, AttributeError, ValueError):
            pass
    return json_line(data)


def _time(text: object) -> str:
    try:
        return datetime.fromisoformat(str(text)).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "????-??-?? ??:??:??"


def _actor(event: Data) -> str:
    actor = event.get("actor")
    if not isinstance(actor, dict):
        return "-"
    return shortened(str(actor.get("name") or actor.get("id") or "-"), _KIND)


def _value(value: object) -> str:
    if value is None:
        return "none"
    return shortened(value if isinstance(value, str) else json_line(value), _VALUE)


def _turned(data: Data) -> str:
    return f"{_value(data['from'])} → {_value(data['to'])}"


def _changes(data: Data) -> str:
    return ", ".join(f"{name}: {_turned(change)}" for name, change in data["changes"].items())


def _seconds(data: Data) -> str:
    milliseconds = data["durationMs"]
    return "" if milliseconds is None else f"{milliseconds / 1000:.1f} s"


def _words(*words: object) -> str:
    """Those that say something."""
    return " ".join(str(word) for word in words if word not in (None, ""))


def _exit(data: Data) -> str:
    return "ended by a signal or with the daemon" if data["exitCode"] is None else f"exit {data['exitCode']}"


def _titled(data: Data) -> str:
    return _words(data["toolName"], data["title"])


def _subagent(data: Data) -> str:
    subagent = data["subagent"]
    return _words(subagent["id"], subagent["status"], subagent["name"])


def _ask(data: Data) -> str:
    return _words(data["ask"]["id"], data["ask"]["kind"], data["ask"]["status"])


def _tokens(data: Data) -> str:
    return f"{data['model']}: {data['inputTokens']} in, {data['outputTokens']} out"


_DETAILS: Final[dict[str, Callable[[Data], str]]] = {
    "session.created": lambda data: _words(_value(data["title"]), f"via {data['origin']['type']}"),
    "session.status_changed": _turned,
    "session.updated": _changes,
    "session.compacted": lambda data: f"{_value(data['beforeTokens'])} → {_value(data['afterTokens'])} tokens",
    "message.received": lambda data: str(data["input"]),
    "turn.queued": lambda data: f"position {data['position']}",
    "turn.steered": lambda data: f"by message {data['messageSeq']}",
    "turn.started": lambda data: _words(data["model"], data["effort"], data["mode"]),
    "turn.status_changed": _turned,
    "turn.completed": lambda data: _words(_seconds(data), data["text"]),
    "turn.failed": lambda data: f"{data['error']['code']}: {data['error']['message']}",
    "turn.cancelled": lambda data: _words(data["reason"], "by force" if data["forced"] else None),
    "message.completed": lambda data: str(data["text"]),
    "reasoning.completed": lambda data: _words(_seconds(data), data["text"]),
    "tool.started": _titled,
    "tool.completed": lambda data: _words(_titled(data), _seconds(data)),
    "tool.failed": lambda data: f"{data['toolName']}: {data['message']}",
    "subagent.started": _subagent,
    "subagent.ended": _subagent,
    "ask.opened": _ask,
    "ask.closed": _ask,
    "usage.recorded": _tokens,
    "model.rate_limited": lambda data: f"{data['model']}, try {data['attempt']}",
    "runtime.starting": lambda data: str(data["phase"]),
    "runtime.connected": lambda data: _words("warm" if data["warm"] else None, _seconds(data)),
    "runtime.suspended": lambda data: str(data["reason"]),
    "files.pushed": lambda data: f"{data['path']}: {files(data['files'])}, {data['bytes']} bytes",
    "terminal.opened": lambda data: _words(data["terminalId"], data["command"] or "login shell"),
    "terminal.closed": lambda data: f"{data['terminalId']} {_exit(data)}",
}
