"""Work that is done again and again, with a pause between the end of one round and the beginning of the next."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure


@define(eq=False)
class Rounds:
    """Rounds of one kind of work. A round that fails is logged, and the next one comes all the same.

    Attributes:
        clock: Monotonic.
        work: One round.
        failed: What the log says when one fails.
    """

    clock: IReactorTime
    work: Callable[[], Coroutine[Deferred[Any], Any, None]]
    failed: str
    _period: float = field(default=0.0, init=False)
    _running: bool = field(default=False, init=False)
    _timer: IDelayedCall | None = field(default=None, init=False)
    _round: Deferred[None] | None = field(default=None, init=False)
    _log: Logger = field(factory=Logger, init=False)

    def start(self, first: float, period: float) -> None:
        """Plans the first round in `first` seconds, and each other one `period` seconds after the end of the one before."""
        self._running, self._period = True, period
        self._plan(first)

    def stop(self) -> None:
        """Gives up the round that is on, and plans no more."""
        self._running = False
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self._round is not None:
            self._round.cancel()

    def _plan(self, seconds: float) -> None:
        if self._running:
            self._timer = self.clock.callLater(seconds, self._begin)

    def _begin(self) -> None:
        self._round = ensureDeferred(self.work())
        self._round.addErrback(self._ended_badly)
        self._round.addCallback(lambda _: self._plan(self._period))

    def _ended_badly(self, failure: Failure) -> None:
        if not isinstance(failure.value, CancelledError):
            self._log.failure(self.failed, failure)
