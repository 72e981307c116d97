"""What changes a session, as pure functions of the session: each decides, inside the transaction that commits it, what is to be committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET

from computerd.contract.errors import ApiError, Code
from computerd.contract.events import Change as FieldChange
from computerd.contract.events import RuntimeSuspended, SessionStatusChanged, SessionUpdated, TerminalOpened
from computerd.contract.objects import Actor, SessionStatus
from computerd.contract.params import UpdateSession
from computerd.session.drafts import draft
from computerd.session.port import Change, Decided, Decision, Draft, Record

SuspendReason: TypeAlias = Literal["idle", "requested", "lost"]


def update(params: UpdateSession, actor: Actor) -> Decision:
    """Title, speed, metadata and `archived` as `params` say. `metadata` replaces what was there. An archived session is suspended too."""

    def decide(record: Record) -> Decided:
        changes = _changes(record, params)
        if not changes:
            return Decided()
        drafts = [draft(SessionUpdated(changes=changes), actor)]
        status = None
        if params.archived is True and not record.archived and record.status != "suspended":
            drafts += _suspension(record, "requested", actor)
            status = "suspended"
        return Decided(drafts, _change(record, params, status))

    return decide


def suspend(reason: SuspendReason, actor: Actor | None) -> Decision:
    """The session sleeps. One that does already stays as it is."""

    def decide(record: Record) -> Decided:
        if record.status == "suspended":
            return Decided()
        return Decided(_suspension(record, reason, actor), Change(status="suspended"))

    return decide


def resume(actor: Actor) -> Decision:
    """A suspended session is ready again. Any other stays as it is.

    Raises, inside the transaction:
        ApiError: `feature_unavailable` when it is archived.
    """

    def decide(record: Record) -> Decided:
        refuse_archived(record)
        if record.status != "suspended":
            return Decided()
        return Decided([_waking(actor)], Change(status="idle"))

    return decide


def open_terminal(terminal_id: str, command: str | None, actor: Actor) -> Decision:
    """A terminal is open, and the session is awake.

    Raises, inside the transaction:
        ApiError: `feature_unavailable` when it is archived.
    """

    def decide(record: Record) -> Decided:
        refuse_archived(record)
        opened = draft(TerminalOpened(terminal_id=terminal_id, command=command), actor)
        if record.status != "suspended":
            return Decided([opened])
        return Decided([_waking(actor), opened], Change(status="idle"))

    return decide


def refuse_archived(record: Record) -> None:
    """Refuses work on a session that is archived.

    Raises:
        ApiError: `feature_unavailable`.
    """
    if record.archived:
        raise ApiError(Code.FEATURE_UNAVAILABLE, "The session is archived; take it out of the archive first.")


def _waking(actor: Actor) -> Draft:
    return draft(SessionStatusChanged(from_="suspended", to="idle"), actor)


def _suspension(record: Record, reason: SuspendReason, actor: Actor | None) -> list[Draft]:
    return [
        draft(RuntimeSuspended(reason=reason), actor),
        draft(SessionStatusChanged(from_=cast("SessionStatus", record.status), to="suspended"), actor),
    ]


def _changes(record: Record, params: UpdateSession) -> dict[str, FieldChange]:
    """The fields that `params` change, by their names in the API."""
    pairs: Mapping[str, tuple[Any, Any]] = {
        "title": (record.title, params.title),
        "speed": (record.settings.speed, params.speed),
        "archived": (record.archived, params.archived),
        "metadata": (dict(record.metadata), params.metadata),
    }
    return {
        name: FieldChange(from_=before, to=after)
        for name, (before, after) in pairs.items()
        if after is not UNSET and after != before
    }


def _change(record: Record, params: UpdateSession, status: str | None) -> Change:
    speed = params.speed
    return Change(
        status=status,
        title=None if params.title is UNSET else params.title,
        settings=None if speed is UNSET else msgspec.structs.replace(record.settings, speed=speed),
        metadata=None if params.metadata is UNSET else params.metadata,
        archived=None if params.archived is UNSET else params.archived,
    )
