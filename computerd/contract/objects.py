"""The objects of the API, as the schema lists them: every field is there, `| None` may be null, UNSET may be absent."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from computerd.contract import limits
from computerd.contract.shapes import (
    AskId,
    Channel,
    Count,
    EventId,
    EventSeq,
    FileMode,
    Metadata,
    Object,
    Params,
    Seq,
    SessionId,
    SubagentId,
    TerminalId,
    Timestamp,
    TurnId,
)

Via = Literal["slack", "opc", "dashboard", "api"]
Speed = Literal["fast", "standard"]
SessionStatus = Literal["starting", "running", "waiting", "idle", "suspended"]
TurnStatus = Literal["queued", "running", "cancelling", "completed", "failed", "cancelled"]
AskStatus = Literal["open", "answered", "dismissed", "declined", "interrupted"]
SubagentStatus = Literal["running", "completed", "failed", "stopped"]
Trigger = Literal["message", "subagent"]
IfBusy = Literal["queue", "steer", "interrupt"]
Delivery = Literal["started", "queued", "steered"]
Feature = Literal["steer", "compact", "terminal", "workspace", "reasoning", "subagents"]


class Person(Object):
    """A member."""

    id: str
    name: str | None
    email: str | None


class SlackThread(Object):
    """Where in Slack a session began."""

    team_id: str
    channel_id: str
    channel_name: str | None
    thread_ts: str
    url: str | None


class Origin(Object):
    """How a session came to be."""

    type: Via
    client: str | None
    slack: SlackThread | None


class Actor(Object):
    """Who caused an event, and through what."""

    id: str
    name: str | None
    via: Via
    client: str | None


class Settings(Object):
    """What a session's turns run with."""

    model: str | None
    effort: str | None
    mode: str | None
    speed: Speed | None


class Context(Object):
    """How full the model's context window is, in tokens."""

    used_tokens: Count | None
    window_tokens: Count | None


class Urls(Object):
    """Pages for people."""

    dashboard: str | None


class Timing(Object):
    """What a request cost on the server."""

    server_us: Annotated[int, Meta(ge=0, description="Microseconds from its arrival to its answer")]


class Usage(Object):
    """What a turn used."""

    input_tokens: Count
    output_tokens: Count
    reasoning_tokens: Count
    cached_tokens: Count
    cache_write_tokens: Count
    cost_usd: float | None


class TurnError(Object):
    """Why a turn failed."""

    code: Literal[
        "model_rejected",
        "model_unavailable",
        "model_stream_failed",
        "context_too_long",
        "runtime_lost",
        "runtime_failed",
        "tool_failed",
        "agent_failed",
    ]
    message: str


class Steering(Object):
    """A message that reached a turn while it ran."""

    input: str
    author: Actor | None
    created_at: Timestamp


class Turn(Object):
    """One exchange with the agent."""

    id: TurnId
    session_id: SessionId
    status: TurnStatus
    trigger: Trigger
    subagent_id: SubagentId | None
    if_busy: IfBusy | None
    input: str | None
    author: Actor | None
    steering: list[Steering]
    created_at: Timestamp
    started_at: Timestamp | None
    ended_at: Timestamp | None
    text: str | None
    error: TurnError | None
    reason: Literal["interrupted", "withdrawn"] | None
    forced: bool
    usage: Usage | None


class TurnSummary(Object):
    """A turn that has ended, in short."""

    id: TurnId
    status: TurnStatus
    started_at: Timestamp | None
    ended_at: Timestamp | None
    error: TurnError | None
    reason: Literal["interrupted", "withdrawn"] | None


class ApprovalAnswer(Params):
    """Whether a tool may run."""

    decision: Literal["allow", "deny", "always"]
    message: Annotated[str, Meta(max_length=limits.MAX_ANSWER_MESSAGE_CHARACTERS)] | UnsetType = UNSET
    mode: str | UnsetType = UNSET


class QuestionChoice(Params):
    """The answer to one question."""

    question_id: str
    choices: list[str]
    text: str | None


class QuestionAnswer(Params):
    """The answers to the agent's questions."""

    answers: list[QuestionChoice]


class DeclineAnswer(Object):
    """A message that came instead of an answer."""

    message: str
    message_seq: Seq


class Approval(Object):
    """What the agent asks to be allowed."""

    tool_name: str
    call_id: str
    input: Any
    title: str | None
    always_allows: str | None


