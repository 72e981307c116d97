"""From the data of an event to a draft, and from a draft to the event."""

from __future__ import annotations

import string
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec
from attrs import define, field
from msgspec import Struct

from computerd.contract.events import EVENTS
from computerd.contract.identifiers import EVENT
from computerd.contract.objects import Actor, Event
from computerd.session.port import Draft, Random, Seconds

_TYPES: Final = {data: name for name, data in EVENTS.items()}
_CHARACTERS: Final = (string.digits + string.ascii_letters).encode()
# 248 is the largest multiple of 62 under 256: bytes above it would favour some characters
_AS_CHARACTERS: Final = bytes(_CHARACTERS[byte % 62] for byte in range(256))
_UNFAIR: Final = bytes(range(248, 256))
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_BULK: Final = 16 * 1024
"""Bytes of randomness taken at once: ids for 990 events. Asking the kernel lets another thread have the interpreter, and it may take 5 ms
until that gives it back."""


def draft(data: Struct, actor: Actor | None = None, turn_id: str | None = None) -> Draft:
    """The draft of an event whose type follows from the class of its data."""
    return Draft(_TYPES[type(data)], msgspec.to_builtins(data), actor, turn_id)


@lru_cache(maxsize=1024)
def moment(milliseconds: int) -> str:
    """Milliseconds since the epoch as the API writes a time. Made for many events, which share milliseconds and even more seconds."""
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@define(eq=False)
class Stamped:
    """A draft with its id and time, which needs only its `seq` to be an event. Not frozen, because that costs a microsecond; nobody changes it.

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
        """The event at its place. Its data has been through JSON, so that an event is the same fresh or read back."""
        draft = self.draft
        return Event(
            self.id,
            seq,
            moment(self.at),
            session_id,
            draft.turn_id,
            draft.actor,
            draft.type,
            _decode(self.data),
        )


def stamp(draft: Draft, seconds: Seconds, random: Random) -> Stamped:
    """Gives one draft its id and time."""
    return Stamped(EVENT.new(random), round(seconds() * 1000), draft, _encode(draft.data))


@define(eq=False)
class Stamper:
    """Gives drafts their ids and times, many a second: it takes its random bytes in bulk. Belongs to one thread.

    Attributes:
        seconds: The wall clock.
        random: A cryptographic source.
    """

    seconds: Seconds
    random: Random
    _characters: str = field(default="", init=False)
    _place: int = field(default=0, init=False)

    def stamp(self, draft: Draft) -> Stamped:
        """As the function `stamp`."""
        begin, end = self._place, self._place + EVENT.length
        while end > len(self._characters):
            self._characters = self.random(_BULK).translate(_AS_CHARACTERS, _UNFAIR).decode()
            begin, end = 0, EVENT.length
        self._place = end
        name = EVENT.prefix + self._characters[begin:end]
        return Stamped(name, round(self.seconds() * 1000), draft, _encode(draft.data))
