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
from computerd.contract.shapes import AskId, Count, Object, Seq, SubagentId, TerminalId, TurnId


class SessionCreated(Object):
    """`session.created`."""

    title: str | None
    origin: Origin
    settings: Settings


class SessionStatusChanged(Object):
    """`session.status_changed`."""

    from_: SessionStatus | None
    to: SessionStatus


class Change(Object):
    """One field of `session.updated`."""

    from_: Any
    to: Any


class SessionUpdated(Object):
    """`session.updated`."""

    changes: dict[str, Change]


class SessionCompacted(Object):
    """`session.compacted`."""

    before_tokens: Count | None
    after_tokens: Count | None
    auto: bool


class MessageReceived(Object):
    """`message.received`."""

    input: str
    if_busy: IfBusy | None
    delivery: Delivery
    interrupted_turn_ids: list[TurnId]
    declined_ask_ids: list[AskId]


class TurnQueued(Object):
    """`turn.queued`."""

    position: Count
    trigger: Trigger
    subagent_id: SubagentId | None


class TurnSteered(Object):
    """`turn.steered`."""

    message_seq: Seq


class TurnStarted(Object):
    """`turn.started`."""

    model: str | None
    effort: str | None
    mode: str | None
    trigger: Trigger
    subagent_id: SubagentId | None


class TurnStatusChanged(Object):
    """`turn.status_changed`."""

    from_: TurnStatus
    to: TurnStatus


class TurnCompleted(Object):
    """`turn.completed`."""

    text: str | None
    duration_ms: Count
    silent: bool


class TurnFailed(Object):
    """`turn.failed`."""

    error: TurnError


class TurnCancelled(Object):
    """`turn.cancelled`."""

    reason: Literal["interrupted", "withdrawn"] | None
    forced: bool
    input: str | None


class MessageCompleted(Object):
    """`message.completed`."""

    block_id: str
    parent_call_id: str | None
    text: str


class ReasoningCompleted(Object):
    """`reasoning.completed`."""

    block_id: str
    parent_call_id: str | None
    text: str | None
    redacted: bool
    duration_ms: Count | None


class ToolStarted(Object):
    """`tool.started`."""

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
    """`tool.completed`."""

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
    """`tool.failed`."""

    subagent_id: SubagentId | None
    tool_name: str
    call_id: str
    parent_call_id: str | None
    title: str | None
    message: str
    settled_by: str | None


class SubagentStarted(Object):
    """`subagent.started`."""

    subagent: Subagent


class SubagentEnded(Object):
    """`subagent.ended`."""

    subagent: Subagent


class AskOpened(Object):
    """`ask.opened`."""

    ask: Ask


class AskClosed(Object):
    """`ask.closed`."""

    ask: Ask


class UsageRecorded(Object):
    """`usage.recorded`."""

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
    """`model.rate_limited`."""

    model: str
    retry_after_ms: Count | None
    attempt: Count


class RuntimeStarting(Object):
    """`runtime.starting`."""

    phase: Literal["computer", "agent"]


class RuntimeConnected(Object):
    """`runtime.connected`."""

    warm: bool
    resumed: bool
    duration_ms: Count


class RuntimeSuspended(Object):
    """`runtime.suspended`."""

    reason: Literal["idle", "requested", "lost"]


class FilesPushed(Object):
    """`files.pushed`."""

    path: str
    files: Count
    bytes: Count
    replaced: bool


class TerminalOpened(Object):
    """`terminal.opened`."""

    terminal_id: TerminalId
    command: str | None


class TerminalClosed(Object):
    """`terminal.closed`. `exit_code` is null when a signal or the daemon's own end closed it."""

    terminal_id: TerminalId
    exit_code: int | None


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
    """`message.delta` and `reasoning.delta`."""

    block_id: str
    parent_call_id: str | None
    text: str


class ToolPreparing(Object):
    """`tool.preparing`."""

    subagent_id: SubagentId | None
    call_id: str
    tool_name: str
    path: str | None
    description: str | None
    lines: Count | None


class ToolDelta(Object):
    """`tool.delta`."""

    call_id: str
    text: str


class SessionCompacting(Object):
    """`session.compacting`."""


class SubagentProgress(Object):
    """`subagent.progress`."""

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
