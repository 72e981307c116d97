"""The two kinds of Struct that cross the wire, and the bounded types that their fields are made of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from computerd.contract import identifiers


class Params(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """What a client sends. Unknown fields are refused; an optional field may be absent but not null."""


class Object(msgspec.Struct, rename="camel", frozen=True):
    """What a server sends. Clients ignore fields that they do not know."""


Timestamp = Annotated[str, Meta(description="RFC 3339, in UTC, with milliseconds", examples=["2026-11-13T09:30:00.000Z"])]
SessionId = Annotated[str, Meta(pattern=identifiers.SESSION.pattern)]
TurnId = Annotated[str, Meta(pattern=identifiers.TURN.pattern)]
AskId = Annotated[str, Meta(pattern=identifiers.ASK.pattern)]
SubagentId = Annotated[str, Meta(pattern=identifiers.SUBAGENT.pattern)]
TerminalId = Annotated[str, Meta(pattern=identifiers.TERMINAL.pattern)]
ConnectionId = Annotated[str, Meta(pattern=identifiers.CONNECTION.pattern)]
EventId = Annotated[str, Meta(pattern=identifiers.EVENT.pattern)]

# A reference to something by its id: any short text, because an id that has the wrong shape is answered like one that is unknown.
Reference = Annotated[str, Meta(max_length=255)]
Seq = Annotated[int, Meta(ge=0, le=2**53 - 1, description="A place in a session's journal; 0 is before the first event")]
Count = Annotated[int, Meta(ge=0)]
Limit100 = Annotated[int, Meta(ge=1, le=100)]
Limit500 = Annotated[int, Meta(ge=1, le=500)]
WaitMs = Annotated[int, Meta(ge=0, le=60_000, description="Milliseconds to wait for something new")]
TailTurns = Annotated[int, Meta(ge=1, le=50)]
Cells = Annotated[int, Meta(ge=1, le=1000, description="Columns or rows of a terminal")]
Command = Annotated[str, Meta(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$")]
Term = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._+-]+$")]
Title = Annotated[str, Meta(min_length=1, max_length=200)]
Key = Annotated[str, Meta(min_length=1, max_length=255, description="Repeats the answer of an earlier call with the same key, for 24 hours")]
Cursor = Annotated[str, Meta(max_length=1024)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Metadata = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=512)], Annotated[str, Meta(max_length=512)]],
    Meta(max_length=50, description="Up to 50 pairs of strings of up to 512 characters"),
]


def timestamp(seconds: float) -> str:
    """`seconds` since the epoch as the API writes a time."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
