"""`opc version`: which client this is, and which daemon answers."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final

import computerd
from computerd.opc import link as links
from computerd.opc import locate, say
from computerd.opc.calls import Calls
from computerd.opc.failure import Failure
from computerd.opc.link import Link, Lost
from computerd.opc.locate import Place
from computerd.opc.websocket import Opcode

READY_SECONDS: Final = 5.0
"""For the daemon to say who it is."""


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Prints both versions; a daemon that can't be reached is no failure."""
    ready: dict[str, Any] | None = None
    failure: Failure | None = None
    url = None
    try:
        place = locate.locate(locate.configured(options, env), env)
        url = place.address.url
        ready = greeting(place)
    except Failure as error:
        failure = error
    server = (ready or {}).get("server") or {}
    if options.json:
        body = {
            "client": {"version": computerd.__version__},
            "server": {**server, "protocol": (ready or {}).get("protocol"), "url": url} if ready else None,
            "error": failure.body()["error"] if failure else None,
        }
        print(json.dumps(body, ensure_ascii=False))
    else:
        print(f"opc {computerd.__version__}")
        print(f"computerd {server.get('version')} at {url}" if ready else "computerd: not reached", flush=True)
    speaker = say.speaker(options.quiet, options.verbose, options.color or "auto", env)
    if failure is not None and not options.json:
        speaker.note(failure.message)
    elif server and server.get("version") != computerd.__version__:
        sys.stdout.flush()
        speaker.warn(
            f"client {computerd.__version__} and daemon {server.get('version')} are of different versions: update the older one."
        )
    return 0


def greeting(place: Place) -> dict[str, Any]:
    """The daemon's `ready`.

    Raises:
        Failure: It can't be reached, refused, or does not say it.
    """
    limit = time.monotonic() + READY_SECONDS
    try:
        with links.dial(place, os.urandom) as link:
            while (left := limit - time.monotonic()) > 0:
                ready = _next(link, left)
                if ready is not None:
                    return ready
    except Lost as lost:
        raise Failure("link_lost", str(lost)) from None
    raise Failure("invalid_answer", f"{place.address.url} did not say who it is within {READY_SECONDS:.0f} s.")


def _next(link: Link, left: float) -> dict[str, Any] | None:
    if not link.buffered:
        poll = select.poll()
        poll.register(link, select.POLLIN)
        poll.poll(left * 1000)
    for message in link.receive() or ():
        if message.opcode is Opcode.CLOSE:
            raise links.closed(message.payload)
        said = Calls().take(message.payload) if message.opcode is Opcode.TEXT else None
        if said is not None and said[0] == "ready":
            return said[1]
    return None
