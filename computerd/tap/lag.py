"""How late the reactor is: a tick every 100 ms, and how long after its time each one came.

A tick that comes late by 200 ms says that every key that was typed in between was held up by as much.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from computerd.journal.tally import Durations

TICK_SECONDS: Final = 0.1
"""Ten wake-ups of about 20 µs in a second: too few to be felt, enough to meet what blocks for that long."""


@define(eq=False)
class Lag:
    """Measures once it was started.

    Attributes:
        reactor: Whose lateness it is.
        durations: By how much ticks came late.
    """

    reactor: IReactorTime
    durations: Durations = field(factory=Durations, init=False)
    _due: float = field(default=0.0, init=False)
    _call: IDelayedCall | None = field(default=None, init=False)

    def start(self) -> None:
        """Ticks from now on. A second call does nothing."""
        if self._call is None:
            self._wait()

    def stop(self) -> None:
        """Ticks no more."""
        call, self._call = self._call, None
        if call is not None and call.active():
            call.cancel()

    def _wait(self) -> None:
        self._due = self.reactor.seconds() + TICK_SECONDS
        self._call = self.reactor.callLater(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self.durations.observe(max(0.0, self.reactor.seconds() - self._due))
        self._wait()
