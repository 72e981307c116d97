"""`opc sessions show, update, suspend, resume, archive, unarchive`: one session, looked at or changed."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from computerd.opc import locate
from computerd.opc.backoff import chance
from computerd.opc.failure import Failure
from computerd.opc.patient import Patient
from computerd.opc.plain import json_line, visible
from computerd.opc.sessions import status

Body = dict[str, object]
_FIELDS: Final = ("title", "model", "effort", "mode", "speed")


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Does what `options.action` says, and prints what came of it.

    Raises:
        Failure: It can't be done.
    """
    settings = locate.configured(options, env)
    daemon = Patient(lambda: locate.locate(settings, env), time.sleep, time.monotonic, chance)
    answer = _WORK[options.action](daemon, options)
    session = answer.get("session")
    if not isinstance(session, dict) or not isinstance(session.get("id"), str):
        raise Failure("invalid_answer", "the daemon did not answer with a session. Check the URL (`opc config show`).")
    if options.json:
        print(json_line(answer))
    elif options.action in ("show", "update"):
        print("\n".join(described(session)))
    else:
        print(visible(f"{session['id']} {status(session)}"))
    return 0


def described(session: Mapping[str, Any]) -> list[str]:
    """The lines that a person reads of a session."""
    owner, origin, settings, context, metadata = (
        value if isinstance(value := session.get(name), dict) else {}
        for name in ("owner", "origin", "settings", "context", "metadata")
    )
    rows = [
        ("id", session["id"]),
        ("title", session.get("title")),
        ("status", status(session)),
        ("owner", " ".join(str(word) for word in (owner.get("name"), f"({owner.get('id')})") if word)),
        ("origin", " ".join(str(word) for word in (origin.get("type"), origin.get("client")) if word)),
        *((name, settings.get(name)) for name in ("model", "effort", "mode", "speed")),
        ("context", _context(context)),
        ("events", f"{session.get('epochStartSeq')} to {session.get('lastSeq')} of {session.get('logEpoch')}"),
        ("created", session.get("createdAt")),
        ("last active", session.get("lastActiveAt")),
        *(("metadata" if place == 0 else "", f"{key}={value}") for place, (key, value) in enumerate(metadata.items())),
    ]
    return [visible(f"{name:<13}{value if value not in (None, '') else '-'}") for name, value in rows]


def _context(context: Mapping[str, Any]) -> str | None:
    used, window = context.get("usedTokens"), context.get("windowTokens")
    return None if used is None else f"{used} of {window or 'unknown'} tokens"


def merged(metadata: Mapping[str, str], options: Namespace) -> dict[str, str]:
    """The map that replaces `metadata`: emptied if asked, then without what is unset, then with what is set."""
    kept = {} if options.no_metadata else {key: value for key, value in metadata.items() if key not in options.unset}
    return kept | dict(options.metadata)


# --- the work


def _path(options: Namespace) -> str:
    return f"/sessions/{quote(options.id, safe='')}"


def _keyed(body: Body) -> Body:
    """With a key, so that the daemon does it once however often it is asked."""
    return {**body, "idempotencyKey": os.urandom(16).hex()}


def _show(daemon: Patient, options: Namespace) -> dict[str, Any]:
    return daemon.ask("GET", _path(options))


def _update(daemon: Patient, options: Namespace) -> dict[str, Any]:
    body: Body = {name: value for name in _FIELDS if (value := getattr(options, name)) is not None}
    if options.metadata or options.unset or options.no_metadata:
        body["metadata"] = merged({} if options.no_metadata else _metadata(daemon, options), options)
    return daemon.ask("PATCH", _path(options), body=_keyed(body))


def _metadata(daemon: Patient, options: Namespace) -> dict[str, str]:
    """As it is now: the API takes only the whole map."""
    session = _show(daemon, options).get("session")
    metadata = session.get("metadata") if isinstance(session, dict) else None
    if not isinstance(metadata, dict):
        raise Failure("invalid_answer", "the daemon did not say what the session's metadata is, so it was left alone.")
    return metadata


def _suspend(daemon: Patient, options: Namespace) -> dict[str, Any]:
    body: Body = {"ifIdle": True} if options.if_idle else {}
    return daemon.ask("POST", f"{_path(options)}/suspend", body=_keyed(body))


def _resume(daemon: Patient, options: Namespace) -> dict[str, Any]:
    return daemon.ask("POST", f"{_path(options)}/resume", body=_keyed({}))


def _archive(daemon: Patient, options: Namespace) -> dict[str, Any]:
    return daemon.ask("PATCH", _path(options), body=_keyed({"archived": options.action == "archive"}))


_WORK: Final[dict[str, Callable[[Patient, Namespace], dict[str, Any]]]] = {
    "show": _show,
    "update": _update,
    "suspend": _suspend,
    "resume": _resume,
    "archive": _archive,
    "unarchive": _archive,
}
