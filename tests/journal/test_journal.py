"""The real journal keeps the promises of the port, and its own."""

from __future__ import annotations

import os
import threading
from typing import Any

import attrs
from twisted.internet.defer import Deferred, gatherResults

from computerd.contract.errors import ApiError, Code
from computerd.journal.backlog import Job
from computerd.journal.group import Group
from computerd.journal.journal import PAGES, Journal
from computerd.journal.refusal import UnusableError
from computerd.journal.thread import Writer, Written
from computerd.session.port import Change, Decided, Decision
from tests.journal.real import JournalCase
from tests.session.journal_interface import (
    Heard,
    JournalInterface,
    a_key,
    a_record,
    all_events,
    beginning,
    closed,
    opened,
    session_id,
    suspending,
    terminal_id,
    waking,
)


class JournalTests(JournalInterface, JournalCase):
    """The interface tests, on SQLite."""

    async def setUp(self) -> None:  # type: ignore[override]
        super().setUp()
        self.heard = Heard()
        self.real = self.journal = self.new_journal()
        self.journal.listen(self.heard)
        self.addCleanup(self.real.stop)
        await self.real.start()

    def later(self, seconds: float) -> None:
        JournalCase.later(self, seconds)

    def kept_keys(self) -> list[str]:
        return [str(key) for (key,) in self.query("SELECT key FROM keys")]


