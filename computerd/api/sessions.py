"""The methods about sessions."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from computerd.api.caller import Caller
from computerd.api.front import Answer
from computerd.api.idempotency import session_changed, session_key
from computerd.contract.objects import Origin
from computerd.contract.params import CreateSession, GetSession, ListSessions, Resume, Suspend, UpdateSession
from computerd.contract.results import OneSession, SessionChanged, SessionCreated, SessionList
from computerd.session.lifecycle import Lifecycle
from computerd.session.making import refuse_settings
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
        member=caller.member.id,
    )
    return SessionList(sessions=page, next_cursor=cursor)


async def update(lifecycle: Lifecycle, params: UpdateSession, caller: Caller) -> SessionChanged:
    """Changes title, settings, metadata or `archived`."""
    refuse_settings(params)
    key = session_key(lifecycle.sessions, "sessions.update", params, params.idempotency_key, caller)
    return session_changed(lifecycle.sessions, await lifecycle.update(params, caller.actor, key))


async def suspend(lifecycle: Lifecycle, params: Suspend, caller: Caller) -> SessionChanged:
    """Ends what is left of a session's processes."""
    key = session_key(lifecycle.sessions, "sessions.suspend", params, params.idempotency_key, caller)
    outcome = await lifecycle.suspend(params.session_id, caller.actor, key, if_idle=params.if_idle is True)
    return session_changed(lifecycle.sessions, outcome)


async def resume(lifecycle: Lifecycle, params: Resume, caller: Caller) -> SessionChanged:
    """Makes a suspended session ready again."""
    key = session_key(lifecycle.sessions, "sessions.resume", params, params.idempotency_key, caller)
    return session_changed(lifecycle.sessions, await lifecycle.resume(params.session_id, caller.actor, key))
