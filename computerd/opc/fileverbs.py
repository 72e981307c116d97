"""The command lines of `opc push`, `pull`, `ls` and `cat`: their options, and what their words mean."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from computerd.opc import words

VERBS: Final = ("push", "pull", "ls", "cat")
_FILE: Final = {
    "bash": "_shtab_compgen_files",
    "zsh": "_files",
    "fish": "(__fish_complete_path (commandline -ct))",
}
"""For shtab: the shells complete a file's name here."""
_SCP: Final = re.compile(r"cs_\w{16}:")
"""How scp and kubectl would have a session and a path."""
_WHOLE: Final = "It lands whole or not at all."
_STATUS: Final = "It ends with 0, 255 if it failed, or 130 after Ctrl-C."

Verb = Callable[..., argparse.ArgumentParser]


def add(verb: Verb) -> None:
    """Adds them, each by `verb(name, summary, …)`."""
    _push(
        verb(
            "push",
            "send a folder or file to a session",
            usage="opc push [SESSION] [-f] [-C] [--gitignore] [--dry-run] [--json] SRC [DEST]",
            description="Makes the folder DEST of the session's workspace from the folder SRC of this host; from a file SRC, a folder that holds "
            f"it; from -, of the tar archive on standard input. {_WHOLE} Without DEST, it is called as SRC; DEST/ means in DEST. "
            "Without a session, it is your newest, or a new one.",
            epilog=f"What is there already with the same sizes and times is not sent again. {_STATUS}",
        )
    )
    _pull(
        verb(
            "pull",
            "fetch a folder or file from a session",
            usage="opc pull [SESSION] [-f] [-C] [--dry-run] SRC [DEST]",
            description="Makes DEST on this host from the folder or file SRC of the session's workspace; with DEST -, writes a tar archive to "
            f"standard output. {_WHOLE} Without DEST, it is called as SRC; DEST/ and . mean in that folder.",
            epilog=f"Files that are here already with the same sizes and times need not be fetched again. {_STATUS}",
        )
    )
    listing = verb(
        "ls",
        "list a folder of a session",
        usage="opc ls [SESSION] [-R] [--json] [PATH]",
        description="Lists a folder of the session's workspace, or the workspace itself: mode, size, local time, name.",
    )
    listing.add_argument("-l", "-a", action="store_true", help="accepted, and always so: the long form, with all names")
    listing.add_argument("-R", "--recursive", action="store_true", help="and all that is below it")
    listing.add_argument("--json", action="store_true", help="print JSON, errors too")
    _session(listing)
    listing.add_argument("path", nargs="?", metavar="PATH", help="in the workspace")
    cat = verb(
        "cat",
        "print a file of a session",
        usage="opc cat [SESSION] [-f] PATH ...",
        description="Writes files of the session's workspace to standard output as they are. To a terminal it writes nothing that would steer it.",
    )
    cat.add_argument("-f", "--force", action="store_true", help="write whatever it is, to a terminal too")
    _session(cat)
    cat.add_argument("paths", nargs="*", metavar="PATH", help="in the workspace")


def _push(push: argparse.ArgumentParser) -> None:
    push.add_argument("-f", "--force", action="store_true", help="replace DEST, as a whole, if it is there")
    push.add_argument("-C", "--compress", action="store_true", help="compress on the way (gzip)")
    push.add_argument("--gitignore", action="store_true", help="leave out what git would ignore, and .git")
    push.add_argument("-n", "--dry-run", action="store_true", help="only list what would be sent")
    push.add_argument("--json", action="store_true", help="print JSON, errors too")
    _local(_session(push))  # a session is named by few; the word is SRC then
    _local(push.add_argument("source", nargs="?", metavar="SRC", help="here; - for an archive on standard input"))
    push.add_argument("dest", nargs="?", metavar="DEST", help="in the workspace")


def _pull(pull: argparse.ArgumentParser) -> None:
    pull.add_argument("-f", "--force", action="store_true", help="replace DEST, as a whole, if it is there")
    pull.add_argument("-C", "--compress", action="store_true", help="compress on the way (gzip)")
    pull.add_argument("-n", "--dry-run", action="store_true", help="only list what would be fetched")
    _session(pull)
    _local(pull.add_argument("source", nargs="?", metavar="SRC", help="in the workspace"))  # or DEST
    _local(pull.add_argument("dest", nargs="?", metavar="DEST", help="here; - for an archive on standard output"))


def _session(verb: argparse.ArgumentParser) -> argparse.Action:
    return verb.add_argument("session", nargs="?", metavar="SESSION", help="its id, cs_…")


def _local(action: argparse.Action) -> None:
    action.complete = _FILE  # type: ignore[attr-defined]  # an attribute that shtab looks for


def assign(verb: argparse.ArgumentParser, options: argparse.Namespace, given: Sequence[str]) -> None:
    """Sets what the words that are no options mean: the session is the first, if it looks like one.

    Raises:
        SystemExit: There are too many or too few.
    """
    rest = list(given)
    for word in rest:
        if _SCP.match(word):
            verb.error(
                f"the session is a word of its own: {word.replace(':', ' ', 1)}; a name with a colon is ./{word}"
            )
    options.session = rest.pop(0) if rest and rest[0].startswith(words.PREFIX) else None
    if any("\0" in word for word in rest) or (rest and rest[0] == "" and options.verb != "ls"):
        verb.error("a path can't be empty")
    _ASSIGN[options.verb](verb, options, rest)


def _assign_two(verb: argparse.ArgumentParser, options: Any, rest: list[str]) -> None:
    if not 1 <= len(rest) <= 2:
        hint = f"; a file that is called so is ./{options.session}" if not rest and options.session else ""
        verb.error(f"say SRC, and DEST if need be{hint}")
    options.source, options.dest = rest[0], rest[1] if len(rest) == 2 else None
    if options.dest == "":
        verb.error("a path can't be empty")


def _assign_push(verb: argparse.ArgumentParser, options: Any, rest: list[str]) -> None:
    _assign_two(verb, options, rest)
    if options.source == "-" and options.dest is None:
        verb.error("say what the new folder is to be called: opc push - DEST")
    if options.source == "-" and (options.dry_run or options.gitignore):
        verb.error("--dry-run and --gitignore are for files, not for an archive on standard input")


def _assign_ls(verb: argparse.ArgumentParser, options: Any, rest: list[str]) -> None:
    if len(rest) > 1:
        verb.error("say one PATH")
    options.path = rest[0] if rest else ""


def _assign_cat(verb: argparse.ArgumentParser, options: Any, rest: list[str]) -> None:
    if not rest:
        verb.error("say which PATH to print")
    options.paths = rest


_ASSIGN: Final = {"push": _assign_push, "pull": _assign_two, "ls": _assign_ls, "cat": _assign_cat}
