"""The port to what is known of issued credentials. `journal` implements it, `net` asks it, `tap` joins the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import frozen


@frozen
class Revocation:
    """Credentials that no longer count.

    Attributes:
        token_id: One credential's `jti`, or None: all of the member's.
        member: The member id.
        at: Seconds since the epoch. With `token_id` None, credentials issued up to this time are revoked.
    """

    token_id: str | None
    member: str | None
    at: float


class Revocations(Protocol):
    """The revocations, kept in memory and refreshed from the disk within half a second. Asking never waits."""

    def revoked(self, token_id: str, member: str, issued_at: float) -> bool:
        """Whether a credential was revoked."""

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Has `changed` called after every change. Returns what ends that."""
