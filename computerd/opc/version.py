"""`opc version`: which client this is, and which daemon answers."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import computerd
from computerd.opc import locate, say
from computerd.opc.failure import Failure


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Prints both versions; a daemon that can't be reached is no failure."""
    ready: dict[str, Any] | None = None
    failure: Failure | None = None
    url = None
    try:
        place = locate.locate(locate.configured(options, env), env)
        url = place.address.url
        from computerd.opc.greeting import greeting  # noqa: PLC0415  60 ms, and only if there is somebody to greet

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
