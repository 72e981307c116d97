"""Every number of the API, with its unit. Source: "Relay limits" and "Operations" of the API schema, sections 4 and 5 of the Computer API page."""

from __future__ import annotations

from typing import Final, NamedTuple

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

MAX_ATTACHED: Final = 20
"""Sessions attached per connection."""
MAX_MESSAGE_BYTES: Final = MIB
"""Bytes of one WebSocket message from a client."""
MAX_REQUESTS_PER_SECOND: Final = 100
"""Requests per second of one connection; also the burst."""
MAX_CONNECTIONS_PER_MEMBER: Final = 50
MAX_UNSENT_BYTES: Final = 16 * MIB
"""Bytes that a connection may leave unread before it is closed with 4008."""
MAX_BACKLOG_BYTES: Final = 8 * MIB
MAX_BACKLOG_EVENTS: Final = 10_000
"""Unacknowledged backlog of an attached session before `too_far_behind`."""
MAX_TERMINALS_PER_SESSION: Final = 8
INPUT_BYTES_PER_SECOND: Final = MIB
"""Input of one terminal, in bytes per second; also the burst."""
INPUT_QUEUE_BYTES: Final = 2 * MIB
"""Input that waits for a program that reads slowly, in bytes."""
MAX_FRAME_BYTES: Final = 64 * KIB
"""Bytes of one output frame, channel number included."""
CHANNEL_BYTES: Final = 4
"""Bytes of the channel number in front of a frame."""
MAX_QUEUED_TURNS: Final = 20
MAX_ARCHIVE_BYTES: Final = GIB
MAX_ARCHIVE_ENTRIES: Final = 100_000
MAX_FILE_BYTES: Final = 100 * MIB
MAX_UPLOAD_BYTES: Final = MAX_ARCHIVE_BYTES + MAX_ARCHIVE_ENTRIES * 2 * KIB
"""Bytes of an archive as it is sent. What it holds is limited by itself; in a tar, an entry has a block of 512 bytes, mostly two more before
it for what ustar can't say, and is filled up to whole blocks."""
MAX_PATH_CHARACTERS: Final = 3 * 4096
"""Characters of a path in a workspace: PATH_MAX bytes, each spelled with a percent sign."""
MAX_DEPTH: Final = 10
"""Levels of folders in one listing."""
MAX_TRANSFERS_PER_MEMBER: Final = 4
"""Files and archives that a member may have on their way at a time, up and down together."""
MAX_FILE_CURSOR_CHARACTERS: Final = 8192
"""Characters of the cursor of a listing, which names a place in it."""
IDEMPOTENCY_KEY_SECONDS: Final = 24 * 3600
MAX_KEY_CHARACTERS: Final = 255
"""Characters of an idempotency key, which has at least one."""

MAX_CELLS: Final = 1000
"""Columns of a terminal, and rows."""
MAX_COMMAND_CHARACTERS: Final = 10_000
MAX_TERM_CHARACTERS: Final = 64
MAX_INPUT_CHARACTERS: Final = 100_000
"""Characters of one message to the agent."""
MAX_TITLE_CHARACTERS: Final = 200
MAX_INSTRUCTIONS_CHARACTERS: Final = 10_000
MAX_ANSWER_MESSAGE_CHARACTERS: Final = 2_000
"""Characters of the message with which an ask is denied or dismissed."""
MAX_METADATA_PAIRS: Final = 50
MAX_METADATA_CHARACTERS: Final = 512
"""Characters of a key of `metadata`, and of a value."""
MAX_WAIT_MS: Final = 60_000
"""Milliseconds that a request may ask to wait for something new."""

PING_SECONDS: Final = 30.0
"""Between two pings of the server; the second that goes unanswered closes with 1001."""
HEAD_SECONDS: Final = 10.0
"""For a whole request head to arrive."""
KILL_SECONDS: Final = 5.0
"""From SIGHUP to SIGKILL."""
LINGER_SECONDS: Final = 0.5
"""That a background process may hold a terminal open after its process's exit."""
SHUTDOWN_SECONDS: Final = 10.0
"""From SIGTERM to the daemon's end."""
NO_KEY_RETRY_MS: Final = 2000

MAX_JSON_DEPTH: Final = 64
MAX_JSON_TOKENS: Final = 20_000
"""Commas and brackets of one message: what parsing costs is bounded by it."""
MAX_ID_CHARACTERS: Final = 1024
"""Characters of a JSON-RPC request's id, be it a string or an integer."""
MAX_FIELD_NAME: Final = 255
"""Characters of a field's name that a refusal repeats."""
MAX_FRAGMENTS: Final = 1024
"""WebSocket frames that may make up one message."""
MAX_PINGS_PER_SECOND: Final = 10
"""Pings that a client may send."""


class Limit(NamedTuple):
    """One row of the published table of limits.

    Attributes:
        name: As programs spell it.
        unit: What `value` counts.
        what: What is limited, and what happens beyond it where that is not an `invalid_request`.
    """

    name: str
    value: int | float
    unit: str
    what: str


