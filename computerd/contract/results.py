"""What every method answers, and what the server says unasked."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from computerd.contract.objects import (
    Ask,
    Capabilities,
    Delivery,
    ErrorBody,
    Event,
    FileEntry,
    Session,
    Subagent,
    Terminal,
    Timing,
    Turn,
)
from computerd.contract.shapes import (
    BytesLanded,
    ConnectionId,
    Count,
    ExitCode,
    FilesLanded,
    FolderOfFiles,
    Object,
    Replaced,
    Seq,
    SessionId,
    TerminalId,
    Timestamp,
)


class Empty(Object):
    """Nothing but that it worked."""


class Attached(Object):
    """`sessions.attach`."""

    session: Session
    log_epoch: str
    epoch_start_seq: Seq
    capabilities: Capabilities
    earlier_turns: Count | None
    timing: Timing


class OneSession(Object):
    """`sessions.get`."""

    session: Session


class SessionChanged(Object):
    """`sessions.update` and its like."""

    session: Session
    seq: Seq


class SessionCreated(Object):
    """`POST /sessions`."""

    session: Session
    turn: Turn | None
    seq: Seq


class SessionList(Object):
    """`GET /sessions`, outside the schema."""

    sessions: list[Session]
    next_cursor: str | None


class TurnSent(Object):
    """`turns.send` and `sessions.compact`."""

    turn: Turn
    delivery: Delivery
    duplicate: bool
    seq: Seq
    timing: Timing | UnsetType = UNSET


class OneTurn(Object):
    """`turns.get`."""

    turn: Turn


class TurnChanged(Object):
    """`turns.cancel`."""

    turn: Turn
    seq: Seq


class AskList(Object):
    """`asks.list`."""

    asks: list[Ask]
    next_cursor: str | None


class OneAsk(Object):
    """`asks.get`."""

    ask: Ask


class AskChanged(Object):
    """`asks.answer` and `asks.dismiss`."""

    ask: Ask
    seq: Seq


class SubagentList(Object):
    """`subagents.list`."""

    subagents: list[Subagent]
    next_cursor: str | None


class OneSubagent(Object):
    """`subagents.get`."""

    subagent: Subagent


class SubagentChanged(Object):
    """`subagents.stop`."""

    subagent: Subagent
    seq: Seq


class EventList(Object):
    """`events.list`."""

    events: list[Event]
    earlier_turns: Count | None
    last_seq: Seq
    has_more: bool


class FileList(Object):
    """`files.list`, outside the schema: in the byte order of their paths."""

    path: Annotated[str, Meta(description="The folder, relative to the workspace")]
    entries: list[FileEntry]
    next_cursor: Annotated[str | None, Meta(description="`cursor` of the next page; null on the last")]


class Content(Object):
    """Bytes, and no JSON."""


class ArchiveLanded(Object):
    """`files.upload`, outside the schema: all of it is in place."""

    path: FolderOfFiles
    files: FilesLanded
    bytes: BytesLanded
    replaced: Replaced
    seq: Seq


class TerminalOpened(Object):
    """`terminals.open`."""

    terminal: Terminal


class Pong(Object):
    """`ping`."""

    timing: Timing


class Server(Object):
    """Who answers."""

    version: str
    region: str | None


class ProtocolFeatures(Object):
    """What this server does beyond version 1."""

    features: list[str]


class ReadyLimits(Object):
    """The limits of this connection."""

    max_attached: int
    max_message_bytes: int
    max_requests_per_second: int


class Ready(Object):
    """The first message of every connection."""

    connection_id: ConnectionId
    server: Server
    protocol: ProtocolFeatures
    limits: ReadyLimits
    expires_at: Timestamp | None
    expires_in_ms: Count | None


class SessionsAttached(Object):
    """Answers an attach named in the connection's URL."""

    session_id: SessionId
    error: ErrorBody | None
    session: Session | None
    log_epoch: str | None
    epoch_start_seq: Seq | None
    capabilities: Capabilities | None
    earlier_turns: Count | None
    timing: Timing | None


class SessionDetached(Object):
    """A session that this connection no longer follows."""

    session_id: SessionId
    reason: Literal["too_far_behind", "access_lost", "epoch_changed", "unavailable"]
    log_epoch: str | UnsetType = UNSET
    epoch_start_seq: Seq | UnsetType = UNSET


class TerminalExited(Object):
    """The end of a terminal: exactly one of the two is not null."""

    terminal_id: TerminalId
    exit_code: ExitCode | None
    signal: str | None
