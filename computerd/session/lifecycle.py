"""A session's way through its life: changed, suspended, resumed, archived; put to sleep when nothing happens in it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from attrs import define, field
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Actor
from computerd.contract.params import UpdateSession
from computerd.session import changing
from computerd.session.port import Key, Outcome, Processes, Record
from computerd.session.rounds import Rounds
from computerd.session.sessions import Sessions

_AT_ONCE: Final = 20
"""Sessions that are taken off the list of quiet ones at a time."""
_PAGE: Final = 1000
_MAX_PERIOD: Final = 60.0
"""Seconds between two looks for quiet sessions, at most."""


@define(eq=False)
class Lifecycle:
    """The use cases.

    Attributes:
        sessions: All sessions.
        processes: What runs in them.
        clock: Monotonic, for the look for quiet sessions.
        idle_seconds: After which a session in which nothing happens is suspended; 0: never.
    """

    sessions: Sessions
    processes: Processes
    clock: IReactorTime
    idle_seconds: float = 0.0
    _rounds: Rounds = field(init=False)
    _stopped: bool = field(default=False, init=False)
    _found: str | None = field(default="", init=False)
    _log: Logger = field(factory=Logger, init=False)

    @_rounds.default
    def _new_rounds(self) -> Rounds:
        return Rounds(self.clock, self._put_to_sleep, "quiet sessions were not suspended")

    async def update(self, params: UpdateSession, actor: Actor, key: Key | None) -> Outcome:
        """Changes title, speed, metadata or `archived`. Archiving ends what runs in the session first.

        Raises:
            ApiError: `session_not_found`, `idempotency_conflict`, or `unavailable` when the journal takes nothing now.
        """
        record = await self.sessions.record(params.session_id)
        if params.archived is True and self._alive(record, asleep=record.archived) and not await self._answered(key):
            await self.processes.end(record.id)
        return await self.sessions.decide(record.id, changing.update(params, actor), key)

    async def suspend(self, session_id: str, actor: Actor, key: Key | None, *, if_idle: bool) -> Outcome:
        """Ends what runs in a session, and lets it sleep. One that sleeps already stays as it is.

        Raises:
            ApiError: As `update`; `session_busy` with `if_idle` when a terminal is open.
        """
        record = await self.sessions.record(session_id)
        if self._alive(record, asleep=record.status == "suspended") and not await self._answered(key):
            if if_idle:
                self._refuse_busy(record)
            await self.processes.end(record.id)
        return await self.sessions.decide(record.id, changing.suspend("requested", actor), key)

    async def resume(self, session_id: str, actor: Actor, key: Key | None) -> Outcome:
        """Makes a suspended session ready again. Any other stays as it is.

        Raises:
            ApiError: As `update`; `feature_unavailable` when it is archived.
        """
        return await self.sessions.decide(session_id, changing.resume(actor), key)

    def _alive(self, record: Record, *, asleep: bool) -> bool:
        """Whether something may run in a session. In one that sleeps it may too: a terminal whose opening is about to wake it."""
        return not asleep or self.processes.busy(record.id)

    async def _answered(self, key: Key | None) -> bool:
        """Whether the same was asked before: then nothing is to be done again."""
        if key is None:
            return False
        return await self.sessions.journal.answered(key.member, key.method, key.key, key.digest) is not None

    def _refuse_busy(self, record: Record) -> None:
        if self.processes.busy(record.id) or record.status != "idle":
            raise ApiError(Code.SESSION_BUSY, "The session has an open terminal: close it, or suspend without ifIdle.")

    # idle sessions

    async def start(self) -> None:
        """Begins to look for quiet sessions, if it is to."""
        if not self.idle_seconds:
            return
        self.sessions.idleness.watched = True
        # if the journal can't be read now, the first look tries again
        with suppress(ApiError):
            await self._find_awake()
        if not self._stopped:
            period = min(_MAX_PERIOD, self.idle_seconds / 4)
            self._rounds.start(period, period)

    def stop(self) -> None:
        """Looks no more."""
        self._stopped = True
        self._rounds.stop()

    async def _find_awake(self) -> None:
        """Those that were awake before the start, from where an earlier try has stopped."""
        while self._found is not None:
            page = await self.sessions.journal.awake(limit=_PAGE, after=self._found)
            self.sessions.idleness.found(page)
            self._found = page[-1] if len(page) == _PAGE else None

    async def _put_to_sleep(self) -> None:
        with suppress(ApiError):
            await self._find_awake()
        while quiet := self.sessions.idleness.quiet(self.idle_seconds, _AT_ONCE):
            for session_id in quiet:
                if not await self._try_to_suspend(session_id):
                    # it is looked at again when it has been quiet for as long once more
                    self.sessions.idleness.touch(session_id)

    async def _try_to_suspend(self, session_id: str) -> bool:
        """Whether there is nothing left to do about a quiet session. What goes wrong with one must not keep the others awake."""
        try:
            return await self._suspend_quiet(session_id)
        except CancelledError:
            raise
        except ApiError as error:
            # otherwise the journal takes nothing now
            return error.code is Code.SESSION_NOT_FOUND
        except Exception:
            self._log.failure("the quiet session {session_id} was not suspended", session_id=session_id)
            return False

    async def _suspend_quiet(self, session_id: str) -> bool:
        record = await self.sessions.record(session_id)
        if record.status == "suspended":
            return True
        if self.processes.busy(session_id) or record.status != "idle":
            return False
        await self.processes.end(session_id)
        await self.sessions.decide(session_id, changing.suspend("idle", None))
        return True
