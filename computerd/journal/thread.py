"""The journal's thread: takes jobs, commits them in groups, answers.

Everything that has arrived when a commit ends goes into the next one, so that the cost of a commit is shared by as many as wait for it,
and a single job on an idle thread is committed at once: there is no timer that waits for company. Audit rows wait for the end of an idle
quarter of a second, or of a busy one: they are written with an fsync, which nobody else should have to wait for.

When the file turns out to be damaged or gone, it is given up for a new one (see `renewals`). Until that is there, patient jobs wait and
others are refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from attrs import define, field

from computerd.api.credentials import Revocation
from computerd.contract.errors import ApiError, Code
from computerd.journal.backlog import Answer, Job, unavailable
from computerd.journal.group import Group
from computerd.journal.refusal import DamagedRowError
from computerd.journal.renewals import Renewals, lost
from computerd.journal.store import Store
from computerd.journal.trail import Trail
from computerd.journal.trouble import Trouble, no_room, refusal
from computerd.session.port import Commit

MAX_GROUP: Final = 1000
"""Jobs of one commit."""
POLL_SECONDS: Final = 0.25
"""Between two looks at what other processes have done; half of what `api.credentials.Revocations` promises."""

Written: TypeAlias = tuple[list[Answer], list[Commit]]


@define(eq=False)
class Writer:
    """What the thread does.

    Attributes:
        store: The file. Opened, used and closed on the thread.
        trail: The audit rows that wait.
        monotonic: Seconds of a clock that never jumps.
        opened: Told that the store is open: the log epoch, and the revocations.
        deliver: Given the outcomes of jobs, and what was committed with them.
        renewed: Told the log epoch that has begun.
        revoked: Given the revocations after each change by another process.
        ended: Told that the thread is at its end, with the error that ended it, or None. Called last.
    """

    store: Store
    trail: Trail
    monotonic: Callable[[], float]
    opened: Callable[[str, list[Revocation]], None]
    deliver: Callable[[Sequence[Answer], Sequence[Commit]], None]
    renewed: Callable[[str], None]
    revoked: Callable[[list[Revocation]], None]
    ended: Callable[[BaseException | None], None]
    _queue: SimpleQueue[Job[Any] | None] = field(factory=SimpleQueue, init=False)
    _owed: list[Job[Any]] = field(factory=list, init=False)
    _polled: float = field(default=float("-inf"), init=False)
    _renewals: Renewals = field(init=False)
    _trouble: Trouble = field(init=False)

    @_renewals.default
    def _none_yet(self) -> Renewals:
        return Renewals(self.store, self.monotonic, self.renewed)

    @_trouble.default
    def _no_trouble(self) -> Trouble:
        return Trouble(self._renewals, self.store.report)

    def put(self, job: Job[Any]) -> None:
        """Queues a job. From any thread."""
        self._queue.put(job)

    def stop(self) -> None:
        """Has the thread end once it has done what is queued. From any thread."""
        self._queue.put(None)

    def run(self) -> None:
        """The thread's whole life."""
        error: BaseException | None = None
        try:
            revocations = self.store.open()
            self.opened(self.store.log_epoch, revocations)
            self._work()
            self.store.close()
        except BaseException as problem:
            error = problem
        self.ended(error)

    def _work(self) -> None:
        going = True
        while going:
            jobs, going = self._take()
            if jobs:
                self._carry_out(jobs)
            if not jobs or self.monotonic() - self._polled >= POLL_SECONDS:
                self._look_around()
            if self._renewals.renew():
                self._trouble.forget()
                self._settle_debts()
        self._settle_debts()
        self._trouble.guard(self._write_trail)

    def _take(self) -> tuple[list[Job[Any]], bool]:
        jobs: list[Job[Any]] = []
        try:
            job = self._queue.get(timeout=POLL_SECONDS)
            while job is not None and len(jobs) < MAX_GROUP - 1:
                jobs.append(job)
                job = self._queue.get_nowait()
        except Empty:
            return jobs, True
        if job is None:
            return jobs, False
        return [*jobs, job], True

    def _carry_out(self, jobs: list[Job[Any]]) -> None:
        alive = [job for job in jobs if not job.expired]
        if len(alive) < len(jobs):
            dropped = set(jobs).difference(alive)
            self.deliver([Answer(job, dropped=True) for job in dropped], ())
        writing = [job for job in alive if job.writes]
        if writing:
            self._write(writing)
        reading = [job for job in alive if not job.writes]
        if reading:
            self.deliver([self._read(job) for job in reading], ())
        if self._renewals.finding is None:
            self._trouble.guard(self.store.write_back)

    def _read(self, job: Job[Any]) -> Answer:
        if self._renewals.finding is not None:
            return Answer(job, error=lost())
        try:
            return Answer(job, job.run(self.store.connection))
        except DamagedRowError as error:
            return Answer(job, error=self._trouble.row(error))
        except sqlite3.Error as error:
            self._trouble.met(error)
            return Answer(job, error=unavailable("The server's journal can't be read now; try again later."))
        except Exception as error:
            return Answer(job, error=error)

    def _write(self, jobs: list[Job[Any]]) -> None:
        if self._renewals.finding is not None:
            self._refuse(jobs, lost())
            return
        try:
            outcomes, commits = self._transaction(jobs)
        except sqlite3.Error as error:
            self._trouble.met(error)
            self._not_written(jobs, error)
        except Exception as error:
            # one job that can't be done must not take its neighbours with it
            if len(jobs) > 1:
                for job in jobs:
                    self._write([job])
            else:
                problem = self._trouble.row(error) if isinstance(error, DamagedRowError) else error
                self.deliver([Answer(jobs[0], error=problem)], ())
        else:
            self._trouble.over()
            self.deliver(outcomes, commits)

    def _transaction(self, jobs: list[Job[Any]]) -> Written:
        connection = self.store.connection
        group = Group(connection)
        connection.execute("BEGIN IMMEDIATE")
        try:
            outcomes = [self._step(job, group) for job in jobs]
            group.flush()
            connection.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself after some errors, such as a full disk
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
        self.store.committed(group.events, group.removed, group.size)
        return outcomes, group.commits

    def _step(self, job: Job[Any], group: Group) -> Answer:
        try:
            return Answer(job, job.run(group))
        except ApiError as error:
            if job.patient and error.code is Code.SESSION_NOT_FOUND and self._renewals.ever:
                # what has ended there ended with the session, which could not be saved
                return Answer(job, ())
            return Answer(job, error=error)

    def _not_written(self, jobs: list[Job[Any]], error: sqlite3.Error) -> None:
        patient = [job for job in jobs if job.patient]
        if patient and no_room(error) and self.store.reserve.release():
            with suppress(sqlite3.Error):
                outcomes, commits = self._transaction(patient)
                self.deliver(outcomes, commits)
                jobs = [job for job in jobs if not job.patient]
        self._refuse(jobs, refusal(error))

    def _refuse(self, jobs: list[Job[Any]], why: ApiError) -> None:
        self._owed += [job for job in jobs if job.patient]
        refused = [Answer(job, error=why) for job in jobs if not job.patient]
        if refused:
            self.deliver(refused, ())

    def _settle_debts(self) -> None:
        if self._owed and self._renewals.finding is None:
            owed, self._owed = self._owed, []
            self._write(owed)

    def _look_around(self) -> None:
        self._polled = self.monotonic()
        self._renewals.look()
        if self._renewals.finding is not None:
            return
        self._settle_debts()
        self._trouble.guard(self._look_for_revocations)
        self._trouble.guard(self._write_trail)
        self.store.note()
        if not self._owed:
            self.store.reserve.hold()

    def _look_for_revocations(self) -> None:
        if self.store.changed_elsewhere():
            self.revoked(self.store.revocations())

    def _write_trail(self) -> None:
        if self._renewals.finding is None:
            self.trail.write(self.store.connection)
