"""From the journal's record of a session to the object of the API."""

from __future__ import annotations

from typing import cast

from computerd.contract.objects import Context, Session, SessionStatus, Urls
from computerd.contract.shapes import timestamp
from computerd.session.port import Record


def snapshot(record: Record, log_epoch: str, now: float) -> Session:
    """The session as it is at `now`, in seconds since the epoch. Without an agent it has no turns, asks or subagents."""
    return Session(
        id=record.id,
        title=record.title,
        status=cast("SessionStatus", record.status),
        archived=record.archived,
        owner=record.owner,
        origin=record.origin,
        settings=record.settings,
        metadata=dict(record.metadata),
        active_turn_id=None,
        queued=[],
        asks=[],
        subagents=[],
        last_turn=None,
        last_text=None,
        context=Context(used_tokens=None, window_tokens=None),
        last_seq=record.last_seq,
        log_epoch=log_epoch,
        epoch_start_seq=record.first_seq,
        created_at=timestamp(record.created_at),
        last_active_at=timestamp(record.active_at),
        synced_at=timestamp(now),
        urls=Urls(dashboard=None),
    )
