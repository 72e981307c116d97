"""What a new session begins with, and which requests for one are refused."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET

from computerd.contract.errors import ApiError, Code
from computerd.contract.events import SessionCreated, SessionStatusChanged
from computerd.contract.identifiers import SESSION
from computerd.contract.objects import Actor, Origin, Person, SessionStatus, Settings
from computerd.contract.params import CreateSession, UpdateSession
from computerd.session.drafts import draft
from computerd.session.port import Draft, Random, Record, Seconds

STATUS: Final[SessionStatus] = "idle"
"""Of a new session: nothing was asked of an agent yet."""
LAST_SEQ: Final = 2
"""Of the last event that making a session commits."""


def new_record(params: CreateSession, owner: Person, origin: Origin, seconds: Seconds, random: Random) -> Record:
    """The session that `params` ask for, not yet in the journal. Its times are exact to the millisecond, as the journal keeps them."""
    now = round(seconds() * 1000) / 1000
    return Record(
        id=SESSION.new(random) if params.id is UNSET else params.id,
        owner=owner,
        origin=origin,
        settings=Settings(model=None, effort=None, mode=None, speed=None if params.speed is UNSET else params.speed),
        metadata={} if params.metadata is UNSET else params.metadata,
        title=None if params.title is UNSET else params.title,
        status=STATUS,
        archived=False,
        body_hash=None if params.id is UNSET else _hash(params),
        created_at=now,
        active_at=now,
        first_seq=1,
        last_seq=LAST_SEQ,
    )


def beginning(record: Record, actor: Actor) -> list[Draft]:
    """The events of a new session."""
    return [
        draft(SessionCreated(title=record.title, origin=record.origin, settings=record.settings), actor),
        draft(SessionStatusChanged(from_=None, to=STATUS), actor),
    ]


def refuse_what_needs_an_agent(params: CreateSession) -> None:
    """Refuses params that only an agent could serve: this release runs none.

    Raises:
        ApiError: As `refuse_settings`, or `feature_unavailable` for `input`.
    """
    refuse_settings(params)
    if params.input is not UNSET:
        raise ApiError(
            Code.FEATURE_UNAVAILABLE, "This server has no agent that could take the input; leave it out.", field="input"
        )


def refuse_settings(params: CreateSession | UpdateSession) -> None:
    """Refuses settings that no agent here knows.

    Raises:
        ApiError: `unsupported_model`, `unsupported_effort` or `unsupported_mode`.
    """
    for name, value, code in (
        ("model", params.model, Code.UNSUPPORTED_MODEL),
        ("effort", params.effort, Code.UNSUPPORTED_EFFORT),
        ("mode", params.mode, Code.UNSUPPORTED_MODE),
    ):
        if value is not UNSET:
            raise ApiError(code, f"This server has no agent that offers it; leave out {name}.", field=name)


def _hash(params: CreateSession) -> str:
    return sha256(msgspec.json.encode(params, order="deterministic")).hexdigest()
