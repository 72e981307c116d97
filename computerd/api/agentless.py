"""The methods about turns, asks and subagents, on a server that runs no agent.

There are no turns, asks or subagents then: lists are empty, nothing is found by an id, and what would need an agent is `feature_unavailable`.
Each looks for the session first, so that a session that is not there is always said to be missing.
"""

from __future__ import annotations

from typing import NoReturn

from msgspec import UNSET

from computerd.api.caller import Caller
from computerd.api.idempotency import session_changed, session_key
from computerd.contract import results
from computerd.contract.errors import ApiError, Code
from computerd.contract.params import (
    AnswerAsk,
    CancelTurn,
    Compact,
    DismissAsk,
    GetAsk,
    GetSubagent,
    GetTurn,
    Interrupt,
    ListAsks,
    ListSubagents,
    SendTurn,
    StopSubagent,
)
from computerd.session.port import Decided
from computerd.session.sessions import Sessions


async def interrupt(sessions: Sessions, params: Interrupt, caller: Caller) -> results.SessionChanged:
    """Nothing runs that could be stopped: the session is as it was. With a key, as it was the first time."""
    key = session_key(sessions, "sessions.interrupt", params, params.idempotency_key, caller)
    if key is not None:
        return session_changed(sessions, await sessions.decide(params.session_id, lambda record: Decided(), key))
    record = await sessions.record(params.session_id)
    return results.SessionChanged(session=sessions.snapshot(record), seq=record.last_seq)


async def needs_agent(sessions: Sessions, params: SendTurn | Compact, caller: Caller) -> NoReturn:
    """A message, or the shortening of an agent's context."""
    await sessions.record(params.session_id)
    raise ApiError(
        Code.FEATURE_UNAVAILABLE, "This server runs no agent: use terminals.open, or a server that lists the feature."
    )


async def turn(sessions: Sessions, params: GetTurn | CancelTurn, caller: Caller) -> NoReturn:
    """No turn has this id."""
    await sessions.record(params.session_id)
    raise ApiError(Code.TURN_NOT_FOUND, "The session has no such turn.", field="turnId")


async def list_asks(sessions: Sessions, params: ListAsks, caller: Caller) -> results.AskList:
    """None."""
    await sessions.record(params.session_id)
    _refuse_cursor(params)
    return results.AskList(asks=[], next_cursor=None)


async def ask(sessions: Sessions, params: GetAsk | AnswerAsk | DismissAsk, caller: Caller) -> NoReturn:
    """No ask has this id."""
    await sessions.record(params.session_id)
    raise ApiError(Code.ASK_NOT_FOUND, "The session has no such ask; list them to see which there are.", field="askId")


async def list_subagents(sessions: Sessions, params: ListSubagents, caller: Caller) -> results.SubagentList:
    """None."""
    await sessions.record(params.session_id)
    _refuse_cursor(params)
    return results.SubagentList(subagents=[], next_cursor=None)


async def subagent(sessions: Sessions, params: GetSubagent | StopSubagent, caller: Caller) -> NoReturn:
    """No subagent has this id."""
    await sessions.record(params.session_id)
    raise ApiError(
        Code.SUBAGENT_NOT_FOUND,
        "The session has no such subagent; list them to see which there are.",
        field="subagentId",
    )


def _refuse_cursor(params: ListAsks | ListSubagents) -> None:
    """An empty list has no second page, so no cursor can be one of ours."""
    if params.cursor is not UNSET:
        raise ApiError(Code.INVALID_CURSOR, "Pass nextCursor as the last answer gave it, or no cursor.", field="cursor")
