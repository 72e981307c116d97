"""Asks a daemon who it is: the `ready` that begins every connection says it."""

from __future__ import annotations

import select
import time
from typing import Any, Final

from computerd.opc import link as links
from computerd.opc.calls import Calls
from computerd.opc.failure import Failure
from computerd.opc.link import Link, Lost
from computerd.opc.locate import Place
from computerd.opc.websocket import Text

READY_SECONDS: Final = 5.0
"""For the daemon to say who it is."""


def greeting(place: Place) -> dict[str, Any]:
    """The daemon's `ready`.

    Raises:
        Failure: It can't be reached, refused, or does not say it.
    """
    limit = time.monotonic() + READY_SECONDS
    try:
        with links.dial(place) as link:
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
        said = Calls().take(message.data) if isinstance(message, Text) else None
        if said is not None and said[0] == "ready":
            return said[1]
    return None
