"""Those who wait for a session's next event."""

from __future__ import annotations

from typing import Final

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from computerd.contract.errors import ApiError, Code
from computerd.session.tally import Tally

MAX_WAITING: Final = 100
"""Waits of one member at a time."""


@define(eq=False)
class Waiting:
    """Wakes who waits, when there is news or when their time is up.

    Attributes:
        clock: For time limits.
        tally: Counts those who wait.
    """

    clock: IReactorTime
    tally: Tally
    _waits: dict[str, set[Deferred[bool]]] = field(factory=dict, init=False)
    _members: dict[str, int] = field(factory=dict, init=False)

    async def wait(self, session_id: str, member: str, seconds: float) -> bool:
        """Waits for news of a session: whether there is any. Cancelling it frees everything at once.

        Raises:
            ApiError: `rate_limited`: the member has `MAX_WAITING` waits already.
        """
        if self._members.get(member, 0) >= MAX_WAITING:
            self.tally.refused += 1
            raise ApiError(
                Code.RATE_LIMITED,
                f"You have {MAX_WAITING} requests waiting; end one of them first.",
                retry_after_ms=1000,
            )
        news: Deferred[bool] = Deferred()
        timer = self.clock.callLater(seconds, news.callback, False)
        self._waits.setdefault(session_id, set()).add(news)
        self._members[member] = self._members.get(member, 0) + 1
        self.tally.waiting += 1
        try:
            return await news
        finally:
            if timer.active():
                timer.cancel()
            self._forget(session_id, member, news)

    def wake(self, session_id: str) -> None:
        """There is news of a session."""
        for news in tuple(self._waits.get(session_id, ())):
            if not news.called:
                news.callback(True)

    def wake_all(self) -> None:
        """What everybody waits for may never come."""
        for session_id in tuple(self._waits):
            self.wake(session_id)

    def _forget(self, session_id: str, member: str, news: Deferred[bool]) -> None:
        waits = self._waits[session_id]
        waits.discard(news)
        if not waits:
            del self._waits[session_id]
        self.tally.waiting -= 1
        self._members[member] -= 1
        if not self._members[member]:
            del self._members[member]
