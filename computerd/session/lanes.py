"""Reads of the journal that wait for their turn, each member's in a line of his own.

The journal reads a few pages at a time, for whoever asks first. A page can take it a third of a second, where 100,000 events are looked through
for a type that does not occur, and a member can ask for thousands. So of each member's reads only so many are handed on, and the others
wait here: whoever else asks for a page waits for a few of them, and not for all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Protocol, TypeVar

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from computerd.contract.objects import Event
from computerd.session.port import Excerpt

AT_ONCE: Final = 2
"""Reads of one member that are handed on: while one is answered, the next is read. Half of what the journal reads at a time."""

T = TypeVar("T")


class History(Protocol):
    """Where the past of sessions is read."""

    def events(
        self, session_id: str, *, after: int, limit: int, types: Collection[str] | None
    ) -> Awaitable[Excerpt[Event]]:
        """See `computerd.session.port.Journal`."""


@define(eq=False)
class _Line:
    """One member's. Without recursion: a journal that takes nothing refuses everybody in it at once.

    Attributes:
        free: Reads that may be handed on now.
    """

    free: int = AT_ONCE
    _waiting: deque[Deferred[None]] = field(factory=deque, init=False)
    _calling: bool = field(default=False, init=False)

    @property
    def empty(self) -> bool:
        """Whether nobody reads and nobody waits."""
        return self.free == AT_ONCE and not self._waiting

    async def enter(self) -> None:
        """Waits for a turn."""
        if self.free:
            self.free -= 1
            return
        turn: Deferred[None] = Deferred(self._waiting.remove)
        self._waiting.append(turn)
        await turn

    def leave(self) -> None:
        """Ends a turn."""
        self.free += 1
        if self._calling:
            return
        self._calling = True
        while self.free and self._waiting:
            self.free -= 1
            self._waiting.popleft().callback(None)
        self._calling = False


@define(eq=False)
class Lanes:
    """Everybody's lines. There is nothing of those who do not wait."""

    _lines: dict[str, _Line] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._lines)

    async def run(self, member: str, read: Callable[[], Awaitable[T]]) -> T:
        """Carries out `read` when it is its turn among the member's. Cancelling it gives up its place."""
        line = self._lines.setdefault(member, _Line())
        await line.enter()
        try:
            return await read()
        finally:
            line.leave()
            if line.empty and self._lines.get(member) is line:
                del self._lines[member]


@frozen
class Lane:
    """One member's way to the past: a `History`.

    Attributes:
        lanes: All.
        member: Whose.
        history: Where it is read.
    """

    lanes: Lanes
    member: str
    history: History

    async def events(self, session_id: str, *, after: int, limit: int, types: Collection[str] | None) -> Excerpt[Event]:
        """See `History`."""
        return await self.lanes.run(
            self.member, lambda: self.history.events(session_id, after=after, limit=limit, types=types)
        )
