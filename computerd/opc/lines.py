"""Events on standard output, one line each, at once.

Whoever reads it may be slow, or leave. While it does not take more, the caller brings no more; when nobody reads it any more, that is
noticed without a write, as tail(1) does.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from computerd.opc.streams import Sink

Event = dict[str, Any]
_GONE: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Lines:
    """Prints.

    Args:
        sink: Standard output.
        form: An event as a line, without its end.
        types: Those that are printed; None: all.

    Raises:
        BrokenPipeError: From every method: nobody reads any more.
        OSError: It can't be written.
    """

    def __init__(self, sink: Sink, form: Callable[[Event], str], types: Collection[str] | None) -> None:
        self._sink = sink
        self._form = form
        self._types = types

    @property
    def held_up(self) -> bool:
        """Whether a line waits to be taken."""
        return self._sink.waiting > 0

    def event(self, event: Event) -> None:
        """Prints an event, if it is of a type that is."""
        if self._types is None or event.get("type") in self._types:
            self._sink.write(f"{self._form(event)}\n".encode())

    def register(self, poll: select.poll) -> None:
        """Has `poll` look at it too: for room if a line waits, and for its end."""
        poll.register(self._sink, select.POLLOUT if self.held_up else 0)

    def ready(self, found: dict[int, int]) -> None:
        """Does what poll(2) found that can be done."""
        events = found.get(self._sink.fileno(), 0)
        if self.held_up and events:
            self._sink.flush()
        elif events & _GONE:
            raise BrokenPipeError

    def rest(self, seconds: float) -> None:
        """Waits so long, and prints what waits meanwhile."""
        limit = time.monotonic() + seconds
        while (left := limit - time.monotonic()) > 0:
            self._poll(left)

    def drain(self) -> None:
        """Waits until everything is printed."""
        while self.held_up:
            self._poll(None)

    def _poll(self, seconds: float | None) -> None:
        poll = select.poll()
        self.register(poll)
        self.ready(dict(poll.poll(None if seconds is None else seconds * 1000 + 1)))
