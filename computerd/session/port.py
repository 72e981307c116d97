"""The port to the journal, which keeps every session's events. The room `journal` implements it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

from attrs import frozen

from computerd.contract.objects import Actor, Event, Origin, Person, Settings

Seconds: TypeAlias = Callable[[], float]
"""Seconds since the epoch."""
Random: TypeAlias = Callable[[int], bytes]
"""That many bytes of a cryptographic source."""


@frozen
class Draft:
    """An event that has no place in the journal yet."""

    type: str
    data: Mapping[str, object]
    actor: Actor | None = None
    turn_id: str | None = None


@frozen
class Record:
    """A session as the journal keeps it, apart from its events.

    Attributes:
        body_hash: Of the request that made it: the same id with another body is a conflict. None when the daemon chose the id.
        created_at: Seconds since the epoch.
        active_at: Seconds since the epoch, of its last event.
        first_seq: The first `seq` of this log epoch.
        last_seq: The newest committed `seq`.
    """

    id: str
    owner: Person
    origin: Origin
    settings: Settings
    metadata: Mapping[str, str]
    title: str | None
    status: str
    archived: bool
    body_hash: str | None
    created_at: float
    active_at: float
    first_seq: int
    last_seq: int


T = TypeVar("T")


@frozen
class Excerpt(Generic[T]):
    """A part of what there is.

    Attributes:
        found: In order.
        more: Whether more follows.
    """

    found: Sequence[T]
    more: bool


class Journal(Protocol):
    """Events in order, durable. Every call may wait for the disk, never blocks the reactor, and fails with `unavailable`."""

    @property
    def log_epoch(self) -> str:
        """Names this incarnation of the journal: a new one begins when events were lost or the file was restored."""

    def create(self, record: Record, drafts: Sequence[Draft]) -> Awaitable[Sequence[Event]]:
        """Commits a new session with its first events.

        Raises:
            ApiError: `id_conflict` when a session with that id is there.
        """

    def append(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        status: str | None = None,
        patient: bool = False,
        late: Callable[[Sequence[Event]], object] | None = None,
    ) -> Awaitable[Sequence[Event]]:
        """Commits events, in order, with the next `seq` each; also the session's new status, if given.

        Fires after the commit.

        Args:
            session_id: The session.
            drafts: At least one.
            status: The session's status from this commit on; the drafts say so too.
            patient: For what has happened and can't be refused, such as the end of a process: waits as long as the
                disk is full or slow, and fails only when the journal stops.
            late: Called with the events if they turn out to be committed after the caller was told `unavailable` or has
                cancelled the call.

        Raises:
            ApiError: `session_not_found`, or `unavailable` when the disk does not take it in time.
        """

    def session(self, session_id: str) -> Awaitable[Record | None]:
        """The session, or None."""

    def sessions(self, *, archived: bool, limit: int, before: tuple[float, str] | None) -> Awaitable[Excerpt[Record]]:
        """Up to `limit` sessions, newest first: those that sort after (created_at, id) `before`. Fewer when they are large."""

    def events(
        self, session_id: str, *, after: int, limit: int, types: Collection[str] | None
    ) -> Awaitable[Excerpt[Event]]:
        """Up to `limit` events with a `seq` over `after`, in order. Fewer when they are large."""
