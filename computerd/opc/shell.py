"""`opc shell` and `opc exec`: a terminal of the daemon on this process's streams."""

from __future__ import annotations

import contextlib
import os
import re
import time
from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from computerd.opc import link as links
from computerd.opc import locate, say, sessions, words
from computerd.opc import tty as ttys
from computerd.opc.ends import Ends
from computerd.opc.keys import Escapes
from computerd.opc.link import Link
from computerd.opc.locate import Place
from computerd.opc.modes import Modes
from computerd.opc.plan import Ending, Plan
from computerd.opc.relay import Relay
from computerd.opc.remote import Remote
from computerd.opc.say import Say
from computerd.opc.signals import Signals
from computerd.opc.streams import Sink, Source, sanitise
from computerd.opc.tty import Tty
from computerd.opc.window import Window

_TERM: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}")


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Runs the verb. Returns the program's exit code, 128 + its signal, or 255.

    Raises:
        Failure: There is no daemon, it refused, or the options can't be followed.
    """
    sanitise()
    settings = locate.configured(options, env)
    speaker = say.speaker(options.quiet, options.verbose, settings.color.value, env)
    from_tty = not options.no_input and os.isatty(0)
    tty = wants_tty(options, from_tty)
    if options.tty == 1 and not tty:
        speaker.warn("standard input is not a terminal, so there is none for the command either; -tt forces one.")
    place = locate.locate(settings, env)
    if place.address.exposed and place.token is not None:
        speaker.warn(
            f"the token and all you type cross the network in clear; use wss:// instead of {place.address.url}."
        )
    command = words.command_line(options.command)
    plan = Plan(
        session=options.session or sessions.mine(place, speaker),
        command=command,
        tty=tty,
        size=options.size or ttys.size((1, 0, 2)),
        fixed=options.size is not None,
        term=_term(options.term, env, speaker) if tty else None,
    )
    local = Tty(0) if tty and from_tty else None
    escape = settings.escape.value.encode() if local is not None and settings.escape.value != "none" else None
    return _relay(place, plan, options.no_input, local, Escapes(escape), speaker)


def wants_tty(options: Namespace, from_tty: bool) -> bool:
    """Whether the remote program gets a tty: `shell` as standard input has one, `exec` if asked; -T never, -tt always."""
    if options.no_tty:
        return False
    if options.tty >= 2:
        return True
    return from_tty and (options.tty == 1 or options.verb == "shell")


def _term(flag: str | None, env: Mapping[str, str], speaker: Say) -> str | None:
    if flag is not None:
        return flag
    term = env.get("TERM", "")
    if not _TERM.fullmatch(term):
        speaker.detail(f"TERM={term!r} is no name of a terminal; the daemon's default is used.")
        return None
    return term


def _relay(place: Place, plan: Plan, no_input: bool, local: Tty | None, escapes: Escapes, speaker: Say) -> int:
    speaker.detail(f"connecting to {place.address.url} (from {place.origin})")
    if local is not None:
        speaker.raw = lambda: local.is_raw
    with links.dial(place) as link:
        ending = _joined(link, plan, no_input, local, escapes, speaker)
    if ending.message is not None:
        speaker.error(ending.message)
    return ending.status


def _joined(link: Link, plan: Plan, no_input: bool, local: Tty | None, escapes: Escapes, speaker: Say) -> Ending:
    """Runs the relay, and puts the user's terminal in order whatever happens."""
    modes = Modes() if plan.tty and os.isatty(1) else None
    measure = (lambda: ttys.size((1, 0, 2))) if local is not None and not plan.fixed else None
    source = None if no_input else Source(0)
    ends = Ends(source, Sink(1), Sink(2), local, escapes, Window(plan.size, measure), modes)
    try:
        with Signals(lambda: local.restore(now=True) if local is not None else None) as signals:
            remote = Remote(link, plan, time.monotonic())
            normal = False
            try:
                ending = Relay(link, remote, ends, signals, speaker, time.monotonic).run()
                normal = not ending.abnormal
                return ending
            finally:
                _leave(ends.out, local, None if normal else modes, speaker)
    finally:
        ends.out.close()
        ends.err.close()


def _leave(out: Sink, local: Tty | None, modes: Modes | None, speaker: Say) -> None:
    """Undoes what the program switched on, if `modes` are given, and restores the terminal."""
    was_raw = local is not None and local.is_raw
    if modes is not None:
        own_screen = modes.alternate_screen
        with contextlib.suppress(OSError):
            out.write(modes.undo())
        if was_raw and not own_screen:
            speaker.text("\n")
    if local is not None:
        local.restore(now=modes is not None)
