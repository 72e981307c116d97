"""`computerctl key`: the pair with which this host signs credentials."""

from __future__ import annotations

import argparse

from computerd.ctl import audit
from computerd.ctl.context import Context
from computerd.ctl.errors import CommandError
from computerd.net.keys import FOLDER, PRIVATE, make_pair
from computerd.net.signer import Signer


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    key = commands.add_parser("key", help="the host's signing key").add_subparsers(metavar="COMMAND", required=True)
    init = key.add_parser("init", parents=[common], help="make the key pair, unless it is there")
    init.set_defaults(run=_init)


def own_signer(context: Context) -> Signer:
    """What signs this host's credentials; the pair is made if it is missing.

    Raises:
        CommandError: Credentials for this host are made elsewhere.
        KeyProblem: The pair can't be used.
        JournalError, DamagedError: That it was made can't be written down.
    """
    if not context.config().auth.own_key:
        raise CommandError("auth.public_key is configured: credentials for this host are made where the private key is")
    folder = context.state() / FOLDER
    made = make_pair(folder, context.random)
    signer = Signer.load(folder / PRIVATE)
    if made:
        context.say(f"made the signing key {folder / PRIVATE}")
        audit.note(context, "key.created", subject=signer.kid)
    return signer


def _init(context: Context, arguments: argparse.Namespace) -> int:
    signer = own_signer(context)
    context.out(f"{context.state() / FOLDER / PRIVATE}  {signer.kid}")
    return 0
