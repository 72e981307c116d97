"""How many terminals a session holds, across all connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from attrs import define, field

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code


@define(eq=False)
class Slots:
    """Counts from the moment a terminal is asked for until its process is gone."""

    limit: int = limits.MAX_TERMINALS_PER_SESSION
    _taken: Counter[str] = field(factory=Counter, init=False)
    _closed: Counter[str] = field(factory=Counter, init=False)
    _emptied: dict[str, list[Callable[[], None]]] = field(factory=dict, init=False)

    def take(self, session_id: str) -> None:
        """Takes a slot.

        Raises:
            ApiError: `too_many_terminals`, or `session_busy` while the session is closed.
        """
        if session_id in self._closed:
            raise ApiError(
                Code.SESSION_BUSY, "The session is being suspended: open the terminal when that is done, in a moment."
            )
        if self._taken[session_id] >= self.limit:
            raise ApiError(
                Code.TOO_MANY_TERMINALS,
                f"The session already holds {self.limit} terminals, across all connections: close one first.",
            )
        self._taken[session_id] += 1

    def give_back(self, session_id: str) -> None:
        """The terminal is gone, or never came to be."""
        self._taken[session_id] -= 1
        if self._taken[session_id] <= 0:
            del self._taken[session_id]
            waiting = self._emptied.pop(session_id, [])
            while waiting:
                waiting.pop(0)()

    def taken(self, session_id: str) -> int:
        """Slots of a session in use."""
        return self._taken.get(session_id, 0)

    def close(self, session_id: str) -> None:
        """Lets nobody take a slot of the session until `reopen` is called as often."""
        self._closed[session_id] += 1

    def reopen(self, session_id: str) -> None:
        """Ends one `close`."""
        self._closed[session_id] -= 1
        if self._closed[session_id] <= 0:
            del self._closed[session_id]

    def when_empty(self, session_id: str, emptied: Callable[[], None]) -> Callable[[], None]:
        """Has `emptied` called once no slot of the session is in use, maybe now. Returns what ends that; calling it later does nothing."""
        if not self.taken(session_id):
            emptied()
            return lambda: None
        waiting = self._emptied.setdefault(session_id, [])
        waiting.append(emptied)

        def end() -> None:
            if emptied in waiting:
                waiting.remove(emptied)

        return end
