"""What runs in sessions, without an operating system."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred, succeed


@define(eq=False)
class FakeProcesses:
    """`Processes` that a test plays.

    Attributes:
        open: Sessions with a terminal.
        ended: In which everything was ended, in order.
        on_end: Called with the session before that is done.
        slow: An end waits until a test calls `release`.
    """

    open: set[str] = field(factory=set)
    ended: list[str] = field(factory=list)
    on_end: Callable[[str], object] = lambda session_id: None
    slow: bool = False
    waiting: list[Deferred[None]] = field(factory=list)

    def busy(self, session_id: str) -> bool:
        """See `Processes`."""
        return session_id in self.open

    def end(self, session_id: str) -> Deferred[None]:
        """See `Processes`."""
        self.ended.append(session_id)
        self.open.discard(session_id)
        self.on_end(session_id)
        if not self.slow:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self.waiting.append(done)
        return done

    def release(self) -> None:
        """Lets the oldest end that waits be done."""
        self.waiting.pop(0).callback(None)
