"""From a request with an `idempotencyKey` to the key that the journal keeps with the answer."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from computerd.api.caller import Caller
from computerd.contract.results import SessionChanged
from computerd.session.port import Key, Outcome, Record
from computerd.session.sessions import Sessions

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def session_key(sessions: Sessions, method: str, params: Struct, key: str | UnsetType, caller: Caller) -> Key | None:
    """The key of a request whose answer is a `SessionChanged`; None when it has none."""
    if key is UNSET:
        return None
    return Key(
        member=caller.member.id,
        method=method,
        key=key,
        digest=digest(params),
        answer=lambda record: msgspec.json.encode(_changed(sessions, record)),
    )


def session_changed(sessions: Sessions, outcome: Outcome) -> SessionChanged:
    """The answer: this time's, or the one of the first time."""
    if outcome.answer is None:
        return _changed(sessions, outcome.record)
    return msgspec.json.decode(outcome.answer, type=SessionChanged)


def digest(params: Struct) -> str:
    """Of everything that a request asks for. The key is the same each time that it is compared."""
    return sha256(_ENCODER.encode(params)).hexdigest()


def _changed(sessions: Sessions, record: Record) -> SessionChanged:
    return SessionChanged(session=sessions.snapshot(record), seq=record.last_seq)