LIMITS: Final[tuple[Limit, ...]] = (
    Limit("maxAttached", MAX_ATTACHED, "sessions", "Sessions attached per connection"),
    Limit(
        "maxMessageBytes",
        MAX_MESSAGE_BYTES,
        "bytes",
        "One WebSocket message; over it the connection is closed with 1009",
    ),
    Limit(
        "maxRequestsPerSecond",
        MAX_REQUESTS_PER_SECOND,
        "requests a second",
        "Requests per connection, with a burst of as many",
    ),
    Limit(
        "maxConnectionsPerMember",
        MAX_CONNECTIONS_PER_MEMBER,
        "connections",
        "Connections per member; the next is closed with 4029",
    ),
    Limit(
        "maxUnsentBytes",
        MAX_UNSENT_BYTES,
        "bytes",
        "Unsent data per connection; over it the connection is closed with 4008",
    ),
    Limit(
        "maxBacklogBytes",
        MAX_BACKLOG_BYTES,
        "bytes",
        "Unacknowledged backlog per attached session before `too_far_behind`",
    ),
    Limit(
        "maxBacklogEvents",
        MAX_BACKLOG_EVENTS,
        "events",
        "Unacknowledged backlog per attached session before `too_far_behind`",
    ),
    Limit(
        "maxTerminalsPerSession",
        MAX_TERMINALS_PER_SESSION,
        "terminals",
        "Terminals per session, across all connections",
    ),
    Limit(
        "inputBytesPerSecond",
        INPUT_BYTES_PER_SECOND,
        "bytes a second",
        "Input of one terminal, with a burst of as much; what is over it is dropped",
    ),
    Limit(
        "inputQueueBytes",
        INPUT_QUEUE_BYTES,
        "bytes",
        "Input that waits for a program that reads slowly; what is over it is dropped",
    ),
    Limit("maxFrameBytes", MAX_FRAME_BYTES, "bytes", "One output frame, channel number included"),
    Limit("maxQueuedTurns", MAX_QUEUED_TURNS, "turns", "Queued turns per session"),
    Limit("maxArchiveBytes", MAX_ARCHIVE_BYTES, "bytes", "An archive that is uploaded or downloaded, unpacked"),
    Limit("maxArchiveEntries", MAX_ARCHIVE_ENTRIES, "entries", "An archive that is uploaded or downloaded"),
    Limit("maxFileBytes", MAX_FILE_BYTES, "bytes", "A single file that is read"),
    Limit(
        "maxUploadBytes", MAX_UPLOAD_BYTES, "bytes", "An archive that is uploaded, as it is sent; more is `too_large`"
    ),
    Limit(
        "maxTransfersPerMember",
        MAX_TRANSFERS_PER_MEMBER,
        "transfers",
        "Files and archives of a member's on their way, up and down together; the next is `rate_limited`",
    ),
    Limit("maxPathCharacters", MAX_PATH_CHARACTERS, "characters", "A path in a workspace"),
    Limit("maxKeyCharacters", MAX_KEY_CHARACTERS, "characters", "An idempotency key, which has at least one"),
    Limit("idempotencyKeySeconds", IDEMPOTENCY_KEY_SECONDS, "seconds", "How long an idempotency key is kept"),
    Limit("maxWaitMs", MAX_WAIT_MS, "milliseconds", "How long a request may ask to wait for something new"),
    Limit("maxInputCharacters", MAX_INPUT_CHARACTERS, "characters", "A message to the agent"),
    Limit("maxCommandCharacters", MAX_COMMAND_CHARACTERS, "characters", "The command of a terminal"),
    Limit("maxCells", MAX_CELLS, "cells", "Columns of a terminal, and rows"),
    Limit("maxTitleCharacters", MAX_TITLE_CHARACTERS, "characters", "A session's title"),
    Limit("maxMetadataPairs", MAX_METADATA_PAIRS, "pairs", "A session's metadata"),
    Limit("maxMetadataCharacters", MAX_METADATA_CHARACTERS, "characters", "A key of metadata, and a value"),
    Limit(
        "maxJsonDepth", MAX_JSON_DEPTH, "levels", "Nesting of one JSON message or body; deeper is not taken for JSON"
    ),
    Limit(
        "maxJsonTokens",
        MAX_JSON_TOKENS,
        "tokens",
        "Commas and opening brackets outside strings of one JSON message or body; more is `too_large`",
    ),
    Limit(
        "maxIdCharacters", MAX_ID_CHARACTERS, "characters", "The id of a JSON-RPC request; a longer one makes it none"
    ),
    Limit(
        "maxFragments", MAX_FRAGMENTS, "frames", "WebSocket frames of one message; more close the connection with 1009"
    ),
    Limit(
        "maxPingsPerSecond",
        MAX_PINGS_PER_SECOND,
        "pings a second",
        "Pings of a client; more close the connection with 1008",
    ),
    Limit(
        "pingSeconds",
        PING_SECONDS,
        "seconds",
        "Between two pings of the server; two that go unanswered close the connection with 1001",
    ),
    Limit("headSeconds", HEAD_SECONDS, "seconds", "For a whole request head to arrive"),
    Limit("killSeconds", KILL_SECONDS, "seconds", "From SIGHUP to SIGKILL when a terminal is closed"),
    Limit(
        "lingerSeconds",
        LINGER_SECONDS,
        "seconds",
        "That a background process may hold a terminal open after its own process has exited",
    ),
    Limit("shutdownSeconds", SHUTDOWN_SECONDS, "seconds", "From SIGTERM to the server's end"),
)
"""What the reference page of limits lists."""
