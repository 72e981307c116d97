"""A journal that breaks, or is taken away, while the daemon runs (S4): it begins anew, says so, and works on."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

from twisted.internet import reactor, task

from computerd.api.audit import Entry
from computerd.contract.errors import ApiError, Code
from computerd.journal import audit, credentials, damage, renewals
from computerd.journal.backlog import Job
from computerd.journal.engine import Engine
from computerd.journal.group import Group
from computerd.journal.refusal import UnusableError
from computerd.journal.store import Store
from tests.journal.real import JournalCase
from tests.session.journal_interface import (
    Heard,
    a_key,
    a_record,
    all_events,
    beginning,
    closed,
    opened,
    session_id,
    suspending,
    waking,
)


def corrupt(_: object = None) -> Any:
    """What SQLite says of a broken page."""
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    raise error


class RenewalCase(JournalCase):
    """Has a journal that runs, with two sessions."""

    async def setUp(self) -> None:  # type: ignore[override]
        super().setUp()
        self.reports: list[str] = []
        self.patch(Engine, "_report", lambda journal, text: self.reports.append(text))
        self.heard = Heard()
        self.journal = self.new_journal()
        self.journal.listen(self.heard)
        self.addCleanup(self.journal.stop)
        await self.journal.start()
        for number in (1, 2):
            await self.session(self.journal, number)
        await self.journal.append(session_id(1), [opened(1, "echo hello"), opened(2)])
        self.epoch = self.journal.log_epoch

    async def until(self, condition: Callable[[], object]) -> None:
        """Waits for it. The limit is the test's own."""
        while not condition():
            await task.deferLater(reactor, 0.005)

    def renewals(self) -> int:
        """How often that was told."""
        return self.heard.told.count("renewed")

    def aside(self) -> list[str]:
        """The files that were kept."""
        return sorted(name for name in os.listdir(self.folder) if "damaged" in name)

    async def renewed(self, missing: int = 0) -> None:
        """Waits for the renewal, and finds the session in the new epoch, without events. So many numbers were lost with other sessions."""
        await self.until(self.renewals)
        self.assertNotEqual(self.journal.log_epoch, self.epoch)
        record = await self.journal.session(session_id(1))
        assert record is not None
        self.assertEqual((record.first_seq, record.last_seq), (5 + missing, 4 + missing))
        self.assertEqual(await all_events(self.journal), [])
        (event,) = await self.journal.append(session_id(1), [closed(1)])
        self.assertEqual(event.seq, 5 + missing)
        self.assertEqual(self.query("PRAGMA quick_check"), [("ok",)])

    def block(self) -> threading.Event:
        """Keeps the thread busy until the event is set."""
        release = threading.Event()
        self.journal._engine.submit(Job(lambda connection: release.wait(30), False)).addErrback(lambda _: None)
        self.addCleanup(release.set)
        return release

    def change(self, *statements: str) -> None:
        """What a failing disk might do."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()


class LostFileTests(RenewalCase):
    """The file at the path is another."""

    async def test_deleted(self) -> None:
        """S4."""
        os.unlink(self.path)
        await self.renewed()
        self.assertIn("journal.db was deleted", self.reports[0])
        self.assertIn("nothing of it is left", self.reports[0])

    async def test_all_of_it_deleted(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            os.unlink(self.path + suffix)
        await self.renewed()
        self.assertEqual(self.aside(), [])

    async def test_replaced(self) -> None:
        """What lies there now is kept as it is, and not trusted."""
        foreign = os.path.join(self.folder, "foreign")
        with open(foreign, "wb") as file:  # noqa: ASYNC230
            file.write(b"somebody else's " * 1000)
        os.replace(foreign, self.path)
        await self.renewed()
        (name,) = self.aside()
        self.assertEqual(self.read(name), b"somebody else's " * 1000)
        self.assertIn("replaced", self.reports[0])
        self.assertIn(name, self.reports[0])

    async def test_a_deleted_log(self) -> None:
        os.unlink(self.path + "-wal")
        await self.renewed()
        self.assertIn("journal.db-wal was deleted", self.reports[0])
        self.assertEqual(len(self.aside()), 2)

    async def test_it_is_the_same_epoch_at_the_next_start(self) -> None:
        os.unlink(self.path)
        await self.renewed()
        await self.journal.stop()
        again = await self.started()
        self.assertEqual(again.log_epoch, self.journal.log_epoch)

    async def test_what_goes_on_beside_it(self) -> None:
        """Revocations of others, audit rows, and what is kept with keys."""
        await self.journal.decide(session_id(2), suspending, key=a_key())
        credentials.revoke(self.path, token_id="a", at=5.0)
        self.journal.note(Entry(1.0, "daemon.started"))
        await self.until(lambda: self.query("SELECT 1 FROM audit"))
        os.unlink(self.path)
        await self.renewed()
        self.assertTrue(self.journal.revocations.revoked("a", "alice", 1.0))
        self.assertTrue((await self.journal.decide(session_id(2), waking, key=a_key())).repeated)
        credentials.revoke(self.path, token_id="b", at=5.0)
        await self.until(lambda: self.journal.revocations.revoked("b", "alice", 1.0))
        self.journal.note(Entry(2.0, "daemon.stopped"))
        await self.journal.stop()
        self.assertEqual([line.entry.action for line in audit.entries(self.path)], ["daemon.started", "daemon.stopped"])


class BrokenFileTests(RenewalCase):
    """SQLite says that the file is damaged."""

    async def test_pages_that_turn_to_nonsense(self) -> None:
        """S4. Not only what SQLite is made to say."""
        for number in range(400):
            await self.journal.append(session_id(2), [opened(number, "x" * 10_000)])
        self.change("PRAGMA wal_checkpoint(TRUNCATE)")
        with open(self.path, "r+b") as file:  # noqa: ASYNC230
            file.seek(100 * 4096)
            file.write(b"\xff" * (self.size() - 100 * 4096))
        codes = set()
        while not self.renewals():
            try:
                await all_events(self.journal, 2)
            except ApiError as error:
                codes.add(error.code)
        self.assertEqual(codes, {Code.UNAVAILABLE})
        record = await self.journal.session(session_id(2))
        assert record is not None
        self.assertEqual((record.first_seq, record.last_seq), (403, 402))
        self.assertEqual((await self.journal.append(session_id(2), [closed(1)]))[0].seq, 403)
        self.assertIn(f"journal.db.damaged-{self.aside()[0].split('-')[1]}", self.reports[0])
        self.assertIn("malformed", self.reports[0])

    async def test_jobs_in_hand(self) -> None:
        """They are refused, and what has happened is written into the new file."""
        release = self.block()
        good = self.journal.append(session_id(1), [opened(3)])
        broken = self.journal._engine.submit(Job(corrupt, True))
        patient = self.journal.append(session_id(1), [closed(1)], patient=True)
        read = self.journal.session(session_id(1))
        release.set()
        for done in (good, broken, read):
            with self.assertRaises(ApiError) as caught:
                await done
            self.assertEqual((caught.exception.code, caught.exception.retry_after_ms), (Code.UNAVAILABLE, 1000))
        (event,) = await patient
        self.assertEqual((event.seq, self.renewals()), (5, 1))
        self.assertIsInstance(self.heard.told[-2], str)
        self.assertEqual(self.heard.seqs(), [1, 2, 3, 4, 5])

    async def test_what_ends_in_a_session_that_is_gone(self) -> None:
        """It ends quietly: there is nobody to tell."""
        self.change(f"UPDATE sessions SET origin = 'nonsense' WHERE id = '{session_id(1)}'")
        release = self.block()
        broken = self.journal._engine.submit(Job(corrupt, True))
        patient = self.journal.append(session_id(1), [closed(1)], patient=True)
        release.set()
        with self.assertRaises(ApiError):
            await broken
        self.assertEqual(list(await patient), [])
        self.assertIn("with 1 of its sessions", self.reports[0])
        self.assertEqual(list(await self.journal.append(session_id(1), [closed(2)], patient=True)), [])
        with self.assertRaises(ApiError) as caught:
            await self.journal.append(session_id(1), [opened(3)])
        self.assertEqual(caught.exception.code, Code.SESSION_NOT_FOUND)

    async def test_while_the_log_is_written_back(self) -> None:
        once = [corrupt]
        self.patch(Store, "write_back", lambda store: once.pop()() if once else None)
        await self.journal.session(session_id(2))
        await self.renewed()

    async def test_one_session_that_makes_no_sense(self) -> None:
        """Its row can't be left out by half: the others go on in a new file."""
        self.change(f"UPDATE sessions SET owner = CAST(x'ff' AS TEXT) WHERE id = '{session_id(2)}'")
        with self.assertRaises(ApiError) as caught:
            await self.journal.sessions(archived=False, limit=10, before=None)
        self.assertEqual(caught.exception.code, Code.UNAVAILABLE)
        await self.renewed(2)
        self.assertIsNone(await self.journal.session(session_id(2)))

    async def test_a_decision_about_one(self) -> None:
        self.change(f"UPDATE sessions SET settings = '[]' WHERE id = '{session_id(2)}'")
        release = self.block()
        neighbour = self.journal.append(session_id(2), [opened(3)])
        decided = self.journal.decide(session_id(2), suspending)
        release.set()
        with self.assertRaises(ApiError) as caught:
            await decided
        self.assertEqual((caught.exception.code, (await neighbour)[0].seq), (Code.UNAVAILABLE, 3))
        await self.renewed(3)

    async def test_no_loop(self) -> None:
        """The second time waits, and says what to suspect. Meanwhile work is refused, patient work waits."""
        self.patch(renewals, "PAUSE_SECONDS", 1.0)
        for done in [self.journal._engine.submit(Job(corrupt, True)) for _ in range(2)]:
            with self.assertRaises(ApiError):
                await done
        await self.until(self.renewals)
        with self.assertRaises(ApiError):
            await self.journal._engine.submit(Job(corrupt, True))
        patient = self.journal.append(session_id(1), [closed(1)], patient=True)
        for asked in (self.journal.append(session_id(1), [opened(3)]), self.journal.session(session_id(1))):
            with self.assertRaises(ApiError) as caught:
                await asked
            self.assertEqual(caught.exception.code, Code.UNAVAILABLE)
        self.assertEqual(self.renewals(), 1)
        self.assertNoResult(patient)
        self.assertEqual((await patient)[0].seq, 5)
        self.assertEqual((self.renewals(), len({name.split("-")[1] for name in self.aside()})), (2, 2))
        self.assertIn("second time within a minute", self.reports[-1])

    async def test_no_new_file_can_be_made(self) -> None:
        """Then it dies, as it does when it can't go on."""
        failures: list[str] = []
        self.journal.failed = lambda: failures.append("failed")

        def refuse(*_: object) -> None:
            raise UnusableError("no room")

        self.patch(damage, "begin_anew", refuse)
        with self.assertRaises(ApiError):
            await self.journal._engine.submit(Job(corrupt, True))
        await self.until(lambda: failures)
        with self.assertRaises(ApiError) as caught:
            await self.journal.append(session_id(1), [opened(3)], patient=True)
        self.assertEqual(caught.exception.code, Code.UNAVAILABLE)

    async def test_a_listener_that_fails_takes_nobody_with_it(self) -> None:
        def fail(*_: object) -> None:
            raise ZeroDivisionError

        self.patch(self.heard, "renewed", fail)
        self.patch(self.heard, "committed", fail)
        with self.assertRaises(ApiError):
            await self.journal._engine.submit(Job(corrupt, True))
        self.assertEqual((await self.journal.append(session_id(1), [opened(3)], patient=True))[0].seq, 5)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    async def test_it_is_not_damage_when_the_disk_is_full(self) -> None:
        def full(group: Group) -> None:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

        with self.assertRaises(ApiError):
            await self.journal._engine.submit(Job(full, True))
        await self.journal.append(session_id(1), [opened(3)])
        self.assertEqual((self.renewals(), self.aside()), (0, []))


