"""A token bucket: how much may pass in a second, and how much at once."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field


@define
class Budget:
    """Lets `rate` units a second pass, and up to `burst` at once.

    Attributes:
        rate: Units a second.
        burst: Units that may pass at once after a rest.
        seconds: A monotonic clock.
    """

    rate: float
    burst: float
    seconds: Callable[[], float]
    _level: float = field(init=False)
    _since: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._level = self.burst
        self._since = self.seconds()

    def take(self, units: float) -> bool:
        """Takes `units` if they are there, all or nothing."""
        self._refill()
        if units > self._level:
            return False
        self._level -= units
        return True

    def wait_ms(self, units: float) -> int:
        """Milliseconds until `units` will be there, at least 1; of more than the burst, until the burst is."""
        self._refill()
        missing = min(units, self.burst) - self._level
        return max(1, round(1000 * missing / self.rate))

    def _refill(self) -> None:
        now = self.seconds()
        # a clock that steps back gives nothing and takes nothing
        self._level = min(self.burst, self._level + max(0.0, now - self._since) * self.rate)
        self._since = now
