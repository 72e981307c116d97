"""The command line of `opc`, as data for argparse; help and the shells' completion come from the same parser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import computerd
from computerd.opc import fileverbs, values, words
from computerd.opc.failure import OWN_FAILURE, USAGE
from computerd.opc.settings import COLORS

TERMINAL_VERBS: Final = ("shell", "exec")
_STATUS: Final = (
    "It ends with the command's exit code, 128 + the number of the signal that ended it, or 255 if opc itself failed."
)


class _Parser(argparse.ArgumentParser):
    """One whose usage errors can have a status of their own: 2 could be the remote program's."""

    status = USAGE

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.status, f"{self.prog}: {message}\n")


class _NeverHere(argparse.Action):
    """An option that people try, and that there must not be."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.error("other users can read a command line, so no token may stand there: use --token-file or OPC_TOKEN")


def parser() -> argparse.ArgumentParser:
    """The whole parser. What it makes of a `shell` or `exec` is completed by `parse`."""
    common = _common(argparse.SUPPRESS)
    top = _Parser(
        prog="opc",
        description="Works in sessions of a computerd: terminals, commands, and what there is to know about them.",
        epilog="`opc VERB --help` says more. The daemon is found by --url, OPC_URL, opc/config.toml, or on this host.",
        parents=[_common(None)],
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"opc {computerd.__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)

    def verb(name: str, summary: str, **more: Any) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=summary, parents=[common], allow_abbrev=False, **more)

    shell = verb(
        "shell",
        "open a terminal in a session",
        usage="opc shell [SESSION] [-t | -T] [-e CHAR] [-n] [--size CxR] [--term NAME] [--] [COMMAND [ARG ...]]",
        description="Opens a terminal in the session, or in your newest one, and makes one if there is none. Without a command: "
        f"the login shell. It is a tty if standard input is one. {_STATUS}",
        epilog="At the beginning of a line, ~? lists the escapes.",
    )
    _terminal(shell)
    execute = verb(
        "exec",
        "run a command in a session",
        usage="opc exec [SESSION] [-t] [-n] [--size CxR] [--term NAME] [--] COMMAND [ARG ...]",
        description="Runs a command in the session, or in your newest one, on pipes unless -t is given. One word is passed to the "
        f"shell as it is; of several, each arrives as one word. {_STATUS}",
    )
    _terminal(execute)
    _sessions(
        verb(
            "sessions",
            "list, show and change sessions",
            usage="opc sessions [list] [--all] [--limit N] [--json]\n"
            "       opc sessions show|update|suspend|resume|archive|unarchive ID ...",
            description="Lists sessions, newest first, or does one of the actions. `opc sessions ACTION --help` says more.",
        ),
        common,
    )
    _events(
        verb(
            "events",
            "print a session's events",
            description="Prints the events of the session, or of your newest one, and leaves; with -f it follows them for ever, through "
            "restarts of the daemon and breaks of the connection, without losing or repeating a line.",
            epilog="It ends with 0, 255 if it failed, 130 after Ctrl-C, or 141 when nobody reads its output any more.",
        )
    )
    fileverbs.add(verb)
    schema = verb(
        "schema",
        "print the API's schema",
        description="Prints the API's JSON Schema, or one object, method or table of it.",
    )
    schema.add_argument("object", nargs="?", metavar="OBJECT", help="such as Session, terminals.open or errors")
    _json(verb("version", "print the versions of client and daemon"))
    completion = verb(
        "completion",
        "print a shell's completion script",
        description='Prints a completion script. For bash: eval "$(opc completion bash)".',
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    config = verb("config", "show the settings")
    actions = config.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Parser)
    show = actions.add_parser("show", help="print every setting", parents=[common], allow_abbrev=False)
    show.add_argument("--origin", action="store_true", help="and where each comes from")
    _json(show)
    return top


def _common(default: Any) -> _Parser:
    """What goes with every verb, before or after it. After it, what is not given does not count."""
    common = _Parser(add_help=False, allow_abbrev=False)
    group = common.add_argument_group("which daemon, and how to speak")
    group.add_argument("--url", default=default, help="where the daemon is, such as wss://host.example")
    group.add_argument("--token-file", default=default, metavar="FILE", help="holds the token; nobody else may read it")
    group.add_argument("--token", action=_NeverHere, help=argparse.SUPPRESS)
    group.add_argument("--host", default=default, metavar="NAME", help="a profile of the configuration")
    group.add_argument("--color", choices=COLORS, default=default, help="whether to colour (default: auto)")
    group.add_argument("-q", "--quiet", action="store_true", default=default or False, help="say only what went wrong")
    group.add_argument("-v", "--verbose", action="count", default=default or 0, help="say more; -vv says all")
    return common


def _terminal(verb: argparse.ArgumentParser) -> None:
    if isinstance(verb, _Parser):
        verb.status = OWN_FAILURE
    verb.add_argument("-t", "--tty", action="count", default=0, help="a tty; -tt also if standard input is none")
    verb.add_argument("-T", "--no-tty", action="store_true", help="pipes, never a tty")
    verb.add_argument("-e", "--escape", metavar="CHAR", help="the escape character, or none (default: ~)")
    verb.add_argument("-n", "--no-input", action="store_true", help="do not read standard input")
    verb.add_argument("--size", type=values.size, metavar="CxR", help="columns and rows, whatever the window has")
    verb.add_argument("--term", type=values.term, metavar="NAME", help="the value of TERM there (default: as here)")
    verb.add_argument("session", nargs="?", metavar="SESSION", help="its id, cs_…")
    verb.add_argument("command", nargs="*", metavar="COMMAND", help="what to run, and its arguments")


def _list(verb: argparse.ArgumentParser, default: Any) -> None:
    """The options of a list. They stand before the action or after it, and after it what is not given does not count."""

    def of(value: Any) -> Any:
        return value if default is None else default

    verb.add_argument("--json", action="store_true", default=of(False), help="print JSON, errors too")
    verb.add_argument("--all", action="store_true", default=of(False), help="the archived ones too")
    verb.add_argument("--limit", type=values.count, default=of(50), metavar="N", help="how many at most (default: 50)")


def _sessions(sessions: argparse.ArgumentParser, common: _Parser) -> None:
    _list(sessions, None)
    actions = sessions.add_subparsers(dest="action", metavar="ACTION", prog="opc sessions", parser_class=_Parser)

    def action(name: str, summary: str, more: str = "") -> argparse.ArgumentParser:
        return actions.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.{more}",
            parents=[common],
            allow_abbrev=False,
        )

    def on_one(name: str, summary: str, more: str = "") -> argparse.ArgumentParser:
        one = action(name, summary, more)
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON, errors too")
        one.add_argument("id", type=values.identifier, metavar="ID", help="the session's id, cs_…")
        return one

    _list(action("list", "list sessions, newest first"), argparse.SUPPRESS)
    on_one("show", "show all of a session")
    _update(
        on_one(
            "update",
            "change a session's title, settings or metadata",
            " The API replaces all of the metadata at once: opc reads what is there, changes that, and sends it whole, so what somebody else sets "
            "in the same moment is lost.",
        )
    )
    suspend = on_one("suspend", "end what is left of a session's processes", " What opens a terminal resumes it.")
    suspend.add_argument("--if-idle", action="store_true", help="only if nothing runs in it")
    on_one("resume", "make a suspended session ready again")
    on_one("archive", "put a session away", " What is left of its processes ends.")
    on_one("unarchive", "take a session out of the archive")


def _update(update: argparse.ArgumentParser) -> None:
    update.add_argument("--title", metavar="TEXT", help="1 to 200 characters")
    update.add_argument("--speed", choices=("fast", "standard"), help="how fast its turns run")
    update.add_argument("--model", metavar="NAME", help="what its turns run with")
    update.add_argument("--effort", metavar="NAME", help="the model's effort")
    update.add_argument("--mode", metavar="NAME", help="the agent's mode")
    update.add_argument(
        "--metadata",
        type=values.pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set one pair and keep the others; the value may be empty (repeatable)",
    )
    update.add_argument(
        "--unset", action="append", default=[], metavar="KEY", help="remove one pair of the metadata (repeatable)"
    )
    update.add_argument("--no-metadata", action="store_true", help="remove all pairs but those that --metadata sets")


def _events(events: argparse.ArgumentParser) -> None:
    events.add_argument("-f", "--follow", action="store_true", help="go on for ever with what happens next")
    events.add_argument("--json", action="store_true", help="print each event as JSON, as the API gave it")
    events.add_argument(
        "--type", action="append", type=values.event_type, metavar="T", help="only events of this type (repeatable)"
    )
    where = events.add_mutually_exclusive_group()
    where.add_argument(
        "--after", type=values.sequence, metavar="SEQ", help="only what comes after this event (default: 0)"
    )
    where.add_argument(
        "--tail",
        type=values.sequence,
        metavar="N",
        help="begin with the last N events, of whatever type; 0 with -f: only what is new",
    )
    events.add_argument("session", nargs="?", type=values.identifier, metavar="SESSION", help="its id, cs_…")


def _json(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--json", action="store_true", help="print JSON, errors too")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for.

    Raises:
        SystemExit: It asks for help, or for nothing that there is: status 2, or 255 for `shell` and `exec`.
    """
    top = parser()
    before, verb, after = _split(top, arguments)
    if verb in fileverbs.VERBS:
        named = _verbs(top)[verb]
        flags, rest = words.apart(after, _valued(named))
        options = top.parse_args([*before, verb, *flags])
        fileverbs.assign(named, options, rest)
        return options
    if verb not in TERMINAL_VERBS:
        options = top.parse_args(arguments)
        _check(top, options)
        return options
    parsers = _verbs(top)
    sorted_words = words.sort(after, _valued(parsers[verb]))
    options = top.parse_args([*before, verb, *sorted_words.flags])
    options.session, options.command = sorted_words.session, sorted_words.command
    if verb == "exec" and not options.command:
        parsers[verb].error("say which COMMAND to run; `opc shell` opens a shell")
    if any("\0" in word for word in options.command) or options.command == [""]:
        parsers[verb].error("a COMMAND can't be empty")
    return options


def _check(top: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """What argparse can't say of a command line."""
    if options.verb == "sessions" and options.action == "update":
        told = (options.title, options.speed, options.model, options.effort, options.mode)
        if all(value is None for value in told) and not (options.metadata or options.unset or options.no_metadata):
            update = _verbs(_verbs(top)["sessions"])["update"]
            update.error("say what to change, such as --title; `opc sessions update --help` lists what can be")


def _split(top: argparse.ArgumentParser, arguments: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """The options before the verb, the verb, and what follows it."""
    valued = _valued(top)
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        place += 2 if words.takes_next(arguments[place], valued) else 1
    if place >= len(arguments):
        return list(arguments), None, []
    return list(arguments[:place]), arguments[place], list(arguments[place + 1 :])


def _valued(verb: argparse.ArgumentParser) -> set[str]:
    """The options whose value is the next word."""
    return {name for action in verb._actions if action.nargs is None for name in action.option_strings}


def _verbs(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the parser has verbs")
