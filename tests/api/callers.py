"""Callers for the tests of this room."""

from __future__ import annotations

from computerd.api.caller import Caller
from computerd.contract.access import Scope
from computerd.contract.objects import Person


def a_caller(member: str = "alice", client: str | None = "opc/0.1") -> Caller:
    """Who may do everything with sessions."""
    return Caller(
        member=Person(id=member, name=member.title(), email=None),
        admin=False,
        scopes=frozenset(Scope),
        via="opc",
        client=client,
        token_id="t",
        issued_at=0.0,
        expires_at=None,
    )
