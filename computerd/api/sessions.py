"""The methods about sessions."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from computerd.api.caller import Caller
from computerd.api.front import Answer
from computerd.contract.objects import Origin
from computerd.contract.params import CreateSession, GetSession, ListSessions
from computerd.contract.results import OneSession, SessionCreated, SessionList
from computerd.session.sessions import Sessions

DEFAULT_LIMIT: Final = 100
"""Sessions of a page: as many as `limit` allows."""


async def create(sessions: Sessions, params: CreateSession, caller: Caller) -> Answer:
    """A new session of the caller's, or with status 200 the one that the same request has made before."""
    origin = Origin(type=caller.via, client=caller.client, slack=None)
    created = await sessions.create(params, caller.member, origin, caller.actor)
    result = SessionCreated(session=created.session, turn=None, seq=created.seq)
    return Answer(result, None if created.new else 200)


async def get(sessions: Sessions, params: GetSession, caller: Caller) -> OneSession:
    """The session as it is now."""
    min_seq = 0 if params.min_seq is UNSET else params.min_seq
    return OneSession(session=await sessions.get(params.session_id, min_seq))


async def list_sessions(sessions: Sessions, params: ListSessions, caller: Caller) -> SessionList:
    """The sessions of all members, newest first."""
    page, cursor = await sessions.list(
        archived=False if params.archived is UNSET else params.archived,
        limit=DEFAULT_LIMIT if params.limit is UNSET else params.limit,
        cursor=None if params.cursor is UNSET else params.cursor,
    )
    return SessionList(sessions=page, next_cursor=cursor)
