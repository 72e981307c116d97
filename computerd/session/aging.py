"""How old something is, for whoever removes what is too old: a wall clock that is set forward must not make everything old at once."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from computerd.session.port import Seconds


@define
class Aging:
    """The wall clock, unless it was set forward since this was made.

    Attributes:
        wall: Seconds since the epoch.
        monotonic: Seconds of a clock that never jumps.
    """

    wall: Seconds
    monotonic: Callable[[], float]
    _ahead: float = field(init=False)

    @_ahead.default
    def _now_ahead(self) -> float:
        return self.wall() - self.monotonic()

    def now(self) -> float:
        """Seconds since the epoch, never more than have passed by both clocks."""
        return min(self.wall(), self._ahead + self.monotonic())