class RowTests(RenewalCase):
    """One event is not what was written: the file stays, and a new epoch begins without what is before it."""

    async def damaged(self, *statements: str) -> None:
        """Reads what was changed."""
        self.change(*statements)
        with self.assertRaises(ApiError) as caught:
            await all_events(self.journal)
        self.assertEqual(caught.exception.code, Code.UNAVAILABLE)
        await self.until(self.renewals)
        self.assertNotEqual(self.journal.log_epoch, self.epoch)
        self.assertEqual(self.aside(), [])

    async def test_a_changed_row_is_not_served(self) -> None:
        await self.damaged("UPDATE events SET data = replace(data, 'hello', 'jello') WHERE seq = 3")
        self.assertIn(f"event 3 of {session_id(1)}", self.reports[0])
        # what came after it can be read, and the numbers of the new epoch begin behind all that was given out
        self.assertEqual([event.seq for event in await all_events(self.journal)], [4])
        record = await self.journal.session(session_id(1))
        assert record is not None
        self.assertEqual((record.first_seq, record.last_seq), (5, 4))
        self.assertEqual((await self.journal.append(session_id(1), [closed(1)]))[0].seq, 5)
        # the other session has lost nothing
        self.assertEqual([event.seq for event in await all_events(self.journal, 2)], [1, 2])

    async def test_no_text_at_all(self) -> None:
        await self.damaged("UPDATE events SET data = CAST(x'7bff7d' AS TEXT) WHERE seq = 2")
        self.assertEqual([event.seq for event in await all_events(self.journal)], [3, 4])

    async def test_no_number_at_all(self) -> None:
        await self.damaged("UPDATE events SET created_at = 'now', checksum = 'x' WHERE seq = 2")
        self.assertEqual([event.seq for event in await all_events(self.journal)], [3, 4])

    async def test_several_at_once(self) -> None:
        """Damage comes in blocks: one epoch for all of it."""
        await self.damaged(
            "UPDATE events SET data = '{}' WHERE seq IN (1, 3)",
            "UPDATE events SET data = CAST(x'ff' AS TEXT) WHERE seq = 2",
        )
        self.assertEqual([event.seq for event in await all_events(self.journal)], [4])
        self.assertEqual(self.renewals(), 1)

    async def test_it_stays_so(self) -> None:
        await self.damaged("UPDATE events SET data = '{}' WHERE seq = 3")
        await self.journal.stop()
        again = await self.started()
        self.assertEqual(again.log_epoch, self.journal.log_epoch)
        # the two terminals were open
        self.assertEqual([event.seq for event in await all_events(again)], [4, 5, 6])
        self.assertEqual(await again.trim(keep=1, before=None, limit=100), {session_id(1): 6, session_id(2): 3})

    async def test_soon_after_another(self) -> None:
        """The page is refused, and the next epoch waits for its time."""
        await self.damaged("UPDATE events SET data = '{}' WHERE seq = 3")
        record = a_record(3)
        await self.journal.create(record, beginning(record))
        self.change(f"UPDATE events SET data = '{{}}' WHERE session_id = '{session_id(3)}'")
        for _ in range(2):
            with self.assertRaises(ApiError):
                await all_events(self.journal, 3)
        self.assertEqual(self.renewals(), 1)
        self.patch(renewals, "PAUSE_SECONDS", 0.0)
        with self.assertRaises(ApiError):
            await all_events(self.journal, 3)
        self.assertEqual(await all_events(self.journal, 3), [])
        self.assertEqual(self.renewals(), 2)
