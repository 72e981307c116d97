"""`computerctl token`: credentials of this host are made, listed and revoked."""

from __future__ import annotations

import argparse
import json
import re
from typing import Final

from computerd.contract.access import Scope
from computerd.contract.shapes import timestamp
from computerd.ctl import audit
from computerd.ctl.context import Context
from computerd.ctl.key import own_signer
from computerd.journal import credentials
from computerd.journal.credentials import Issued

_LABEL: Final = re.compile(r"[^\x00-\x1f\x7f]{1,255}")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_MAX_TTL: Final = 10 * 365 * 86400


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    token = commands.add_parser("token", help="credentials").add_subparsers(metavar="COMMAND", required=True)

    create = token.add_parser("create", parents=[common], help="print a new credential")
    create.add_argument("--member", required=True, type=_label, metavar="ID", help="the member that it speaks for")
    create.add_argument("--name", type=_label, help="the member's name")
    create.add_argument("--email", type=_label, help="the member's mail address")
    create.add_argument("--admin", action="store_true", help="it may do what any owner may")
    create.add_argument(
        "--scope", action="append", default=[], type=_scope, metavar="SCOPE",
        help=f"what it is good for, repeatable: {', '.join(Scope)}",
    )  # fmt: skip
    create.add_argument(
        "--ttl", type=_ttl, metavar="TIME", help="how long it is good for, such as 8h or 30d; without it, until revoked"
    )
    create.set_defaults(run=_create)

    revoke = token.add_parser("revoke", parents=[common], help="end a credential, or all of a member's")
    which = revoke.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "jti", nargs="?", type=_label, metavar="JTI", help="the credential's id, as `token list` shows it"
    )
    which.add_argument(
        "--member", type=_label, metavar="ID", help="every credential that the member was issued up to now"
    )
    revoke.set_defaults(run=_revoke)

    listing = token.add_parser("list", parents=[common], help="show what was issued, the newest first")
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.set_defaults(run=_list)


def _label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise argparse.ArgumentTypeError("must have 1 to 255 characters and no control characters")
    return text


def _scope(text: str) -> Scope:
    if text not in list(Scope):
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(Scope)}, not {text!r}")
    return Scope(text)


def _ttl(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= _MAX_TTL:
        raise argparse.ArgumentTypeError("must be a number with s, m, h, d or w, such as 8h, up to 10 years")
    return seconds


def _create(context: Context, arguments: argparse.Namespace) -> int:
    signer = own_signer(context)
    minted = signer.mint(
        arguments.member,
        name=arguments.name,
        email=arguments.email,
        admin=arguments.admin,
        scopes=arguments.scope,
        ttl=arguments.ttl,
        now=context.now(),
        random=context.random,
    )
    # Written down first: what was given out can then be listed and revoked, whatever happens.
    credentials.issue(
        context.journal(),
        Issued(
            token_id=minted.token_id,
            member=arguments.member,
            name=arguments.name,
            email=arguments.email,
            admin=arguments.admin,
            scopes=tuple(sorted(set(arguments.scope))),
            issued_at=minted.issued_at,
            expires_at=minted.expires_at,
        ),
    )
    audit.note(context, "token.created", member=arguments.member, token_id=minted.token_id)
    if not arguments.scope:
        context.say(
            f"this credential has no scope and opens nothing but GET /metrics; --scope gives it one of {', '.join(Scope)}"
        )
    context.out(minted.token)
    return 0


def _revoke(context: Context, arguments: argparse.Namespace) -> int:
    ended = credentials.revoke(context.journal(), token_id=arguments.jti, member=arguments.member, at=context.now())
    context.say(f"revoked; credentials of this host's list that were good until now: {ended}")
    audit.note(context, "token.revoked", member=arguments.member, token_id=arguments.jti)
    return 0


def _list(context: Context, arguments: argparse.Namespace) -> int:
    issued = credentials.issued(context.journal())
    rows = [_row(item, context.now()) for item in issued]
    if arguments.json:
        context.out(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    if not rows:
        context.say("no credential was issued here")
        return 0
    lines = [["JTI", "MEMBER", "STATE", "EXPIRES", "SCOPES"]]
    lines += [
        [str(row[key] or "never") for key in ("id", "member", "state", "expiresAt")] + [_scopes(row)] for row in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(4)] + [0]
    for line in lines:
        context.out("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0


def _scopes(row: dict[str, object]) -> str:
    scopes = row["scopes"] if isinstance(row["scopes"], list) else []
    return " ".join([*(["admin"] if row["admin"] else []), *scopes])


def _row(item: Issued, now: float) -> dict[str, object]:
    expired = item.expires_at is not None and item.expires_at <= now
    return {
        "id": item.token_id,
        "member": item.member,
        "name": item.name,
        "email": item.email,
        "admin": item.admin,
        "scopes": list(item.scopes),
        "issuedAt": timestamp(item.issued_at),
        "expiresAt": None if item.expires_at is None else timestamp(item.expires_at),
        "state": "revoked" if item.revoked else "expired" if expired else "good",
    }
