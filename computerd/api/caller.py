"""Who calls: the member that a credential names, and what it allows."""

from __future__ import annotations

from attrs import frozen

from computerd.contract.access import Scope
from computerd.contract.objects import Actor, Person, Via


@frozen
class Caller:
    """A verified credential.

    Attributes:
        member: Whom it speaks for.
        admin: May do what any owner may.
        scopes: What it is good for.
        via: Through what the member acts.
        client: The program, such as `opc/0.1`, or None.
        token_id: The credential's `jti`.
        issued_at: Seconds since the epoch.
        expires_at: Seconds since the epoch, or None: never.
    """

    member: Person
    admin: bool
    scopes: frozenset[Scope]
    via: Via
    client: str | None
    token_id: str
    issued_at: float
    expires_at: float | None

    @property
    def actor(self) -> Actor:
        """The caller as events name it."""
        return Actor(id=self.member.id, name=self.member.name, via=self.via, client=self.client)
