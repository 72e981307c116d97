"""The methods about events."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from computerd.api.caller import Caller
from computerd.contract.errors import ApiError, Code
from computerd.contract.params import ListEvents
from computerd.contract.results import EventList
from computerd.session.sessions import Page, Sessions

DEFAULT_LIMIT: Final = 100
"""Events of a page. Source: `events.list` in the API schema."""


async def events_list(sessions: Sessions, params: ListEvents, caller: Caller) -> EventList:
    """A session's events after a number, or the next ones within `waitMs`.

    Without an agent there are no turns: the tail of the last so many turns is everything, with none before it.
    """
    if params.turn_id is not UNSET:
        await sessions.record(params.session_id)
        raise ApiError(Code.TURN_NOT_FOUND, "The session has no such turn.", field="turnId")
    page = await _page(sessions, params, caller.member.id)
    return EventList(
        events=list(page.events),
        earlier_turns=None if params.tail_turns is UNSET else 0,
        last_seq=page.last_seq,
        has_more=page.has_more,
    )


async def _page(sessions: Sessions, params: ListEvents, member: str) -> Page:
    wait = 0.0 if params.wait_ms is UNSET else params.wait_ms / 1000
    deadline = sessions.clock.seconds() + wait
    first = 0 if params.after is UNSET else params.after
    after, epoch = first, sessions.journal.log_epoch
    while True:
        page = await sessions.events(
            params.session_id,
            after=after,
            limit=DEFAULT_LIMIT if params.limit is UNSET else params.limit,
            types=None if params.types is UNSET else params.types,
            member=member,
        )
        left = deadline - sessions.clock.seconds()
        if page.events or left <= 0:
            return page
        await sessions.news(params.session_id, seen=page.last_seq, member=member, seconds=left)
        # nothing up to there is wanted: a long history is not looked through again for each new event of another type
        after = page.last_seq if sessions.journal.log_epoch == epoch else first
