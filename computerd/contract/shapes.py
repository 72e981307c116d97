"""The two kinds of Struct that cross the wire, and the bounded types that their fields are made of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from computerd.contract import identifiers, limits


class Params(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What a client sends. Unknown fields are refused; an optional field may be absent but not null."""


class Object(msgspec.Struct, rename="camel"):
    """What a server sends. Clients ignore fields that they do not know."""


def _id(identifier: identifiers.Identifier) -> Meta:
    words = f"{identifier.prefix} and {identifier.length} letters or digits"
    return Meta(pattern=identifier.pattern, description=words, extra={"allowed": words})


Timestamp = Annotated[
    str, Meta(description="RFC 3339, in UTC, with milliseconds", examples=["2026-11-13T09:30:00.000Z"])
]
SessionId = Annotated[str, _id(identifiers.SESSION)]
TurnId = Annotated[str, _id(identifiers.TURN)]
AskId = Annotated[str, _id(identifiers.ASK)]
SubagentId = Annotated[str, _id(identifiers.SUBAGENT)]
TerminalId = Annotated[str, _id(identifiers.TERMINAL)]
ConnectionId = Annotated[str, _id(identifiers.CONNECTION)]
EventId = Annotated[str, _id(identifiers.EVENT)]

# A reference to something by its id: any short text, because an id that has the wrong shape is answered like one that is unknown.
Reference = Annotated[str, Meta(max_length=255)]
Seq = Annotated[
    int, Meta(ge=0, le=2**53 - 1, description="A place in a session's journal; 0 is before the first event")
]
EventSeq = Annotated[int, Meta(ge=1, le=2**53 - 1, description="Counts a session's events from 1, without gaps")]
Count = Annotated[int, Meta(ge=0)]
ExitCode = Annotated[int, Meta(ge=0, le=255)]
Channel = Annotated[int, Meta(ge=1, le=2**32 - 1, description="In front of every binary frame")]
Limit100 = Annotated[int, Meta(ge=1, le=100, description="How many at most")]
Limit500 = Annotated[int, Meta(ge=1, le=500, description="How many at most; 100 if left out")]
WaitMs = Annotated[int, Meta(ge=0, le=limits.MAX_WAIT_MS, description="Milliseconds to wait for something new")]
EventType = Annotated[
    str, Meta(min_length=1, max_length=64, description="Such as `terminal.opened`; one that is unknown matches nothing")
]
TailTurns = Annotated[int, Meta(ge=1, le=50)]
Cells = Annotated[int, Meta(ge=1, le=limits.MAX_CELLS, description="Columns or rows of a terminal")]
Command = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.MAX_COMMAND_CHARACTERS,
        # a lone surrogate has no bytes that a shell could be given
        pattern=r"^[^\x00\ud800-\udfff]*\Z",
        description="A command for the user's shell: any Unicode but NUL",
        extra={"allowed": f"text of 1 to {limits.MAX_COMMAND_CHARACTERS} characters, without NUL"},
    ),
]
Term = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.MAX_TERM_CHARACTERS,
        pattern=r"^[A-Za-z0-9._+-]+\Z",
        description="The name of a terminal type, for TERM",
        extra={
            "allowed": f"1 to {limits.MAX_TERM_CHARACTERS} of the characters A-Z, a-z, 0-9, dot, underscore, plus and minus"
        },
    ),
]
Input = Annotated[str, Meta(min_length=1, max_length=limits.MAX_INPUT_CHARACTERS, description="A message to the agent")]
Title = Annotated[str, Meta(max_length=limits.MAX_TITLE_CHARACTERS)]
NewTitle = Annotated[str, Meta(min_length=1, max_length=limits.MAX_TITLE_CHARACTERS)]
Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.MAX_KEY_CHARACTERS,
        description="Repeats the answer of an earlier call with the same key, for 24 hours",
    ),
]
Cursor = Annotated[str, Meta(max_length=1024)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
WorkspaceOf = Annotated[Reference, Meta(description="The session whose workspace it is")]
FolderPath = Annotated[
    str,
    Meta(
        max_length=limits.MAX_PATH_CHARACTERS,
        description="A place in the workspace, relative to its root, which is the empty path",
    ),
]
EntryPath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.MAX_PATH_CHARACTERS,
        description="A place in the workspace, relative to its root",
    ),
]
Depth = Annotated[int, Meta(ge=1, le=limits.MAX_DEPTH, description="How many levels of folders; 1 if left out")]
FileCursor = Annotated[
    str, Meta(max_length=limits.MAX_FILE_CURSOR_CHARACTERS, description="`nextCursor` of the last page")
]
FolderOfFiles = Annotated[str, Meta(description="The folder that the archive became, relative to the workspace")]
FilesLanded = Annotated[int, Meta(ge=0, description="Files and links in that folder; folders do not count")]
BytesLanded = Annotated[int, Meta(ge=0, description="Bytes of these files, unpacked")]
Replaced = Annotated[bool, Meta(description="Whether something was at `path` before, and is gone")]
FileMode = Annotated[str, Meta(pattern=r"^[0-7]{4}\Z", description="Permission bits, in octal")]
_METADATA = f"up to {limits.MAX_METADATA_PAIRS} pairs of strings, each of up to {limits.MAX_METADATA_CHARACTERS} characters, keys not empty"
Metadata = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=limits.MAX_METADATA_CHARACTERS)],
        Annotated[str, Meta(max_length=limits.MAX_METADATA_CHARACTERS)],
    ],
    Meta(
        max_length=limits.MAX_METADATA_PAIRS,
        description=_METADATA,
        extra={"allowed": f"an object of {_METADATA}"},
    ),
]


FIRST_SECOND: Final = -30_610_224_000
"""Of the year 1000."""
LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999: times before the first or after the last are none that the API, or a date of HTTP, can write."""


def timestamp(seconds: float) -> str:
    """`seconds` since the epoch as the API writes a time."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
