"""Where the metrics come from, and who renders them: nobody until somebody asks.

A host that nobody scrapes pays nothing: the library (about 1 MiB of memory, and 50 ms once) is imported, and the reactor's lateness measured,
from the first `GET /metrics` on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from computerd.journal.tally import Tally as JournalTally
from computerd.net.tally import Tally as NetTally
from computerd.session.tally import Tally as SessionTally
from computerd.tap.lag import Lag
from computerd.terminal.traffic import Traffic

if TYPE_CHECKING:
    from computerd.tap.metrics import Exposition


@frozen
class Gauges:
    """What the rooms have counted.

    Attributes:
        started: When the daemon was, in seconds since the epoch.
        net: Connections and requests.
        connections: How many are open now.
        traffic: What terminals carry.
        sessions: Who follows sessions.
        journal: What was committed.
        stalled: Whether the journal's disk does not answer.
        lag: How late the reactor is.
    """

    started: float
    net: NetTally
    connections: Callable[[], int]
    traffic: Traffic
    sessions: SessionTally
    journal: JournalTally
    stalled: Callable[[], bool]
    lag: Lag


@define(eq=False)
class Scrapes:
    """Renders the metrics.

    Attributes:
        gauges: Where they come from.
    """

    gauges: Gauges
    _exposition: Exposition | None = field(default=None, init=False)

    def __call__(self) -> bytes:
        """All metrics as they are now, in Prometheus' text format."""
        if self._exposition is None:
            from computerd.tap.metrics import Exposition  # noqa: PLC0415  # see above

            self._exposition = Exposition(self.gauges)
            self.gauges.lag.start()
        return self._exposition.render()

    def stop(self) -> None:
        """The daemon stops: nothing ticks any more."""
        self.gauges.lag.stop()
