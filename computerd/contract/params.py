"""The params of every method, with their limits. An HTTP route's path, query and body become the same Struct."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from computerd.contract import limits
from computerd.contract.objects import AskStatus, IfBusy, Speed, TurnStatus
from computerd.contract.shapes import (
    Cells,
    Command,
    Cursor,
    Depth,
    EntryPath,
    EventType,
    FileCursor,
    FolderPath,
    Input,
    Key,
    Limit100,
    Limit500,
    Metadata,
    Name,
    NewTitle,
    Params,
    Reference,
    Seq,
    SessionId,
    TailTurns,
    Term,
    Title,
    WaitMs,
    WorkspaceOf,
)


class Nothing(Params):
    """No params at all."""


class OfSession(Params):
    """Only the session."""

    session_id: Reference


class Attach(Params):
    """`sessions.attach`. `after` or `tailTurns` says from where on events come; without either, those from now on. Not `resume` with `readOnly`."""

    session_id: Reference
    after: Seq | UnsetType = UNSET
    tail_turns: TailTurns | UnsetType = UNSET
    deltas: Annotated[bool, Meta(description="Send passing signs of progress, too")] | UnsetType = UNSET
    resume: Annotated[bool, Meta(description="Make a suspended session ready again first")] | UnsetType = UNSET
    read_only: (
        Annotated[bool, Meta(description="Refuse what would change the session on this connection")] | UnsetType
    ) = UNSET


class GetSession(Params):
    """`sessions.get`."""

    session_id: Reference
    min_seq: Seq | UnsetType = UNSET


class ListSessions(Params):
    """`GET /sessions`, outside the schema."""

    archived: bool | UnsetType = UNSET
    limit: Limit100 | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET


class CreateSessionBody(Params):
    """`POST /sessions`."""

    id: SessionId | UnsetType = UNSET
    input: Input | UnsetType = UNSET
    title: Title | UnsetType = UNSET
    model: Name | UnsetType = UNSET
    effort: Name | UnsetType = UNSET
    speed: Speed | UnsetType = UNSET
    mode: Name | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET


CreateSession = CreateSessionBody


class UpdateSession(Params):
    """`sessions.update`."""

    session_id: Reference
    idempotency_key: Key | UnsetType = UNSET
    title: NewTitle | UnsetType = UNSET
    model: Name | UnsetType = UNSET
    effort: Name | UnsetType = UNSET
    speed: Speed | UnsetType = UNSET
    mode: Name | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET


class Interrupt(Params):
    """`sessions.interrupt`."""

    session_id: Reference
    idempotency_key: Key | UnsetType = UNSET
    turn_id: Reference | UnsetType = UNSET


class Compact(Params):
    """`sessions.compact`."""

    session_id: Reference
    idempotency_key: Key | UnsetType = UNSET
    instructions: Annotated[str, Meta(max_length=limits.MAX_INSTRUCTIONS_CHARACTERS)] | UnsetType = UNSET


class Suspend(Params):
    """`sessions.suspend`."""

    session_id: Reference
    idempotency_key: Key | UnsetType = UNSET
    if_idle: Annotated[bool, Meta(description="Only if no terminal is open; otherwise `session_busy`")] | UnsetType = (
        UNSET
    )


class Resume(Params):
    """`sessions.resume`."""

    session_id: Reference
    idempotency_key: Key | UnsetType = UNSET


class SendTurn(Params):
    """`turns.send`."""

    session_id: Reference
    input: Input
    idempotency_key: Key | UnsetType = UNSET
    if_busy: IfBusy | UnsetType = UNSET


class GetTurn(Params):
    """`turns.get`."""

    session_id: Reference
    turn_id: Reference
    wait_ms: WaitMs | UnsetType = UNSET
    status: TurnStatus | UnsetType = UNSET
    min_seq: Seq | UnsetType = UNSET


class CancelTurn(Params):
    """`turns.cancel`."""

    session_id: Reference
    turn_id: Reference
    idempotency_key: Key | UnsetType = UNSET


class ListAsks(Params):
    """`asks.list`."""

    session_id: Reference
    status: AskStatus | UnsetType = UNSET
    limit: Limit100 | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET


class GetAsk(Params):
    """`asks.get`."""

    session_id: Reference
    ask_id: Reference


class AnswerAsk(Params):
    """`asks.answer`. Over HTTP the body is the answer."""

    session_id: Reference
    ask_id: Reference
    answer: dict[str, Any]
    idempotency_key: Key | UnsetType = UNSET


class DismissAsk(Params):
    """`asks.dismiss`."""

    session_id: Reference
    ask_id: Reference
    idempotency_key: Key | UnsetType = UNSET
    message: Annotated[str, Meta(max_length=limits.MAX_ANSWER_MESSAGE_CHARACTERS)] | UnsetType = UNSET


class ListSubagents(Params):
    """`subagents.list`."""

    session_id: Reference
    status: Literal["running", "all"] | UnsetType = UNSET
    limit: Limit100 | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET


class GetSubagent(Params):
    """`subagents.get`."""

    session_id: Reference
    subagent_id: Reference


class StopSubagent(Params):
    """`subagents.stop`."""

    session_id: Reference
    subagent_id: Reference
    idempotency_key: Key | UnsetType = UNSET


class ListEvents(Params):
    """`events.list`."""

    session_id: Reference
    after: Seq | UnsetType = UNSET
    limit: Limit500 | UnsetType = UNSET
    wait_ms: WaitMs | UnsetType = UNSET
    tail_turns: TailTurns | UnsetType = UNSET
    turn_id: Reference | UnsetType = UNSET
    types: Annotated[list[EventType], Meta(min_length=1, max_length=100)] | UnsetType = UNSET


class OpenTerminal(Params):
    """`terminals.open`. `cols` and `rows` are required on a tty, and refused, as `term` is, without one."""

    session_id: Reference
    cols: Cells | UnsetType = UNSET
    rows: Cells | UnsetType = UNSET
    command: Command | UnsetType = UNSET
    tty: bool = True
    term: Term | UnsetType = UNSET


class ResizeTerminal(Params):
    """`terminals.resize`."""

    terminal_id: Reference
    cols: Cells
    rows: Cells


class OfTerminal(Params):
    """Only the terminal."""

    terminal_id: Reference


class ListFiles(Params):
    """`files.list`, outside the schema."""

    session_id: WorkspaceOf
    path: FolderPath
    depth: Depth | UnsetType = UNSET
    limit: Limit100 | UnsetType = UNSET
    cursor: FileCursor | UnsetType = UNSET


class ReadFile(Params):
    """`files.read`, outside the schema."""

    session_id: WorkspaceOf
    path: EntryPath


class DownloadArchive(Params):
    """`files.download`, outside the schema."""

    session_id: WorkspaceOf
    path: FolderPath


class UploadArchive(Params):
    """`files.upload`, outside the schema."""

    session_id: WorkspaceOf
    path: EntryPath
    replace: Annotated[bool, Meta(description="Put it in the place of what is there; otherwise `path_exists`")] = False


class Ack(Params):
    """`sessions.ack`."""

    session_id: Reference
    seq: Seq


class TelemetryClient(Params):
    """Which client sends telemetry."""

    name: Literal["opc"]
    version: Name
    os: Name | UnsetType = UNSET
    arch: Name | UnsetType = UNSET


class Telemetry(Params):
    """`telemetry`."""

    v: Annotated[int, Meta(ge=1, le=1)]
    client: TelemetryClient
    events: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=20)]
