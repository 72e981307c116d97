"""The sessions that one connection follows."""

from __future__ import annotations

from typing import Final

from attrs import define, field, frozen

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.session.follower import Follower

_WORDS: Final = f"This connection has {limits.MAX_ATTACHED} sessions attached: detach one, or use another connection."


@frozen
class _Place:
    """One attached session."""

    follower: Follower
    read_only: bool


@define(eq=False)
class Attachments:
    """By session.

    Attributes:
        closed: The connection has ended; nothing may be added.
    """

    closed: bool = False
    _places: dict[str, _Place] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._places)

    def check_room(self, session_id: str) -> None:
        """Refuses one session too many. One that is attached already is only attached anew.

        Raises:
            ApiError: `too_many_attached`.
        """
        if session_id not in self._places and len(self._places) >= limits.MAX_ATTACHED:
            raise ApiError(Code.TOO_MANY_ATTACHED, _WORDS)

    def put(self, session_id: str, follower: Follower, *, read_only: bool) -> None:
        """Follows a session, in the place of an earlier attach of the same, whose events end here."""
        before = self._places.pop(session_id, None)
        self._places[session_id] = _Place(follower, read_only)
        if before is not None:
            before.follower.detach()

    def gone(self, session_id: str, follower: Follower) -> None:
        """A follower has ended by itself."""
        place = self._places.get(session_id)
        if place is not None and place.follower is follower:
            del self._places[session_id]

    def detach(self, session_id: str) -> None:
        """Follows a session no more. One that is not attached is no error."""
        place = self._places.pop(session_id, None)
        if place is not None:
            place.follower.detach()

    def ack(self, session_id: str, seq: int) -> None:
        """The client has a session's events up to `seq`. Of one that is not attached (any more) it means nothing."""
        place = self._places.get(session_id)
        if place is not None:
            place.follower.ack(seq)

    def read_only(self, session_id: str) -> bool:
        """Whether the connection attached the session only to look."""
        place = self._places.get(session_id)
        return place is not None and place.read_only

    def close(self) -> None:
        """The connection has ended."""
        self.closed = True
        for session_id in tuple(self._places):
            self.detach(session_id)