class Option(Object):
    """One choice of a question."""

    label: str
    description: str | None


class Question(Object):
    """One question of the agent."""

    id: str
    header: str | None
    text: str
    multi_select: bool
    options: list[Option]


class Questions(Object):
    """What the agent wants to know."""

    questions: list[Question]


class SecretRequest(Object):
    """A secret that the agent needs."""

    name: str
    purpose: str | None
    file: str | None


class Ask(Object):
    """Something that the agent waits for a person to answer."""

    id: AskId
    session_id: SessionId
    turn_id: TurnId | None
    kind: Literal["approval", "question", "secret"]
    status: AskStatus
    created_at: Timestamp
    closed_at: Timestamp | None
    closed_by: Actor | None
    answer: dict[str, Any] | None
    approval: Approval | None
    question: Questions | None
    secret: SecretRequest | None


class SubagentError(Object):
    """Why a subagent failed."""

    code: str
    message: str


class Subagent(Object):
    """A piece of a turn's work that runs on its own."""

    id: SubagentId
    session_id: SessionId
    turn_id: TurnId | None
    call_id: str | None
    name: str | None
    agent_type: str | None
    background: bool
    status: SubagentStatus
    activity: str | None
    tool_calls: Count
    tokens: Count
    created_at: Timestamp
    ended_at: Timestamp | None
    duration_ms: Count | None
    result: str | None
    result_truncated: bool
    error: SubagentError | None
    stopped_by: Actor | None


class SubagentSummary(Object):
    """A subagent, in short."""

    id: SubagentId
    name: str | None
    agent_type: str | None
    status: SubagentStatus
    duration_ms: Count | None


class Model(Object):
    """A model that a session may use."""

    id: str
    name: str
    efforts: list[str]
    context_window: Count | None
    default: bool


class Capabilities(Object):
    """What a session can do here."""

    models: list[Model]
    modes: list[str]
    features: list[Feature]


class Secret(Object):
    """A secret's description. No operation reads or writes one."""

    name: str
    scope: Literal["session", "me", "organization"]
    session_id: SessionId | None
    file: str | None
    effective: bool
    set_by: Actor | None
    updated_at: Timestamp


class Session(Object):
    """A place to work: a workspace, its history, and what runs in it."""

    id: SessionId
    title: str | None
    status: SessionStatus
    archived: bool
    owner: Person
    origin: Origin
    settings: Settings
    metadata: Metadata
    active_turn_id: TurnId | None
    queued: list[Turn]
    asks: list[Ask]
    subagents: list[Subagent]
    last_turn: TurnSummary | None
    last_text: str | None
    context: Context
    last_seq: Seq
    log_epoch: str
    epoch_start_seq: Seq
    created_at: Timestamp
    last_active_at: Timestamp
    synced_at: Timestamp
    urls: Urls


class Event(Object):
    """One line of a session's journal."""

    id: EventId
    seq: EventSeq
    created_at: Timestamp
    session_id: SessionId
    turn_id: TurnId | None
    actor: Actor | None
    type: str
    data: dict[str, Any]


class Delta(Object):
    """A passing sign of progress, never kept."""

    type: str
    session_id: SessionId
    turn_id: TurnId | None
    data: dict[str, Any]


class FileEntry(Object):
    """What a folder of a workspace holds. `target` is null but for a symbolic link; a name that is not UTF-8 is `encoded` with percent signs."""

    path: str
    name: str
    type: Literal["file", "directory", "symlink", "other"]
    size: Count
    mode: FileMode
    modified_at: Timestamp
    target: str | None
    encoded: bool


class Terminal(Object):
    """A terminal as its opener sees it."""

    id: TerminalId
    channel: Channel
    stderr_channel: Channel | None


class ErrorBody(Object):
    """What every refusal carries."""

    code: str
    message: str
    status: int | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    field: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    retry_after_ms: Count | UnsetType = UNSET


class Result(Object):
    """What `opc -p --output-format json` prints for a turn."""

    type: Literal["result"]
    subtype: Literal["success", "error", "cancelled", "waiting"]
    is_error: bool
    session_id: SessionId
    turn_id: TurnId | None
    status: TurnStatus | None
    result: str | None
    error: TurnError | None
    reason: str | None
    ask: Ask | None
    url: str | None
    duration_ms: Count
    usage: Usage | None
    subagents: list[SubagentSummary]
    turn: Turn | None
