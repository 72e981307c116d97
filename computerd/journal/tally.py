"""What the journal has done since the start, and how long it took: plain numbers, for whoever makes metrics of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from attrs import define, field

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds. From what a frame of a screen hides to where the disk counts as stalled (`backlog.STALL_SECONDS`)."""


@define(eq=False)
class Durations:
    """How long something took, as a histogram. Observing costs well under a microsecond.

    Attributes:
        bounds: Upper bounds of the buckets, in seconds and rising. What is over the last one has a bucket of its own.
        counts: Durations in each bucket, not cumulated; one more than `bounds`.
        total: Seconds of all durations together.
    """

    bounds: Sequence[float] = BOUNDS
    counts: list[int] = field(init=False)
    total: float = field(default=0.0, init=False)

    @counts.default
    def _none(self) -> list[int]:
        return [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float) -> None:
        """Something took so long. A duration that equals a bound is within it."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


@define(eq=False)
class Tally:
    """Counts of one journal. Kept on the reactor's thread only.

    Attributes:
        events: That were committed.
        waiting: Jobs that the thread has not answered yet.
        commits: How long writing jobs took, from when they were asked for to their answer.
    """

    events: int = 0
    waiting: int = 0
    commits: Durations = field(factory=Durations)

    def observe(self, seconds: float) -> None:
        """A writing job was answered after so many seconds."""
        self.commits.observe(seconds)
