"""Lets go of what need not be kept any longer: old events, expired idempotency keys."""

from __future__ import annotations

from typing import Final

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from computerd.contract.errors import ApiError
from computerd.session.sessions import Sessions

FIRST_SECONDS: Final = 60.0
"""From the start to the first look."""
PERIOD_SECONDS: Final = 600.0
"""Between two looks."""
PAUSE_SECONDS: Final = 0.05
"""Between two steps of a look: others write meanwhile."""
STEP_ROWS: Final = 2000
"""Removed in a step."""
_DAY: Final = 86_400.0


@define(eq=False)
class Retention:
    """Looks every few minutes.

    Attributes:
        sessions: Whose journal it is.
        clock: Monotonic.
        keep_events: Of a session.
        keep_days: That an event is kept; 0: for ever.
    """

    sessions: Sessions
    clock: IReactorTime
    keep_events: int
    keep_days: float
    _timer: IDelayedCall | None = field(default=None, init=False)
    _work: Deferred[None] | None = field(default=None, init=False)
    _started: tuple[float, float] = field(default=(0.0, 0.0), init=False)
    _running: bool = field(default=False, init=False)
    _log: Logger = field(factory=Logger, init=False)

    def start(self) -> None:
        """Plans the first look."""
        self._started = self.sessions.seconds(), self.clock.seconds()
        self._running = True
        self._plan(FIRST_SECONDS)

    def stop(self) -> None:
        """Looks no more."""
        self._running = False
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self._work is not None:
            self._work.cancel()

    def _look(self) -> None:
        self._work = ensureDeferred(self.sweep())
        self._work.addErrback(self._failed)
        # whatever happened, it goes on, unless it was stopped
        self._work.addCallback(lambda _: self._plan(PERIOD_SECONDS))

    def _plan(self, seconds: float) -> None:
        if self._running:
            self._timer = self.clock.callLater(seconds, self._look)

    def _failed(self, failure: Failure) -> None:
        if not isinstance(failure.value, CancelledError):
            self._log.failure("old events were not removed", failure)

    async def sweep(self) -> None:
        """One look: removes all that may go now."""
        before = self._now() - self.keep_days * _DAY if self.keep_days else None
        try:
            while (
                first := await self.sessions.journal.trim(keep=self.keep_events, before=before, limit=STEP_ROWS)
            ) is not None:
                self.sessions.trimmed(first)
                await self._pause()
        except ApiError:
            # the journal takes nothing now; the next look goes on. What this step may have removed all the same is not known
            self.sessions.forget()

    def _now(self) -> float:
        """The wall clock, unless it was set forward since the start: a step must not make everything old."""
        wall, monotonic = self._started
        return min(self.sessions.seconds(), wall + self.clock.seconds() - monotonic)

    def _pause(self) -> Deferred[None]:
        pause: Deferred[None] = Deferred(lambda _: waiting.cancel())
        waiting = self.clock.callLater(PAUSE_SECONDS, pause.callback, None)
        return pause
