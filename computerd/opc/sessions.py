"""The caller's sessions: listing them, and finding or making the one to work in."""

from __future__ import annotations

import base64
import getpass
import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any, Final

from computerd.opc import locate, requests, say
from computerd.opc.failure import Failure, one_line
from computerd.opc.locate import Place
from computerd.opc.plain import json_line
from computerd.opc.say import Say

PAGE: Final = 100
"""Sessions of one answer: the API's limit."""
MAX_PAGES: Final = 50
"""Looked through for a session of one's own."""
MAX_TITLE: Final = 200
"""Characters of a title: the API's limit."""
COLUMNS: Final = ("ID", "STATUS", "TITLE", "OWNER", "LAST ACTIVE")
_STYLES: Final = {"running": "32", "waiting": "33", "suspended": "2"}


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """`opc sessions`, with whatever it is to do.

    Raises:
        Failure: It can't be done.
    """
    if options.action not in (None, "list"):
        from computerd.opc import session  # noqa: PLC0415  what a list does not need

        return session.run(options, env)
    return _list(options, env)


def _list(options: Namespace, env: Mapping[str, str]) -> int:
    settings = locate.configured(options, env)
    place = locate.locate(settings, env)
    found = listed(place, archived=options.all, limit=options.limit)
    if options.json:
        print(json_line({"sessions": found}))
        return 0
    color = say.colored(sys.stdout, settings.color.value, env)
    for line in table(found, color=color):
        print(line)
    return 0


def pages(place: Place, *, archived: bool, size: int = PAGE) -> Iterator[dict[str, Any]]:
    """The sessions, newest first.

    Raises:
        Failure: They can't be listed.
    """
    query = {"archived": "true" if archived else "false", "limit": str(min(size, PAGE))}
    for _ in range(MAX_PAGES):
        answer = requests.ask(place, "GET", "/sessions", query)
        found = answer.get("sessions")
        if not isinstance(found, list) or not all(isinstance(s, dict) and isinstance(s.get("id"), str) for s in found):
            raise Failure(
                "invalid_answer", f"{place.address.url} did not answer with a list of sessions. Check the URL."
            )
        yield from found
        cursor = answer.get("nextCursor")
        if not isinstance(cursor, str):
            return
        query["cursor"] = cursor


def listed(place: Place, *, archived: bool, limit: int) -> list[dict[str, Any]]:
    """Up to `limit` sessions, newest first, the archived ones too if asked.

    Raises:
        Failure: They can't be listed.
    """
    found: dict[str, dict[str, Any]] = {}
    for kind in (False, True) if archived else (False,):
        for count, session in enumerate(pages(place, archived=kind, size=limit), 1):
            found[session["id"]] = session
            if count >= limit:
                break
    newest = sorted(found.values(), key=lambda session: str(session.get("createdAt")), reverse=True)
    return newest[:limit]


def table(found: list[dict[str, Any]], *, color: bool) -> list[str]:
    """The lines that a person reads."""
    rows = [COLUMNS, *(_row(session) for session in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = []
    for place, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if color and place == 0:
            cells = [f"\x1b[1m{cell}\x1b[m" for cell in cells]
        elif color and (style := _STYLES.get(row[1])):
            cells[1] = f"\x1b[{style}m{cells[1]}\x1b[m"
        lines.append("  ".join(cells).rstrip())
    return lines


def status(session: Mapping[str, Any]) -> str:
    """A session's status in words."""
    return f"{session.get('status', '')}{', archived' if session.get('archived') else ''}"


def _row(session: dict[str, Any]) -> tuple[str, str, str, str, str]:
    owner = session.get("owner")
    person = owner if isinstance(owner, dict) else {}
    cells = (
        session["id"],
        status(session),
        session.get("title") or "-",
        person.get("name") or person.get("id") or "-",
        session.get("lastActiveAt") or "-",
    )
    return tuple(one_line(str(cell)) for cell in cells)  # type: ignore[return-value]  # as many as there are columns


def mine(place: Place, speaker: Say) -> str:
    """The id of the caller's newest session that is not archived, or of a new one.

    Raises:
        Failure: The daemon refused.
    """
    if (found := newest(place, speaker)) is not None:
        return found
    created = requests.ask(place, "POST", "/sessions", body={"title": title()}).get("session")
    if not isinstance(created, dict) or not isinstance(created.get("id"), str):
        raise Failure("invalid_answer", f"{place.address.url} did not answer with a session. Check the URL.")
    speaker.note(f"new session {created['id']}")
    return str(created["id"])


def newest(place: Place, speaker: Say) -> str | None:
    """The id of the caller's newest session that is not archived; None: there is none, or it can't be told who calls.

    Raises:
        Failure: The daemon refused.
    """
    member = subject(place.token)
    if member is not None:
        for session in pages(place, archived=False):
            owner = session.get("owner")
            if isinstance(owner, dict) and owner.get("id") == member and not session.get("archived"):
                speaker.detail(f"session {session['id']}")
                return str(session["id"])
    return None


def existing(named: str | None, place: Place, speaker: Say, verb: str) -> str:
    """The id of the session that was named, or of the caller's newest.

    Raises:
        Failure: There is none, or the daemon refused.
    """
    session = named or newest(place, speaker)
    if session is None:
        if subject(place.token) is None:
            next(iter(pages(place, archived=False)), None)  # it says what is wrong: the credential, or the address
        raise Failure(
            "session_not_found", f"you have no session. Name one: `opc {verb} SESSION …`; `opc sessions` lists them."
        )
    return session


def title() -> str:
    """What a session that is made here is called: who made it, and in which folder."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    try:
        folder = os.path.basename(os.getcwd()) or "/"
    except OSError:
        folder = "?"
    text = f"{folder} ({user})".encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return one_line(text)[:MAX_TITLE]


def subject(token: str | None) -> str | None:
    """Whom a token speaks for: its claim `sub`, not verified, which is the daemon's business; None when it can't be read."""
    parts = (token or "").split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    member = claims.get("sub") if isinstance(claims, dict) else None
    return member if isinstance(member, str) else None
