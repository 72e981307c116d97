"""The sessions: made, found, followed, and told what happens in them.

A session's status says what its agent does: `starting` and `running` are about turns. A terminal is not a turn, so a session with open
terminals stays `idle`. Opening a terminal wakes a `suspended` session, in the same commit as the terminal's event.

Everything that is in memory here (records, feeds, waits) follows the journal's commits, of which `committed` hears in order, and not the
calls that caused them: a caller may have gone, or have been told `unavailable`, by the time its commit is known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import define, field, frozen
from msgspec import UNSET
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime

from computerd.contract.errors import ApiError, Code
from computerd.contract.events import FilesPushed, TerminalClosed
from computerd.contract.identifiers import SESSION
from computerd.contract.objects import Actor, Event, Origin, Person, Session
from computerd.contract.params import CreateSession
from computerd.session import changing, cursors, making
from computerd.session.drafts import draft
from computerd.session.feed import Feed
from computerd.session.feeds import Feeds
from computerd.session.follower import Follower
from computerd.session.idleness import Idleness
from computerd.session.known import Known
from computerd.session.lanes import Lane, Lanes
from computerd.session.port import Commit, Decision, Journal, Key, Outcome, Random, Record, Seconds
from computerd.session.snapshot import snapshot
from computerd.session.tally import Tally
from computerd.session.waiting import Waiting
from computerd.terminal.outbox import Outbox


@frozen
class Created:
    """What `Sessions.create` answers.

    Attributes:
        session: The session.
        new: Whether this call has made it.
        seq: The last event of its making, the same for every repetition of the call.
    """

    session: Session
    new: bool
    seq: int


@frozen
class Page:
    """Some of a session's events.

    Attributes:
        events: In order.
        last_seq: The session's newest, or a newer one that came with these.
        has_more: Whether more events of those types follow.
    """

    events: Sequence[Event]
    last_seq: int
    has_more: bool


@define(eq=False)
class Sessions:
    """All sessions of this daemon.

    Attributes:
        journal: Where they are kept.
        seconds: The wall clock, in seconds since the epoch.
        random: For ids.
        clock: For waits.
        tally: Counts those who follow and wait.
        idleness: When something happened in each session last.
    """

    journal: Journal
    seconds: Seconds
    random: Random
    clock: IReactorTime
    tally: Tally = field(factory=Tally, init=False)
    idleness: Idleness = field(init=False)
    _known: Known = field(factory=Known, init=False)
    _waiting: Waiting = field(init=False)
    _feeds: Feeds = field(factory=Feeds, init=False)
    _lanes: Lanes = field(factory=Lanes, init=False)

    @_waiting.default
    def _new_waiting(self) -> Waiting:
        return Waiting(self.clock, self.tally)

    @idleness.default
    def _new_idleness(self) -> Idleness:
        return Idleness(self.clock)

    def __attrs_post_init__(self) -> None:
        """Hears of every commit from now on."""
        self.journal.listen(self)

    async def create(self, params: CreateSession, owner: Person, origin: Origin, actor: Actor) -> Created:
        """Makes a session, or finds the one that the same call has made before.

        Raises:
            ApiError: `id_conflict` when the id is another's or was used with another body; `unsupported_…` or `feature_unavailable` for
                what needs an agent.
        """
        making.refuse_what_needs_an_agent(params)
        record = making.new_record(params, owner, origin, self.seconds, self.random)
        if params.id is not UNSET:
            found = await self._find(params.id)
            if found is not None:
                return self._again(found, record)
        try:
            await self.journal.create(record, making.beginning(record, actor))
        except ApiError as error:
            found = await self._find(record.id) if error.code is Code.ID_CONFLICT else None
            if found is None:
                raise
            return self._again(found, record)
        return Created(self.snapshot(record), True, making.LAST_SEQ)

    async def record(self, session_id: str) -> Record:
        """What the journal knows of a session. From memory, when it was used lately.

        Raises:
            ApiError: `session_not_found`.
        """
        record = await self._find(session_id)
        if record is None:
            raise _unknown()
        return record

    async def get(self, session_id: str, min_seq: int = 0) -> Session:
        """The session as it is now.

        Raises:
            ApiError: `session_not_found`, or `cursor_ahead` when it has no event `min_seq`. What is committed is seen at once here,
                so waiting for it would not help: the number is from another log epoch.
        """
        record = await self.record(session_id)
        _refuse_ahead(min_seq, record.last_seq, "minSeq")
        return self.snapshot(record)

    async def list(
        self, *, archived: bool, limit: int, cursor: str | None, member: str = ""
    ) -> tuple[list[Session], str | None]:
        """Sessions, newest first, and the cursor for the next page or None. `member` is who asks.

        Raises:
            ApiError: `invalid_cursor`.
        """
        before = None if cursor is None else cursors.decode(cursor)
        page = await self._lanes.run(
            member, lambda: self.journal.sessions(archived=archived, limit=limit, before=before)
        )
        more = cursors.encode(page.found[-1].created_at, page.found[-1].id) if page.more else None
        return [self.snapshot(record) for record in page.found], more

    async def events(
        self, session_id: str, *, after: int, limit: int, types: Collection[str] | None, member: str = ""
    ) -> Page:
        """Events with a number over `after`; of these types, if given. A type that nobody knows matches nothing. `member` is who asks.

        Raises:
            ApiError: `session_not_found`, or `cursor_ahead` when `after` is a number that the session has not reached.
        """
        last_seq = (await self.record(session_id)).last_seq
        _refuse_ahead(after, last_seq, "after")
        lane = Lane(self._lanes, member, self.journal)
        page = await lane.events(session_id, after=after, limit=limit, types=types)
        return Page(page.found, max(last_seq, *(event.seq for event in page.found[-1:]), 0), page.more)

    async def news(self, session_id: str, *, seen: int, member: str, seconds: float) -> bool:
        """Waits until a session has an event with a number over `seen`, at most so long: whether it has.

        Raises:
            ApiError: `session_not_found`, or `rate_limited` when the member waits too often at a time.
        """
        if (await self.record(session_id)).last_seq > seen:
            return True
        return await self._waiting.wait(session_id, member, seconds)

    # following

    def follow(
        self, record: Record, after: int | None, outbox: Outbox, on_end: Callable[[], object], member: str = ""
    ) -> Follower:
        """Begins to follow a session, whose record was just asked for. Nothing is sent before `Follower.start`.

        Args:
            record: The session.
            after: The last event that the client has; None: the newest, so that it gets what comes from now on.
            outbox: Of its connection.
            on_end: See `Follower`.
            member: Who follows.

        Raises:
            ApiError: `cursor_ahead` when `after` is a number that the session has not reached.
        """
        _refuse_ahead(0 if after is None else after, record.last_seq, "after")
        sent = record.last_seq if after is None else after
        lane = Lane(self._lanes, member, self.journal)
        return Follower(self._feeds.of(record), lane, outbox, self.clock, self.tally, sent, on_end)

    def committed(self, commit: Commit) -> None:
        """See `Listener`."""
        if commit.record is not None:
            self._known.put(commit.record)
        else:
            self._known.advance(commit.session_id, commit.events)
        self._feeds.committed(commit)
        self._waiting.wake(commit.session_id)
        self.idleness.touch(commit.session_id)

    def renewed(self) -> None:
        """See `Listener`."""
        self._known.clear()
        for feed in self._feeds.freeze():
            ensureDeferred(self._tell_renewed(feed))
        self._waiting.wake_all()

    async def _tell_renewed(self, feed: Feed) -> None:
        try:
            record = await self._find(feed.session_id)
        except ApiError:
            record = None
        feed.renewed(self.journal.log_epoch, None if record is None else record.first_seq)

    def trimmed(self, first: Mapping[str, int]) -> None:
        """The journal of these sessions begins later now."""
        for session_id, first_seq in first.items():
            self._known.trimmed(session_id, first_seq)

    def forget(self) -> None:
        """Something may have changed that `trimmed` was not told of: records are read from the journal again."""
        self._known.clear()

    # changes

    async def decide(self, session_id: str, decision: Decision, key: Key | None = None) -> Outcome:
        """Commits what `decision` makes of the session. See `Journal.decide`."""
        if not SESSION.matches(session_id):
            raise _unknown()
        return await self.journal.decide(session_id, decision, key=key)

    async def terminal_opened(self, session_id: str, terminal_id: str, command: str | None, actor: Actor) -> None:
        """Commits `terminal.opened`; also that the session is awake, if it was suspended.

        When this fails or is cancelled, the journal does not keep an open terminal: if the event turns out to be there after all,
        a `terminal.closed` follows it.

        Raises:
            ApiError: `session_not_found`; `feature_unavailable` when it is archived; `unavailable` when the journal takes nothing now.
        """

        def late(events: Sequence[Event]) -> None:
            closing = Deferred.fromCoroutine(self.terminal_closed(session_id, terminal_id, None))
            # it fails only when the journal stops, and its next start closes the terminal
            closing.addErrback(lambda _: None)

        await self.journal.decide(session_id, changing.open_terminal(terminal_id, command, actor), late=late)

    async def terminal_closed(self, session_id: str, terminal_id: str, exit_code: int | None) -> None:
        """Commits `terminal.closed`, however long the disk takes. `exit_code` is None after a signal.

        Raises:
            ApiError: `unavailable` when the journal stops first: its next start closes the terminal.
        """
        closed = draft(TerminalClosed(terminal_id=terminal_id, exit_code=exit_code))
        await self.journal.append(session_id, [closed], patient=True)

    async def files_pushed(self, session_id: str, pushed: FilesPushed, actor: Actor) -> int:
        """Commits `files.pushed`, however long the disk takes, because the files are there already. A suspended session sleeps on.

        Returns:
            Its number.

        Raises:
            ApiError: `unavailable` when the journal stops first.
        """
        events = await self.journal.append(session_id, [draft(pushed, actor)], patient=True)
        return events[-1].seq

    async def _find(self, session_id: str) -> Record | None:
        record = self._known.get(session_id)
        if record is None and SESSION.matches(session_id):
            record = await self.journal.session(session_id)
            if record is not None:
                self._known.put(record)
        return record

    def _again(self, found: Record, wanted: Record) -> Created:
        if found.owner.id != wanted.owner.id or found.body_hash != wanted.body_hash:
            raise ApiError(Code.ID_CONFLICT, "There is another session with this id; choose another id.", field="id")
        return Created(self.snapshot(found), False, making.LAST_SEQ)

    def snapshot(self, record: Record) -> Session:
        """The session as the API shows it. May be called on the journal's thread too."""
        return snapshot(record, self.journal.log_epoch, self.seconds())


def _unknown() -> ApiError:
    return ApiError(Code.SESSION_NOT_FOUND, "There is no such session; list the sessions to see which there are.")


def _refuse_ahead(seq: int, last_seq: int, name: str) -> None:
    if seq > last_seq:
        raise ApiError(
            Code.CURSOR_AHEAD,
            f"The session's last event is {last_seq}; compare logEpoch and read on from epochStartSeq.",
            field=name,
        )
