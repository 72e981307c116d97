"""The end of a session's processes: hung up, waited for, and what they left behind killed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from computerd.contract import limits

_GIVE_UP_SECONDS: Final = limits.KILL_SECONDS + 1.0
"""After which nothing more is waited for: SIGKILL was sent a second ago."""


class Ending(Protocol):
    """What runs in a session."""

    def hang_up(self) -> None:
        """Ends it, within `limits.KILL_SECONDS`."""


@define(eq=False)
class SessionEnd:
    """One session's. `begin` once; `left` for each of its processes.

    Attributes:
        kill: Kills everything that is left of the session.
        over: Called once, when it is done.
        done: Fires then, at the latest after 6 s.
    """

    _reactor: IReactorTime
    kill: Callable[[], object]
    over: Callable[[SessionEnd], None]
    done: Deferred[None] = field(factory=Deferred, init=False)
    _running: set[Ending] = field(factory=set, init=False)
    _limit: IDelayedCall | None = field(default=None, init=False)

    def begin(self, processes: Iterable[Ending]) -> None:
        """Hangs up what runs."""
        self._running.update(processes)
        self._limit = self._reactor.callLater(_GIVE_UP_SECONDS, self._finish)
        for process in tuple(self._running):
            process.hang_up()
        self._check()

    def left(self, process: Ending) -> None:
        """A process has ended."""
        self._running.discard(process)
        self._check()

    def _check(self) -> None:
        if not self._running and self._limit is not None:
            self._limit.cancel()
            self._finish()

    def _finish(self) -> None:
        self._limit = None
        self.kill()
        self.over(self)
        self.done.callback(None)