class LifeTests(JournalCase):
    """Started and stopped."""

    def test_nothing_is_taken_before_the_start(self) -> None:
        error = self.failureResultOf(self.new_journal().append(session_id(1), [opened()]), ApiError).value
        assert isinstance(error, ApiError)
        self.assertEqual(error.code, Code.UNAVAILABLE)

    def test_stopped_before_the_start(self) -> None:
        self.successResultOf(self.new_journal().stop())

    async def test_stop_writes_what_is_queued(self) -> None:
        journal = await self.started()
        session = await self.session(journal)
        appends = [journal.append(session, [opened(number)]) for number in range(100)]
        await journal.stop()
        self.assertEqual([self.successResultOf(done)[0].seq for done in appends], list(range(3, 103)))
        self.assertEqual(self.query("SELECT count(*), max(seq) FROM events"), [(102, 102)])
        self.failureResultOf(journal.append(session, [opened()]), ApiError)

    async def test_stop_leaves_no_thread_and_no_log(self) -> None:
        journal = await self.started()
        await self.session(journal)
        self.assertIn("journal", [thread.name for thread in threading.enumerate()])
        await journal.stop()
        self.assertNotIn("journal", [thread.name for thread in threading.enumerate()])
        self.assertEqual(
            sorted(os.listdir(self.folder)), ["journal.db", "journal.db.lock", "journal.db.seen", "reserve.bin"]
        )

    async def test_started_and_stopped_at_once(self) -> None:
        journal = self.new_journal()
        start, stop = journal.start(), journal.stop()
        await stop
        self.failureResultOf(start, RuntimeError)

    async def test_all_is_there_after_a_restart(self) -> None:
        first = await self.started()
        session = await self.session(first)
        await first.append(session, [opened(), closed()])
        await first.decide(session, suspending, key=a_key())
        record, events, epoch = await first.session(session), await all_events(first), first.log_epoch
        await first.stop()
        second = await self.started()
        self.assertEqual(second.log_epoch, epoch)
        self.assertRegex(epoch, r"^le_[0-9A-Za-z]{12}$")
        self.assertEqual(await second.session(session), record)
        self.assertEqual(list(await all_events(second)), list(events))
        self.assertEqual((await second.decide(session, waking, key=a_key())).answer, b"suspended 5")
        self.assertEqual((await second.append(session, [opened(2)]))[0].seq, 6)

    async def test_one_folder_one_daemon(self) -> None:
        await self.started()
        with self.assertRaises(UnusableError) as caught:
            await self.new_journal().start()
        self.assertIn("another computerd", str(caught.exception))

    async def test_grouped(self) -> None:
        journal = await self.started()
        session = await self.session(journal)
        begun = self.commits()
        for number in range(10):
            await journal.append(session, [opened(number)])
        self.assertEqual(len(begun), 10)
        del begun[:]
        await gatherResults([journal.append(session, [closed(number)]) for number in range(1000)])
        self.assertLess(len(begun), 100)

    async def test_it_is_counted(self) -> None:
        journal = await self.started()
        session = await self.session(journal)
        await journal.append(session, [opened(1), opened(2)])
        with self.assertRaises(ApiError):
            await journal.append(session_id(9), [opened()])
        await journal.session(session)
        self.assertEqual((journal.tally.events, sum(journal.tally.commits.counts), journal.tally.waiting), (4, 2, 0))

    async def test_a_job_that_breaks_does_not_touch_its_neighbours(self) -> None:
        journal = await self.started()
        session = await self.session(journal)
        release = self.block(journal)

        def break_down(group: Group) -> object:
            group.connection.execute("UPDATE sessions SET last_seq = 77")
            raise ZeroDivisionError

        before = journal.append(session, [opened()])
        broken: Deferred[object] = journal._engine.submit(Job(break_down, True))
        buggy = journal.decide(session, lambda record: Decided([opened()][1:] * (1 // 0)))
        after = journal.append(session, [closed()])
        release.set()
        self.assertEqual([(await before)[0].seq, (await after)[0].seq], [3, 4])
        for done in (broken, buggy):
            with self.assertRaises(ZeroDivisionError):
                await done

    async def test_the_thread_dies(self) -> None:
        failures: list[str] = []
        journal = self.new_journal()
        journal.failed = lambda: failures.append("failed")
        self.addCleanup(journal.stop)
        await journal.start()

        def die(writer: Writer) -> None:
            raise SystemError("a bug")

        self.patch(Writer, "_look_around", die)
        with self.assertRaises(ApiError):
            await journal.append("cs_none", [opened()], patient=True)
        while not failures:
            await _turn()
        with self.assertRaises(ApiError) as caught:
            await journal.append("cs_none", [opened()])
        self.assertEqual(caught.exception.code, Code.UNAVAILABLE)

    async def test_pages_are_bounded_by_their_size_too(self) -> None:
        """R10. Metadata and commands make rows of 100 KiB, and a page may have 500 rows."""
        journal = await self.started()
        session = await self.session(journal)
        for number in range(80):
            await journal.append(session, [opened(number, "x" * 10_000)])
        page = await journal.events(session, after=0, limit=500, types=None)
        self.assertTrue(page.more)
        self.assertLess(len(page.found), 60)
        rest = await journal.events(session, after=page.found[-1].seq, limit=500, types=None)
        self.assertEqual([event.seq for event in [*page.found, *rest.found]], list(range(1, 83)))
        for number in range(2, 12):
            record = attrs.evolve(a_record(number), metadata={"m": "x" * 100_000})
            await journal.create(record, beginning(record))
        sessions = await journal.sessions(archived=False, limit=100, before=None)
        self.assertEqual((sessions.more, len(sessions.found)), (True, 6))

    async def test_few_pages_at_a_time(self) -> None:
        """R10. However many ask, the thread has read at most a few that nobody has taken yet."""
        journal = await self.started()
        session = await self.session(journal)
        asked = [journal.events(session, after=0, limit=1, types=None) for _ in range(100)]
        self.assertLessEqual(len(journal._engine._backlog._waiting), PAGES)
        self.assertEqual([len((await page).found) for page in asked], [1] * 100)

    async def test_the_log_does_not_grow_without_end(self) -> None:
        journal = await self.started()
        session = await self.session(journal)
        command = "x" * 10_000
        for _ in range(40):
            await journal.append(session, [opened(number, command) for number in range(100)])
        # 40 MB of events went through it
        self.assertLess(self.size("-wal"), 16_000_000)

    def commits(self) -> list[int]:
        """Gets the size of each group from now on."""
        begun: list[int] = []
        transaction = Writer._transaction

        def counted(writer: Writer, jobs: list[Job[Any]]) -> Written:
            begun.append(len(jobs))
            return transaction(writer, jobs)

        self.patch(Writer, "_transaction", counted)
        return begun

    def block(self, journal: Journal) -> threading.Event:
        """Keeps the thread busy until the event is set."""
        release = threading.Event()
        journal._engine.submit(Job(lambda connection: release.wait(30), False))
        self.addCleanup(release.set)
        return release


class RepairTests(JournalCase):
    """What a killed daemon left is closed at the next start (T13)."""

    async def test_open_terminals_are_closed(self) -> None:
        first = await self.started()
        for number in (1, 2):
            await self.session(first, number)
        await first.append(session_id(1), [opened(1), opened(2), closed(1, 3)])
        await first.append(session_id(2), [opened(3)])
        await first.stop()
        second = await self.started()
        for number, terminal in ((1, 2), (2, 3)):
            last = (await all_events(second, number))[-1]
            self.assertEqual(
                (last.type, last.data, last.actor),
                ("terminal.closed", {"terminalId": terminal_id(terminal), "exitCode": None}, None),
            )
        self.assertEqual([event.seq for event in await all_events(second, 1)], [1, 2, 3, 4, 5, 6])
        await second.stop()
        # and only once
        third = await self.started()
        self.assertEqual((len(await all_events(third, 1)), len(await all_events(third, 2))), (6, 4))

    async def test_sessions_that_seem_to_work_become_idle(self) -> None:
        first = await self.started()
        for number, status in enumerate(("idle", "starting", "running", "waiting", "suspended")):
            await self.session(first, number)
            await first.decide(session_id(number), becoming(status))
        await first.stop()
        second = await self.started()
        statuses = {}
        for number in range(5):
            record = await second.session(session_id(number))
            assert record is not None
            statuses[number] = record.status, record.last_seq
        self.assertEqual(
            statuses, {0: ("idle", 4), 1: ("idle", 5), 2: ("idle", 5), 3: ("waiting", 4), 4: ("suspended", 4)}
        )
        last = (await all_events(second, 2))[-1]
        self.assertEqual((last.type, last.data), ("session.status_changed", {"from": "running", "to": "idle"}))

    async def test_created_and_opened_in_one_commit(self) -> None:
        first = await self.started()
        record = a_record()
        await first.create(record, [*beginning(record), opened(4)])
        await first.stop()
        second = await self.started()
        self.assertEqual((await all_events(second))[-1].type, "terminal.closed")


def becoming(status: str) -> Decision:
    """A decision: this is the status from now on."""
    return lambda record: Decided([opened(), closed()], Change(status=status))


async def _turn() -> None:
    """One turn of the reactor."""
    from twisted.internet import reactor, task

    await task.deferLater(reactor, 0)
