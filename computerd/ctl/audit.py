"""`computerctl audit`: who did what on this host; and how computerctl itself writes down what it does."""

from __future__ import annotations

import argparse
import pwd
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from computerd.api.audit import Entry
from computerd.contract.shapes import timestamp
from computerd.ctl.context import Context
from computerd.journal import audit
from computerd.journal.audit import Line
from computerd.opc.plain import json_line, visible

DAMAGED: Final = 1
"""Status: some rows are not what was written, or are missing. grep(1), diff(1) and doctor use it the same way: look."""
DEFAULT_LIMIT: Final = 1000
_MAX_LIMIT: Final = 1_000_000
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_HEAD: Final = ("TIME", "ACTION", "RESULT", "MEMBER", "TOKEN", "SESSION", "SUBJECT")
_UNSET_LOGIN: Final = 0xFFFFFFFF
"""In /proc/self/loginuid: nobody has logged in (proc(5))."""

_Moment = Callable[[float], float]
"""From now to a time, both in seconds since the epoch."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "audit", parents=[common], help="show who did what, the newest last; status 1 if rows are damaged or missing"
    )
    command.add_argument("--since", type=_moment, metavar="TIME", help="from then on: 2h ago, or 2026-11-30T09:00Z")
    command.add_argument("--until", type=_moment, metavar="TIME", help="before that time")
    command.add_argument("--member", metavar="ID", help="what this member did")
    command.add_argument("--session", metavar="ID", help="what was done to this session")
    command.add_argument("--action", metavar="NAME", help="such as terminals.open or credential.refused")
    command.add_argument(
        "--limit", type=_limit, default=DEFAULT_LIMIT, metavar="N", help=f"the newest N; {DEFAULT_LIMIT} without it"
    )
    command.add_argument("--json", action="store_true", help="one JSON object a line")
    command.set_defaults(run=_run)


def note(
    context: Context,
    action: str,
    *,
    member: str | None = None,
    token_id: str | None = None,
    subject: str | None = None,
) -> None:
    """Writes down what this program did, and who ran it. On the disk when it returns.

    Raises:
        JournalError: The journal can't be used.
        DamagedError: It is broken.
    """
    by = _who(context.uid)
    text = by if subject is None else f"{subject}, {by}"
    audit.append(
        context.journal(),
        Entry(at=context.now(), action=action, member=member, token_id=token_id, subject=text),
    )


def _who(uid: int) -> str:
    """The user of the process, and the one who logged in, which sudo(8) and su(1) do not change (pam_loginuid(8))."""
    who = f"by {_login(uid)}"
    with suppress(OSError, ValueError):
        first = int(Path("/proc/self/loginuid").read_text())
        if first not in (uid, _UNSET_LOGIN):
            who += f", logged in as {_login(first)}"
    return who


def _login(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _moment(text: str) -> _Moment:
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", text)
    if found:
        ago = int(found[1]) * _UNITS[found[2]]
        return lambda now: now - ago
    try:
        moment = datetime.fromisoformat(text)
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            "must be how long ago, with s, m, h, d or w, such as 2h, or a time such as 2026-11-30T09:00Z"
        ) from None
    return lambda now: at


def _limit(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text) or not 1 <= int(text) <= _MAX_LIMIT:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {_MAX_LIMIT}")
    return int(text)


def _run(context: Context, arguments: argparse.Namespace) -> int:
    now = context.now()
    lines = audit.entries(
        context.journal(),
        since=None if arguments.since is None else arguments.since(now),
        until=None if arguments.until is None else arguments.until(now),
        member=arguments.member,
        session_id=arguments.session,
        action=arguments.action,
        limit=arguments.limit,
    )
    for text in _as_json(lines) if arguments.json else _as_table(lines):
        context.out(text)
    damaged = sum(not line.sound for line in lines)
    if damaged:
        context.say(f"{damaged} of these rows are not what was written: somebody has changed them, or the disk has")
    missing = 0
    # whoever asks for some does not see the others, and a clock that was set back mixes up times
    if not any(getattr(arguments, name) for name in ("since", "until", "member", "session", "action")):
        missing = sum(later.number - earlier.number - 1 for earlier, later in pairwise(lines))
    if missing:
        context.say(f"{missing} rows are missing among these: taken away, or lost with a damaged journal")
    if not lines:
        context.say("nothing was done here that this asks for")
    return DAMAGED if damaged or missing else 0


def _as_json(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        entry = line.entry
        yield json_line(
            {
                "number": line.number,
                "time": _time(entry.at),
                "action": entry.action,
                "result": entry.result,
                "member": entry.member,
                "tokenId": entry.token_id,
                "sessionId": entry.session_id,
                "subject": entry.subject,
                "count": entry.count,
                "sound": line.sound,
            }
        )


def _as_table(lines: Iterable[Line]) -> Iterator[str]:
    rows = [_cells(line) for line in lines]
    if not rows:
        return
    table = [_HEAD, *rows]
    # the last column is as long as it likes
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEAD) - 1)] + [0]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(line: Line) -> tuple[str, ...]:
    entry = line.entry
    often = "" if entry.count == 1 else f" ({entry.count} times)"
    mark = "" if line.sound else "DAMAGED "
    return (
        _time(entry.at),
        visible(entry.action),
        visible(entry.result),
        visible(entry.member or "-"),
        visible(entry.token_id or "-"),
        visible(entry.session_id or "-"),
        f"{mark}{visible(entry.subject or '-')}{often}",
    )


def _time(seconds: float) -> str:
    try:
        return timestamp(seconds)
    except (ValueError, OverflowError, OSError):
        # of a damaged row
        return "?"
