"""When something happened in each session last, by a clock that never jumps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from attrs import define, field
from twisted.internet.interfaces import IReactorTime


@define(eq=False)
class Idleness:
    """The sessions that may be awake, the one that has been quiet longest first.

    The times in the journal are those of the wall clock: a step of it would put every session to sleep at once. So a session that was
    awake before the daemon started counts as quiet from its start on.

    Attributes:
        clock: Monotonic.
        watched: Whether anybody will ask; otherwise nothing is kept.
    """

    clock: IReactorTime
    watched: bool = False
    _since: OrderedDict[str, float] = field(factory=OrderedDict, init=False)

    def touch(self, session_id: str) -> None:
        """Something has happened in a session, or it has just been found awake."""
        if self.watched:
            self._since[session_id] = self.clock.seconds()
            self._since.move_to_end(session_id)

    def found(self, session_ids: Sequence[str]) -> None:
        """These are awake, and nothing may have happened in them in this run of the daemon."""
        for session_id in session_ids:
            if session_id not in self._since:
                self.touch(session_id)

    def quiet(self, seconds: float, limit: int) -> list[str]:
        """Up to `limit` sessions in which nothing has happened for so long. They are not named again until something happens."""
        due: list[str] = []
        before = self.clock.seconds() - seconds
        while self._since and len(due) < limit:
            session_id, since = next(iter(self._since.items()))
            if since > before:
                break
            del self._since[session_id]
            due.append(session_id)
        return due
