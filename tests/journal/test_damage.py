"""A file that is broken, lost, cut short or put back from a copy (S4)."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys

from computerd.journal import credentials
from computerd.journal.credentials import Issued
from computerd.journal.engine import Engine
from computerd.journal.journal import Journal
from computerd.journal.refusal import NewerSchemaError, UnsafeFileError
from computerd.journal.store import Store
from tests.journal.real import JournalCase
from tests.journal.test_credentials import ROOT
from tests.session.journal_interface import a_record, all_events, closed, opened, session_id


class DamageCase(JournalCase):
    """Has a journal with a session of a few events, and a revocation, that nobody uses."""

    async def setUp(self) -> None:  # type: ignore[override]
        super().setUp()
        self.reports: list[str] = []
        self.patch(Engine, "_report", lambda journal, text: self.reports.append(text))
        journal = await self.started()
        await self.session(journal)
        for number in range(200):
            await journal.append(session_id(1), [opened(number, "x" * 100), closed(number)])
        self.epoch = journal.log_epoch
        await journal.stop()
        credentials.issue(self.path, Issued("a", "alice", None, None, False, (), 5.0, None))
        credentials.revoke(self.path, token_id="a", at=5.0)
        self.reports.clear()

    def scribble(self, place: int, data: bytes) -> None:
        """Overwrites part of the file."""
        with open(self.path, "r+b") as file:
            file.seek(place)
            file.write(data)

    def aside(self) -> list[str]:
        """The files that were kept."""
        return sorted(name for name in os.listdir(self.folder) if "damaged" in name)

    async def anew(self) -> Journal:
        """Starts, and finds a journal of another epoch without events that works."""
        journal = await self.started()
        self.assertNotEqual(journal.log_epoch, self.epoch)
        self.assertEqual(await all_events(journal), [])
        await self.session(journal, 2)
        self.assertEqual([event.seq for event in await all_events(journal, 2)], [1, 2])
        self.assertEqual(len(self.aside()), 1)
        self.assertRegex(self.aside()[0], r"^journal\.db\.damaged-\d{8}T\d{6}Z$")
        self.assertIn(self.aside()[0], self.reports[0])
        return journal


class BrokenTests(DamageCase):
    """Moved aside, loudly."""

    async def test_a_garbage_header(self) -> None:
        """S4."""
        self.scribble(0, b"garbage " * 8)
        journal = await self.anew()
        self.assertIsNone(await journal.session(session_id(1)))
        # nobody knows any more who was revoked, so everybody is
        self.assertTrue(journal.revocations.revoked("b", "bob", 1000.0))
        self.assertFalse(journal.revocations.revoked("b", "bob", 1e11))
        self.assertIn("issue new ones", self.reports[1])

    async def test_it_is_kept_as_it_was(self) -> None:
        self.scribble(0, b"garbage " * 8)
        before = self.read()
        await self.anew()
        self.assertEqual(self.read(self.aside()[0]), before)

    async def test_a_broken_page(self) -> None:
        """S4."""
        (page,) = self.query("SELECT rootpage FROM sqlite_schema WHERE name = 'events'")[0]
        assert isinstance(page, int)
        self.scribble((page - 1) * 4096, b"\xff" * 4096)
        journal = await self.anew()
        # the session goes on, and no number is given out again
        record = await journal.session(session_id(1))
        assert record is not None
        self.assertEqual((record.title, record.first_seq, record.last_seq), (a_record().title, 403, 402))
        self.assertEqual((await journal.append(session_id(1), [opened(1)]))[0].seq, 403)
        # the revocations are on pages of their own, and were saved
        self.assertTrue(journal.revocations.revoked("a", "alice", 1.0))
        self.assertFalse(journal.revocations.revoked("b", "bob", 1000.0))
        self.assertEqual([item.token_id for item in credentials.issued(self.path)], ["a"])

    async def test_a_cut_file(self) -> None:
        os.truncate(self.path, self.size() // 2 // 4096 * 4096)
        await self.anew()

    async def test_it_starts_again_after_that(self) -> None:
        self.scribble(0, b"garbage " * 8)
        first = await self.anew()
        await first.stop()
        second = await self.started()
        self.assertEqual(second.log_epoch, first.log_epoch)
        self.assertEqual(len(self.aside()), 1)
        self.assertTrue(second.revocations.revoked("b", "bob", 1000.0))

    async def test_twice_in_one_second(self) -> None:
        self.patch(Engine, "_report", lambda journal, text: None)
        for expected in (1, 2, 3):
            self.scribble(0, b"garbage " * 8)
            journal = await self.started()
            await journal.stop()
            self.assertEqual(len(self.aside()), expected)

    async def test_an_empty_file_is_a_new_one(self) -> None:
        os.truncate(self.path, 0)
        journal = await self.started()
        self.assertNotEqual(journal.log_epoch, self.epoch)
        self.assertEqual(self.aside(), [])

    async def test_what_is_refused_is_not_moved(self) -> None:
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA user_version = 7777")
        connection.close()
        with self.assertRaises(NewerSchemaError):
            await self.started()
        os.chmod(self.path, 0o666)
        with self.assertRaises(UnsafeFileError):
            await self.started()
        self.assertEqual(self.aside(), [])

    async def test_a_check_that_takes_too_long_is_ended(self) -> None:
        # interrupted from another thread in the middle of the check, as the start's time limit does
        def interrupting(connection: sqlite3.Connection) -> str | None:
            connection.create_function("interrupting", 0, store.interrupt)
            connection.execute(
                "SELECT interrupting(), (WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n)"
            )
            return None

        reports: list[str] = []
        store = Store(self.path, lambda: 0.0, os.urandom, reports.append)
        self.patch(sys.modules["computerd.journal.damage"], "sound", interrupting)
        store.open()
        store.close()
        self.assertIn("unchecked", reports[0])


class EpochTests(DamageCase):
    """Whole, but not what its readers knew."""

    def copy(self, name: str = "copy.db") -> str:
        """A copy of the file."""
        path = os.path.join(self.folder, name)
        shutil.copyfile(self.path, path)
        os.chmod(path, 0o600)
        return path

    async def more(self) -> int:
        """Appends something, stops, and returns the last number."""
        journal = await self.started()
        events = await journal.append(session_id(1), [opened(1000), closed(1000)])
        await journal.stop()
        return events[-1].seq

    async def expect_new_epoch(self, why: str) -> None:
        """Starts, and finds the session in a new epoch, in which it goes on after its last event."""
        journal = await self.started()
        self.assertNotEqual(journal.log_epoch, self.epoch)
        self.assertIn(why, self.reports[0])
        record = await journal.session(session_id(1))
        assert record is not None
        self.assertEqual(record.first_seq, record.last_seq + 1)
        self.assertEqual((await journal.append(session_id(1), [opened(7), closed(7)]))[0].seq, record.first_seq)
        await journal.stop()
        again = await self.started()
        self.assertEqual(again.log_epoch, journal.log_epoch)

    async def test_the_same_file_is_the_same_epoch(self) -> None:
        await self.more()
        journal = await self.started()
        self.assertEqual(journal.log_epoch, self.epoch)
        self.assertEqual(self.reports, [])

    async def test_a_copy_in_its_place(self) -> None:
        copy = self.copy()
        await self.more()
        os.replace(copy, self.path)
        await self.expect_new_epoch("replaced by a copy")

    async def test_an_older_state_in_the_same_file(self) -> None:
        copy = self.read()
        await self.more()
        self.overwrite("journal.db", copy)
        await self.expect_new_epoch("2 committed events are missing")

    async def test_a_deleted_file(self) -> None:
        os.unlink(self.path)
        journal = await self.started()
        self.assertNotEqual(journal.log_epoch, self.epoch)
        await self.session(journal)
        await journal.stop()
        again = await self.started()
        self.assertEqual(again.log_epoch, journal.log_epoch)

    async def test_a_deleted_log(self) -> None:
        # a killed daemon leaves its log, here with all that came after the set-up
        """S4."""
        self.run_and_die(
            "await journal.append(session_id(1), [opened(1000), closed(1000)])\n"
            "    while 'le_' not in open(path + '.seen').read() or open(path + '.seen').read().split()[1] != '404':\n"
            "        await task.deferLater(reactor, 0.01)"
        )
        self.assertIn("journal.db-wal", os.listdir(self.folder))
        os.unlink(self.path + "-wal")
        await self.expect_new_epoch("2 committed events are missing")

    async def test_a_witness_that_is_nonsense(self) -> None:
        for text in (b"", b"nonsense", b"\xff" * 40, b"le_000000000000 " + b"9" * 100):
            self.overwrite("journal.db.seen", text)
            journal = await self.started()
            self.assertEqual(journal.log_epoch, self.epoch)
            await journal.stop()

    def run_and_die(self, work: str) -> None:
        """Does some work on the journal in another process, which kills itself then."""
        script = f"""
import os, signal, sys, time
from twisted.internet import reactor, task
from tests.session.journal_interface import *
from computerd.journal.engine import Engine
from computerd.journal.journal import Journal
async def main(reactor):
    path = sys.argv[1]
    journal = Journal(path, reactor, time.time, os.urandom)
    await journal.start()
    {work}
    os.kill(os.getpid(), signal.SIGKILL)
from twisted.internet.defer import Deferred
task.react(lambda reactor: Deferred.fromCoroutine(main(reactor)))
"""
        ended = subprocess.run(  # the reactor has nothing to do meanwhile
            [sys.executable, "-c", script, os.path.abspath(self.path)],
            env={"PYTHONPATH": ROOT},
            cwd=ROOT,
            capture_output=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(ended.returncode, -signal.SIGKILL, ended.stderr)
