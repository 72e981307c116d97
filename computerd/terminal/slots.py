"""How many terminals a session holds, across all connections."""

from __future__ import annotations

from collections import Counter

from attrs import define, field

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code


@define(eq=False)
class Slots:
    """Counts from the moment a terminal is asked for until its process is gone."""

    limit: int = limits.MAX_TERMINALS_PER_SESSION
    _taken: Counter[str] = field(factory=Counter, init=False)

    def take(self, session_id: str) -> None:
        """Takes a slot.

        Raises:
            ApiError: `too_many_terminals`.
        """
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

    def taken(self, session_id: str) -> int:
        """Slots of a session in use."""
        return self._taken.get(session_id, 0)
