"""One deadline that is set anew, again and again."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime


@define(eq=False, repr=False)
class Patience:
    """Calls `over` when it was not told otherwise for so long as it was to wait."""

    _reactor: IReactorTime
    over: Callable[[], None]
    _call: IDelayedCall | None = field(default=None, init=False)

    def wait(self, seconds: float) -> None:
        """Counts from now."""
        if self._call is None:
            self._call = self._reactor.callLater(seconds, self._out)
        else:
            self._call.reset(seconds)

    def rest(self) -> None:
        """Waits for nothing."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _out(self) -> None:
        self._call = None
        self.over()
