"""Every number of the API, with its unit. Source: "Relay limits" of the API schema, and section 5 of the Computer API page."""

from __future__ import annotations

from typing import Final

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
IDEMPOTENCY_KEY_SECONDS: Final = 24 * 3600

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
MAX_FRAGMENTS: Final = 1024
"""WebSocket frames that may make up one message."""
MAX_PINGS_PER_SECOND: Final = 10
"""Pings that a client may send."""
