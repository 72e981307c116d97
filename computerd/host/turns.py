"""One piece of work a turn of the reactor, so that others have theirs in between.

Starting a program takes 3 ms, and a client may ask for 100 at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime

T = TypeVar("T")


@define(eq=False)
class Turns:
    """Work that waits for its turn, in order."""

    _reactor: IReactorTime
    _waiting: deque[Deferred[None]] = field(factory=deque, init=False)
    _next: IDelayedCall | None = field(default=None, init=False)

    def take(self, work: Callable[[], Deferred[T]]) -> Deferred[T]:
        """Does `work`, at once if none was done in this turn. Cancelled before its turn, it is never done."""
        if self._next is None:
            self._next = self._reactor.callLater(0, self._go_on)
            return succeed(None).addCallback(lambda _: work())
        turn: Deferred[None] = Deferred()
        self._waiting.append(turn)
        return turn.addCallback(lambda _: work())

    def _go_on(self) -> None:
        self._next = None
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.called:
                self._next = self._reactor.callLater(0, self._go_on)
                turn.callback(None)
                return

    def end(self) -> None:
        """Gives all that waits its turn now."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        waiting, self._waiting = self._waiting, deque()
        for turn in waiting:
            if not turn.called:
                turn.callback(None)
