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


@frozen
class Change:
    """What a commit changes of a session beside its events. None: it stays."""

    status: str | None = None
    title: str | None = None
    settings: Settings | None = None
    metadata: Mapping[str, str] | None = None
    archived: bool | None = None


@frozen
class Decided:
    """What is to be committed.

    Attributes:
        drafts: The events; none, when everything is as it should be already.
        change: What they say changes.
    """

    drafts: Sequence[Draft] = ()
    change: Change = Change()


Decision: TypeAlias = Callable[[Record], Decided]
"""From the session as it is at the moment of the commit to what is committed. Runs on the journal's thread, inside the transaction: it may
touch nothing but its argument, and may refuse with an `ApiError`."""


@frozen
class Key:
    """An idempotency key.

    Attributes:
        member: Whose it is.
        method: For which method: the same key means something else for another.
        key: As the caller chose it.
        digest: Of the params, which have to be the same each time.
        answer: Makes the answer to keep, from the session after the commit. Runs on the journal's thread like a `Decision`.
    """

    member: str
    method: str
    key: str
    digest: str
    answer: Callable[[Record], bytes]


@frozen
class Outcome:
    """What `Journal.decide` came to.

    Attributes:
        record: The session after the commit.
        events: What was committed.
        answer: The one that is kept with the key; None without a key.
        repeated: The key was known: nothing was committed now, and `answer` is that of the first time.
    """

    record: Record
    events: Sequence[Event]
    answer: bytes | None = None
    repeated: bool = False


@frozen
class Commit:
    """A commit, as everybody who follows the journal hears of it.

    Attributes:
        events: At least one, in order.
        record: The session after it, where the commit has it at hand; otherwise only the events are new.
    """

    session_id: str
    events: Sequence[Event]
    record: Record | None = None


class Listener(Protocol):
    """Who is told what happens to the journal. On the reactor's thread, and never raises."""

    def committed(self, commit: Commit) -> None:
        """Told of each commit before its caller is, in the order of the numbers, whatever has become of its caller."""

    def renewed(self) -> None:
        """The history that was known is gone: there is a new log epoch, and all that was read before is out of date."""


class Processes(Protocol):
    """What runs in a session. The front door's terminals are behind it."""

    def busy(self, session_id: str) -> bool:
        """Whether a terminal is open or being opened."""

    def end(self, session_id: str) -> Awaitable[None]:
        """Hangs the session's terminals up and kills what they left behind. Until it fires, none can be opened.

        It fires within 7 s, and never fails.
        """


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

    def listen(self, listener: Listener) -> None:
        """Has `listener` told of everything from now on. Called once, before the start."""

    def create(self, record: Record, drafts: Sequence[Draft]) -> Awaitable[Sequence[Event]]:
        """Commits a new session with its first events.

        Raises:
            ApiError: `id_conflict` when a session with that id is there.
        """

    def append(self, session_id: str, drafts: Sequence[Draft], *, patient: bool = False) -> Awaitable[Sequence[Event]]:
        """Commits events, in order, with the next `seq` each. Fires after the commit. The fast way for what changes nothing else.

        Args:
            session_id: The session.
            drafts: At least one.
            patient: For what has happened and can't be refused, such as the end of a process: waits as long as the
                disk is full or slow, and fails only when the journal stops.

        Raises:
            ApiError: `session_not_found`, or `unavailable` when the disk does not take it in time.
        """

    def decide(
        self,
        session_id: str,
        decision: Decision,
        *,
        key: Key | None = None,
        late: Callable[[Sequence[Event]], object] | None = None,
    ) -> Awaitable[Outcome]:
        """Commits what `decision` makes of the session as it is then, and the key with its answer, all in one transaction.

        Args:
            session_id: The session.
            decision: Called once in the usual case, and again when the transaction has to be.
            key: Looked up first: one that is known, within `limits.IDEMPOTENCY_KEY_SECONDS`, is answered as the first time.
            late: Called with the events if they turn out to be committed after the caller was told `unavailable` or has
                cancelled the call.

        Raises:
            ApiError: `session_not_found`; `idempotency_conflict` when the key came with other params; what the decision refuses with;
                `unavailable` when the disk does not take it in time.
        """

    def answered(self, member: str, method: str, key: str, digest: str) -> Awaitable[bytes | None]:
        """The answer that is kept with a key, or None.

        Raises:
            ApiError: `idempotency_conflict` when the key came with other params.
        """

    def session(self, session_id: str) -> Awaitable[Record | None]:
        """The session, or None."""

    def sessions(self, *, archived: bool, limit: int, before: tuple[float, str] | None) -> Awaitable[Excerpt[Record]]:
        """Up to `limit` sessions, newest first: those that sort after (created_at, id) `before`. Fewer when they are large."""

    def awake(self, *, limit: int, after: str) -> Awaitable[Sequence[str]]:
        """The ids of up to `limit` sessions that are neither suspended nor archived, in order, those that sort after the id `after`."""

    def events(
        self, session_id: str, *, after: int, limit: int, types: Collection[str] | None
    ) -> Awaitable[Excerpt[Event]]:
        """Up to `limit` events with a `seq` over `after`, in order. Fewer when they are large."""

    def trim(self, *, keep: int, before: float | None, limit: int) -> Awaitable[Mapping[str, int] | None]:
        """Removes events that need not be kept any longer, oldest first and never one out of the middle, some at a time; expired keys too.

        Args:
            keep: The newest events of a session that stay.
            before: Seconds since the epoch: older ones go too. None: age does not matter.
            limit: About how many rows this call may remove.

        Returns:
            The new `first_seq` of each session that has lost some; None once there is nothing left to remove.
        """
