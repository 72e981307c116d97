"""The journal's thread: takes jobs, commits them in groups, answers.

Everything that has arrived when a commit ends goes into the next one, so that the cost of a commit is shared by as many as wait for it,
and a single job on an idle thread is committed at once: there is no timer that waits for company.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from attrs import define, field

from computerd.api.credentials import Revocation
from computerd.contract.errors import ApiError
from computerd.journal.backlog import Job, Outcome, unavailable
from computerd.journal.events import DamagedRowError
from computerd.journal.store import Store

MAX_GROUP: Final = 1000
"""Jobs of one commit."""
POLL_SECONDS: Final = 0.25
"""Between two looks at what other processes have written; half of what `api.credentials.Revocations` promises."""
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})


@define(eq=False)
class Writer:
    """What the thread does.

    Attributes:
        store: The file. Opened, used and closed on the thread.
        monotonic: Seconds of a clock that never jumps.
        opened: Told that the store is open, with the revocations.
        deliver: Given the outcomes of jobs.
        revoked: Given the revocations after each change by another process.
        ended: Told that the thread is at its end, with the error that ended it, or None. Called last.
    """

    store: Store
    monotonic: Callable[[], float]
    opened: Callable[[list[Revocation]], None]
    deliver: Callable[[Sequence[Outcome]], None]
    revoked: Callable[[list[Revocation]], None]
    ended: Callable[[BaseException | None], None]
    _queue: SimpleQueue[Job[Any] | None] = field(factory=SimpleQueue, init=False)
    _owed: list[Job[Any]] = field(factory=list, init=False)
    _troubled: bool = field(default=False, init=False)
    _polled: float = field(default=float("-inf"), init=False)

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
            self.opened(self.store.open())
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
        self._settle_debts()

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
        dropped = set(jobs).difference(alive)
        if dropped:
            self.deliver([Outcome(job, dropped=True) for job in dropped])
        writing = [job for job in alive if job.writes]
        if writing:
            self.deliver(self._write(writing))
        reading = [job for job in alive if not job.writes]
        if reading:
            self.deliver([self._read(job) for job in reading])
        self._guard(self.store.write_back)

    def _read(self, job: Job[Any]) -> Outcome:
        try:
            return Outcome(job, job.run(self.store.connection))
        except DamagedRowError as error:
            self.store.report(f"the journal is damaged: {error} is not what was written")
            return Outcome(job, error=unavailable("The server's journal is damaged here; tell its administrator."))
        except sqlite3.Error as error:
            self._in_trouble(error)
            return Outcome(job, error=unavailable("The server's journal can't be read now; try again later."))
        except Exception as error:
            return Outcome(job, error=error)

    def _write(self, jobs: list[Job[Any]]) -> list[Outcome]:
        try:
            outcomes = self._transaction(jobs)
        except sqlite3.Error as error:
            self._in_trouble(error)
            return self._not_written(jobs, error)
        except Exception as error:
            # one job that can't be done must not take its neighbours with it
            if len(jobs) == 1:
                return [Outcome(jobs[0], error=error)]
            return [outcome for job in jobs for outcome in self._write([job])]
        self._out_of_trouble()
        return outcomes

    def _transaction(self, jobs: list[Job[Any]]) -> list[Outcome]:
        connection = self.store.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            outcomes = [self._step(job, connection) for job in jobs]
            connection.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself after some errors, such as a full disk
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
        done = [outcome for outcome in outcomes if outcome.error is None]
        self.store.committed(
            sum(len(outcome.result) for outcome in done if isinstance(outcome.result, Sequence)),
            sum(outcome.job.size for outcome in done),
        )
        return outcomes

    def _step(self, job: Job[Any], connection: sqlite3.Connection) -> Outcome:
        try:
            return Outcome(job, job.run(connection))
        except ApiError as error:
            return Outcome(job, error=error)

    def _not_written(self, jobs: list[Job[Any]], error: sqlite3.Error) -> list[Outcome]:
        refused = [Outcome(job, error=self._refusal(error)) for job in jobs if not job.patient]
        patient = [job for job in jobs if job.patient]
        if patient and error.sqlite_errorcode & 0xFF in _NO_ROOM and self.store.reserve.release():
            with suppress(sqlite3.Error):
                return refused + self._transaction(patient)
        self._owed += patient
        return refused

    def _refusal(self, error: sqlite3.Error) -> ApiError:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
            return unavailable("The server's disk is full; try again later.")
        return unavailable("The server's disk does not take new events now; try again later.")

    def _settle_debts(self) -> None:
        if self._owed:
            owed, self._owed = self._owed, []
            outcomes = self._write(owed)
            if outcomes:
                self.deliver(outcomes)

    def _look_around(self) -> None:
        self._polled = self.monotonic()
        self._settle_debts()
        self._guard(self._look_for_revocations)
        self.store.note()
        if not self._owed:
            self.store.reserve.hold()

    def _look_for_revocations(self) -> None:
        if self.store.changed_elsewhere():
            self.revoked(self.store.revocations())

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except sqlite3.Error as error:
            self._in_trouble(error)

    def _in_trouble(self, error: sqlite3.Error) -> None:
        # one line, however long it lasts
        if not self._troubled:
            self._troubled = True
            self.store.report(f"the journal is in trouble: {error}; new work is refused until that is over")

    def _out_of_trouble(self) -> None:
        if self._troubled:
            self._troubled = False
            self.store.report("the journal takes new work again")
