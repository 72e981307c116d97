"""Lets go of what need not be kept any longer: old events, expired idempotency keys."""

from __future__ import annotations

from typing import Final

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from computerd.contract.errors import ApiError
from computerd.session.aging import Aging
from computerd.session.rounds import Rounds
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
    _aging: Aging = field(init=False)
    _rounds: Rounds = field(init=False)

    @_aging.default
    def _from_now_on(self) -> Aging:
        return Aging(self.sessions.seconds, self.clock.seconds)

    @_rounds.default
    def _new_rounds(self) -> Rounds:
        return Rounds(self.clock, self.sweep, "old events were not removed")

    def start(self) -> None:
        """Plans the first look."""
        self._rounds.start(FIRST_SECONDS, PERIOD_SECONDS)

    def stop(self) -> None:
        """Looks no more."""
        self._rounds.stop()

    async def sweep(self) -> None:
        """One look: removes all that may go now."""
        # a step of the wall clock must not make everything old
        before = self._aging.now() - self.keep_days * _DAY if self.keep_days else None
        try:
            while (
                first := await self.sessions.journal.trim(keep=self.keep_events, before=before, limit=STEP_ROWS)
            ) is not None:
                self.sessions.trimmed(first)
                await self._pause()
        except ApiError:
            # the journal takes nothing now; the next look goes on. What this step may have removed all the same is not known
            self.sessions.forget()

    def _pause(self) -> Deferred[None]:
        pause: Deferred[None] = Deferred(lambda _: waiting.cancel())
        waiting = self.clock.callLater(PAUSE_SECONDS, pause.callback, None)
        return pause
