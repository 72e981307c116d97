"""From the data of an event to a draft, and from a draft to the event."""

from __future__ import annotations

from typing import Final

import msgspec
from attrs import frozen
from msgspec import Struct

from computerd.contract.events import EVENTS
from computerd.contract.identifiers import EVENT
from computerd.contract.objects import Actor, Event
from computerd.contract.shapes import timestamp
from computerd.session.port import Draft, Random, Seconds

_TYPES: Final = {data: name for name, data in EVENTS.items()}


def draft(data: Struct, actor: Actor | None = None, turn_id: str | None = None) -> Draft:
    """The draft of an event whose type follows from the class of its data."""
    return Draft(_TYPES[type(data)], msgspec.to_builtins(data), actor, turn_id)


@frozen
class Stamped:
    """A draft with its id and time, which needs only its `seq` to be an event.

    Attributes:
        id: `ev_…`.
        at: Milliseconds since the epoch.
        data: The event's data as JSON.
    """

    id: str
    at: int
    draft: Draft
    data: bytes

    def event(self, session_id: str, seq: int) -> Event:
        """The event at its place."""
        return Event(
            id=self.id,
            seq=seq,
            created_at=timestamp(self.at / 1000),
            session_id=session_id,
            turn_id=self.draft.turn_id,
            actor=self.draft.actor,
            type=self.draft.type,
            data=msgspec.json.decode(self.data),
        )


def stamp(draft: Draft, seconds: Seconds, random: Random) -> Stamped:
    """Gives a draft its id and time. Its data goes through JSON, so that an event is the same fresh or read back."""
    return Stamped(EVENT.new(random), round(seconds() * 1000), draft, msgspec.json.encode(draft.data))
