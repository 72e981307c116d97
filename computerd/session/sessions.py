"""The sessions: made, found, and told what happens in them.

A session's status says what its agent does: `starting` and `running` are about turns. A terminal is not a turn, so a session with open
terminals stays `idle`. Opening a terminal wakes a `suspended` session, in the same commit as the terminal's event.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import define, field, frozen
from msgspec import UNSET
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IReactorTime

from computerd.contract.errors import ApiError, Code
from computerd.contract.events import SessionStatusChanged, TerminalClosed, TerminalOpened
from computerd.contract.identifiers import SESSION
from computerd.contract.objects import Actor, Event, Origin, Person, Session
from computerd.contract.params import CreateSession
from computerd.session import cursors, making
from computerd.session.drafts import draft
from computerd.session.known import Known
from computerd.session.port import Draft, Journal, Random, Record, Seconds
from computerd.session.snapshot import snapshot
from computerd.session.waiting import Waiting


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
    """

    journal: Journal
    seconds: Seconds
    random: Random
    clock: IReactorTime
    _known: Known = field(factory=Known, init=False)
    _waiting: Waiting = field(init=False)
    _waking: dict[str, DeferredLock] = field(factory=dict, init=False)

    @_waiting.default
    def _new_waiting(self) -> Waiting:
        return Waiting(self.clock)

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
        self._known.put(record)
        return Created(self._snapshot(record), True, making.LAST_SEQ)

    async def record(self, session_id: str) -> Record:
        """What the journal knows of a session. From memory, when it was used lately.

        Raises:
            ApiError: `session_not_found`.
        """
        record = await self._find(session_id)
        if record is None:
            raise ApiError(
                Code.SESSION_NOT_FOUND, "There is no such session; list the sessions to see which there are."
            )
        return record

    async def get(self, session_id: str, min_seq: int = 0) -> Session:
        """The session as it is now.

        Raises:
            ApiError: `session_not_found`, or `cursor_ahead` when it has no event `min_seq`. What is committed is seen at once here,
                so waiting for it would not help: the number is from another log epoch.
        """
        record = await self.record(session_id)
        _refuse_ahead(min_seq, record.last_seq, "minSeq")
        return self._snapshot(record)

    async def list(self, *, archived: bool, limit: int, cursor: str | None) -> tuple[list[Session], str | None]:
        """Sessions, newest first, and the cursor for the next page or None.

        Raises:
            ApiError: `invalid_cursor`.
        """
        before = None if cursor is None else cursors.decode(cursor)
        page = await self.journal.sessions(archived=archived, limit=limit, before=before)
        more = cursors.encode(page.found[-1].created_at, page.found[-1].id) if page.more else None
        return [self._snapshot(record) for record in page.found], more

    async def events(self, session_id: str, *, after: int, limit: int, types: Collection[str] | None) -> Page:
        """Events with a number over `after`; of these types, if given. A type that nobody knows matches nothing.

        Raises:
            ApiError: `session_not_found`, or `cursor_ahead` when `after` is a number that the session has not reached.
        """
        last_seq = (await self.record(session_id)).last_seq
        _refuse_ahead(after, last_seq, "after")
        page = await self.journal.events(session_id, after=after, limit=limit, types=types)
        return Page(page.found, max(last_seq, *(event.seq for event in page.found[-1:]), 0), page.more)

    async def news(self, session_id: str, *, seen: int, member: str, seconds: float) -> bool:
        """Waits until a session has an event with a number over `seen`, at most so long: whether it has.

        Raises:
            ApiError: `session_not_found`, or `rate_limited` when the member waits too often at a time.
        """
        if (await self.record(session_id)).last_seq > seen:
            return True
        return await self._waiting.wait(session_id, member, seconds)

    async def terminal_opened(self, session_id: str, terminal_id: str, command: str | None, actor: Actor) -> None:
        """Commits `terminal.opened`; also that the session is awake, if it was suspended.

        When this fails or is cancelled, the journal does not keep an open terminal: if the event turns out to be there after all,
        a `terminal.closed` follows it.

        Raises:
            ApiError: `session_not_found`; `feature_unavailable` when it is archived; `unavailable` when the journal takes nothing now.
        """
        opened = draft(TerminalOpened(terminal_id=terminal_id, command=command), actor)
        if (await self._not_archived(session_id)).status != "suspended":
            await self._append_opened(session_id, terminal_id, [opened])
            return
        # one after the other, so that only the first one wakes it
        lock = self._waking.setdefault(session_id, DeferredLock())
        await lock.acquire()
        try:
            record = await self._not_archived(session_id)
            if record.status == "suspended":
                awake = draft(SessionStatusChanged(from_="suspended", to="idle"), actor)
                await self._append_opened(session_id, terminal_id, [awake, opened], status="idle")
            else:
                await self._append_opened(session_id, terminal_id, [opened])
        finally:
            lock.release()
            if not lock.locked:
                self._waking.pop(session_id, None)

    async def terminal_closed(self, session_id: str, terminal_id: str, exit_code: int | None) -> None:
        """Commits `terminal.closed`, however long the disk takes. `exit_code` is None after a signal.

        Raises:
            ApiError: `unavailable` when the journal stops first: its next start closes the terminal.
        """
        closed = draft(TerminalClosed(terminal_id=terminal_id, exit_code=exit_code))
        self._committed(session_id, await self.journal.append(session_id, [closed], patient=True), None)

    async def _not_archived(self, session_id: str) -> Record:
        record = await self.record(session_id)
        refuse_archived(record)
        return record

    async def _append_opened(
        self, session_id: str, terminal_id: str, drafts: Sequence[Draft], status: str | None = None
    ) -> None:
        def late(events: Sequence[Event]) -> None:
            self._committed(session_id, events, status)
            closing = Deferred.fromCoroutine(self.terminal_closed(session_id, terminal_id, None))
            # it fails only when the journal stops, and its next start closes the terminal
            closing.addErrback(lambda _: None)

        events = await self.journal.append(session_id, drafts, status=status, late=late)
        self._committed(session_id, events, status)

    def _committed(self, session_id: str, events: Sequence[Event], status: str | None) -> None:
        self._known.advance(session_id, events, status)
        self._waiting.wake(session_id)

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
        return Created(self._snapshot(found), False, making.LAST_SEQ)

    def _snapshot(self, record: Record) -> Session:
        return snapshot(record, self.journal.log_epoch, self.seconds())


def refuse_archived(record: Record) -> None:
    """Refuses work on a session that is archived.

    Raises:
        ApiError: `feature_unavailable`.
    """
    if record.archived:
        raise ApiError(Code.FEATURE_UNAVAILABLE, "The session is archived; take it out of the archive first.")


def _refuse_ahead(seq: int, last_seq: int, name: str) -> None:
    if seq > last_seq:
        raise ApiError(
            Code.CURSOR_AHEAD,
            f"The session's last event is {last_seq}; compare logEpoch and read on from epochStartSeq.",
            field=name,
        )
