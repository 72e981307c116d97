"""A disk that does not answer (S5): the reactor goes on, the work is refused, and all is well again by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, cast

from twisted.internet import reactor, task
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorFromThreads

from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Event
from computerd.journal.backlog import STALL_SECONDS
from computerd.journal.engine import STOP_SECONDS
from computerd.journal.journal import Journal
from computerd.session.port import Decided
from tests.journal.real import JournalCase
from tests.session.journal_interface import Heard, all_events, closed, opened, session_id


class HalfReactor:
    """The real one for calls from threads, a clock that stands still for everything else."""

    def __init__(self) -> None:
        self.clock = task.Clock()

    def callFromThread(self, function: Callable[..., Any], /, *args: object) -> None:
        cast("IReactorFromThreads", reactor).callFromThread(function, *args)

    def callLater(self, delay: float, function: Callable[..., Any], /, *args: object) -> IDelayedCall:
        return self.clock.callLater(delay, function, *args)

    def seconds(self) -> float:
        return float(self.clock.seconds())


class StallTests(JournalCase):
    """Another process holds the file's write lock, as a stalled fsync of its own would."""

    async def setUp(self) -> None:  # type: ignore[override]
        super().setUp()
        self.half = HalfReactor()
        self.journal = Journal(self.path, self.half, lambda: 1000.0, lambda n: bytes(n))
        self.heard = Heard()
        self.journal.listen(self.heard)
        self.addCleanup(self.journal.stop)
        await self.journal.start()
        await self.session(self.journal)
        self.other = sqlite3.connect(self.path, isolation_level=None)
        self.addCleanup(self.other.close)
        self.late: list[int] = []

    def stall(self) -> None:
        """From now on no commit ends."""
        self.other.execute("BEGIN IMMEDIATE")

    def resume(self) -> None:
        """The disk answers again."""
        self.other.execute("ROLLBACK")

    def append(self, number: int, patient: bool = False) -> Deferred[Any]:
        """Appends something."""

        if patient:
            return self.journal.append(session_id(1), [opened(number)], patient=True)
        return self.journal.decide(session_id(1), lambda record: Decided([opened(number)]), late=self.came_late)

    def came_late(self, events: Sequence[Event]) -> None:
        """What was committed after its caller had been refused."""
        self.late += [event.seq for event in events]

    def refused(self, done: Deferred[Any]) -> None:
        """It was refused, for now."""
        error = self.failureResultOf(done, ApiError).value
        assert isinstance(error, ApiError)
        self.assertEqual(error.code, Code.UNAVAILABLE)

    async def taken(self) -> None:
        """Waits until the thread has begun with what was asked first."""
        while not self.journal._engine._writer._queue.empty():
            await task.deferLater(reactor, 0.001)

    async def test_refused_after_five_seconds_and_well_again(self) -> None:
        """S5."""
        self.stall()
        begun = self.append(1)
        await self.taken()
        queued, closing = self.append(2), self.append(3, patient=True)
        # the reactor goes on: this very test runs on it
        await task.deferLater(reactor, 0.01)
        self.assertNoResult(begun)
        self.half.clock.advance(STALL_SECONDS)
        self.refused(begun)
        self.refused(queued)
        self.assertNoResult(closing)
        self.assertTrue(self.journal.stalled)
        self.refused(self.append(4))
        self.refused(self.journal.session(session_id(1)))
        self.resume()
        events = await closing
        # the one that was begun is there after all and was told so; the one that was queued was never carried out
        self.assertEqual((self.late, events[0].seq), ([3], 4))
        self.assertFalse(self.journal.stalled)
        self.assertEqual((await self.append(5)).events[0].seq, 5)
        # whoever follows has heard of all of them
        self.assertEqual(self.heard.seqs(), [1, 2, 3, 4, 5])
        found = [event.data["terminalId"][-1] for event in (await all_events(self.journal))[2:]]
        self.assertEqual(found, ["1", "3", "5"])

    async def test_who_goes_away_while_it_waits(self) -> None:
        self.stall()
        first = self.append(1)
        await self.taken()
        second = self.append(2)
        for done in (first, second):
            done.addErrback(lambda _: None)
            done.cancel()
        self.resume()
        self.assertEqual((await self.journal.append(session_id(1), [closed(1)]))[0].seq, 4)
        self.assertEqual(self.late, [3])
        self.assertEqual(self.heard.seqs(), [1, 2, 3, 4])

    async def test_a_stop_does_not_wait_for_ever(self) -> None:
        self.stall()
        begun = self.append(1)
        await self.taken()
        stopped = self.journal.stop()
        await task.deferLater(reactor, 0.01)
        self.assertNoResult(stopped)
        self.half.clock.advance(STOP_SECONDS)
        self.successResultOf(stopped)
        self.refused(begun)
        self.assertEqual(self.half.clock.getDelayedCalls(), [])
        self.resume()
        thread = self.journal._engine._thread
        assert thread is not None
        while thread.is_alive():
            await task.deferLater(reactor, 0.001)
