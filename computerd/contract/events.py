"""The types of events and deltas, and the fields of their data. A client ignores a type that it does not know."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct

from computerd.contract.objects import (
    Ask,
    Delivery,
    IfBusy,
    Origin,
    SessionStatus,
    Settings,
    Subagent,
    Trigger,
    TurnError,
    TurnStatus,
)
from computerd.contract.shapes import (
    AskId,
    BytesLanded,
    Count,
    ExitCode,
    FilesLanded,
    FolderOfFiles,
    Object,
    Replaced,
    Seq,
    SubagentId,
    TerminalId,
    TurnId,
)


class SessionCreated(Object):
    """A session was made: the first event of each."""

    title: str | None
    origin: Origin
    settings: Settings


class SessionStatusChanged(Object):
    """A session's status is another. `from` is null for the first."""

    from_: SessionStatus | None
    to: SessionStatus


class Change(Object):
    """How one field changed."""

    from_: Any
    to: Any


class SessionUpdated(Object):
    """A session's title, settings, metadata or `archived` were changed; `changes` names each field."""

    changes: dict[str, Change]


class SessionCompacted(Object):
    """The agent's context was shortened."""

    before_tokens: Count | None
    after_tokens: Count | None
    auto: bool


class MessageReceived(Object):
    """A message reached the session."""

    input: str
    if_busy: IfBusy | None
    delivery: Delivery
    interrupted_turn_ids: list[TurnId]
    declined_ask_ids: list[AskId]


class TurnQueued(Object):
    """A turn waits for others. `position` counts from 1."""

    position: Count
    trigger: Trigger
    subagent_id: SubagentId | None


class TurnSteered(Object):
    """A message reached a turn that runs. `messageSeq` is that message's event."""

    message_seq: Seq


class TurnStarted(Object):
    """A turn began to run."""

    model: str | None
    effort: str | None
    mode: str | None
    trigger: Trigger
    subagent_id: SubagentId | None


class TurnStatusChanged(Object):
    """A turn's status is another."""

    from_: TurnStatus
    to: TurnStatus


class TurnCompleted(Object):
    """A turn ended well."""

    text: str | None
    duration_ms: Count
    silent: bool


class TurnFailed(Object):
    """A turn ended with an error."""

    error: TurnError


class TurnCancelled(Object):
    """A turn was stopped or withdrawn."""

    reason: Literal["interrupted", "withdrawn"] | None
    forced: bool
    input: str | None


class MessageCompleted(Object):
    """The agent said something."""

    block_id: str
    parent_call_id: str | None
    text: str


class ReasoningCompleted(Object):
    """The agent thought something."""

    block_id: str
    parent_call_id: str | None
    text: str | None
    redacted: bool
    duration_ms: Count | None


class ToolStarted(Object):
    """The agent uses a tool."""

    subagent_id: SubagentId | None
    tool_name: str
    call_id: str
    parent_call_id: str | None
    title: str | None
    input: Any
    input_truncated: bool


class FileChange(Object):
    """A file that a tool changed; `added` and `removed` count lines."""

    path: str
    status: Literal["added", "modified", "deleted"]
    added: Count
    removed: Count


class ToolCompleted(Object):
    """A tool has done its work."""

    subagent_id: SubagentId | None
    tool_name: str
    call_id: str
    parent_call_id: str | None
    title: str | None
    output: Any
    output_truncated: bool
    file_changes: list[FileChange] | None
    duration_ms: Count | None


class ToolFailed(Object):
    """A tool failed, or was not allowed."""

    subagent_id: SubagentId | None
    tool_name: str
    call_id: str
    parent_call_id: str | None
    title: str | None
    message: str
    settled_by: str | None


class SubagentStarted(Object):
    """A subagent began to work."""

    subagent: Subagent


class SubagentEnded(Object):
    """A subagent's work has ended."""

    subagent: Subagent


class AskOpened(Object):
    """The agent waits for a person."""

    ask: Ask


class AskClosed(Object):
    """The agent waits no longer."""

    ask: Ask


class UsageRecorded(Object):
    """What a request to a model used."""

    model: str
    input_tokens: Count
    output_tokens: Count
    reasoning_tokens: Count
    cached_tokens: Count
    cache_write_tokens: Count
    cost_usd: float | None
    first_token_ms: Count | None
    duration_ms: Count | None
    used_tokens: Count | None
    window_tokens: Count | None


class ModelRateLimited(Object):
    """A model refused for a while; the agent tries again."""

    model: str
    retry_after_ms: Count | None
    attempt: Count


class RuntimeStarting(Object):
    """The agent's surroundings are being started."""

    phase: Literal["computer", "agent"]


class RuntimeConnected(Object):
    """The agent is ready."""

    warm: bool
    resumed: bool
    duration_ms: Count


class RuntimeSuspended(Object):
    """The agent was put away."""

    reason: Literal["idle", "requested", "lost"]


class FilesPushed(Object):
    """Files arrived in the workspace."""

    path: FolderOfFiles
    files: FilesLanded
    bytes: BytesLanded
    replaced: Replaced


class TerminalOpened(Object):
    """A terminal runs. `command` is null for a shell."""

    terminal_id: TerminalId
    command: str | None


class TerminalClosed(Object):
    """A terminal has ended. `exitCode` is null when a signal or the daemon's own end closed it."""

    terminal_id: TerminalId
    exit_code: ExitCode | None


EVENTS: Final[dict[str, type[Struct]]] = {
    "session.created": SessionCreated,
    "session.status_changed": SessionStatusChanged,
    "session.updated": SessionUpdated,
    "session.compacted": SessionCompacted,
    "message.received": MessageReceived,
    "turn.queued": TurnQueued,
    "turn.steered": TurnSteered,
    "turn.started": TurnStarted,
    "turn.status_changed": TurnStatusChanged,
    "turn.completed": TurnCompleted,
    "turn.failed": TurnFailed,
    "turn.cancelled": TurnCancelled,
    "message.completed": MessageCompleted,
    "reasoning.completed": ReasoningCompleted,
    "tool.started": ToolStarted,
    "tool.completed": ToolCompleted,
    "tool.failed": ToolFailed,
    "subagent.started": SubagentStarted,
    "subagent.ended": SubagentEnded,
    "ask.opened": AskOpened,
    "ask.closed": AskClosed,
    "usage.recorded": UsageRecorded,
    "model.rate_limited": ModelRateLimited,
    "runtime.starting": RuntimeStarting,
    "runtime.connected": RuntimeConnected,
    "runtime.suspended": RuntimeSuspended,
    "files.pushed": FilesPushed,
    "terminal.opened": TerminalOpened,
    "terminal.closed": TerminalClosed,
}


class TextDelta(Object):
    """More text of a block."""

    block_id: str
    parent_call_id: str | None
    text: str


class ToolPreparing(Object):
    """The agent is writing a tool's input."""

    subagent_id: SubagentId | None
    call_id: str
    tool_name: str
    path: str | None
    description: str | None
    lines: Count | None


class ToolDelta(Object):
    """More output of a tool."""

    call_id: str
    text: str


class SessionCompacting(Object):
    """The agent's context is being shortened."""


class SubagentProgress(Object):
    """How far a subagent is."""

    subagent_id: SubagentId
    activity: str | None
    tool_calls: Count
    tokens: Count


DELTAS: Final[dict[str, type[Struct]]] = {
    "message.delta": TextDelta,
    "reasoning.delta": TextDelta,
    "tool.preparing": ToolPreparing,
    "tool.delta": ToolDelta,
    "session.compacting": SessionCompacting,
    "subagent.progress": SubagentProgress,
}
