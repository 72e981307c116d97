"""What is brought over from a damaged file, and that it is all or nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys

from computerd.api.audit import Entry
from computerd.journal import audit, damage
from computerd.journal.database import connect
from computerd.journal.engine import Engine
from tests.journal.real import JournalCase
from tests.journal.test_credentials import ROOT
from tests.session.journal_interface import (
    a_key,
    a_record,
    all_events,
    closed,
    opened,
    session_id,
    suspending,
    waking,
)

SESSIONS = 300


class SalvageCase(JournalCase):
    """Has a journal with many sessions, a key and an audit row, that nobody uses."""

    async def setUp(self) -> None:  # type: ignore[override]
        super().setUp()
        self.reports: list[str] = []
        self.patch(Engine, "_report", lambda journal, text: self.reports.append(text))
        journal = await self.started()
        for number in range(SESSIONS):
            await self.session(journal, number)
        await journal.append(session_id(1), [opened(1), opened(2), closed(1)])
        await journal.decide(session_id(2), suspending, key=a_key())
        journal.note(Entry(5.0, "sessions.suspend", member="alice"))
        self.epoch = journal.log_epoch
        await journal.stop()
        self.reports.clear()

    def change(self, *statements: str) -> None:
        """What a failing disk might do."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    def pages(self, table: str) -> list[int]:
        """The pages of a table, the root first."""
        try:
            found = self.query(f"SELECT pageno FROM dbstat WHERE name = '{table}' ORDER BY path")
        except sqlite3.OperationalError:
            found = self.query(f"SELECT rootpage FROM sqlite_schema WHERE name = '{table}'")
        return [int(str(page)) for (page,) in found]

    def break_page(self, page: int) -> None:
        """Fills a page with nonsense."""
        with open(self.path, "r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xff" * 4096)


class SalvageTests(SalvageCase):
    """Of a file that can be read in parts."""

    async def test_what_can_be_read_goes_on(self) -> None:
        """S4. Sessions, keys and audit rows; open terminals and events are gone."""
        self.break_page(self.pages("events")[0])
        journal = await self.started()
        self.assertNotEqual(journal.log_epoch, self.epoch)
        self.assertIn(f"with {SESSIONS} of its sessions", self.reports[0])
        page = await journal.sessions(archived=False, limit=1000, before=None)
        self.assertEqual(len(page.found), SESSIONS)
        self.assertEqual({record.first_seq - record.last_seq for record in page.found}, {1})
        self.assertEqual(await all_events(journal), [])
        suspended = await journal.session(session_id(2))
        assert suspended is not None
        self.assertEqual((suspended.status, suspended.metadata), ("suspended", a_record().metadata))
        self.assertEqual((await journal.append(session_id(1), [opened(3)]))[0].seq, 6)
        again = await journal.decide(session_id(2), waking, key=a_key())
        self.assertEqual((again.answer, again.repeated), (b"suspended 3", True))
        self.assertEqual(self.query("SELECT count(*) FROM open_terminals"), [(1,)])
        await journal.stop()
        self.assertEqual([line.entry.action for line in audit.entries(self.path)], ["sessions.suspend"])
        self.assertTrue(all(line.sound for line in audit.entries(self.path)))

    async def test_sessions_around_a_page_that_is_broken(self) -> None:
        pages = self.pages("sessions")
        if len(pages) < 4:
            # without dbstat: the leaves are wherever the root says
            (leaf,) = self.query("SELECT max(rootpage) + 3 FROM sqlite_schema")[0]
            pages = [0, 0, int(str(leaf))]
        self.break_page(pages[2])
        journal = await self.started()
        found = (await journal.sessions(archived=False, limit=1000, before=None)).found
        self.assertGreater(len(found), SESSIONS // 2)
        self.assertLess(len(found), SESSIONS)
        self.assertEqual((await journal.append(found[0].id, [opened(3)]))[0].seq, found[0].first_seq)

    async def test_a_row_that_makes_no_sense_is_left_behind(self) -> None:
        self.change(
            f"UPDATE sessions SET owner = '{{nonsense' WHERE id = '{session_id(3)}'",
            f"UPDATE sessions SET title = CAST(x'ff' AS TEXT) WHERE id = '{session_id(4)}'",
            f"UPDATE sessions SET last_seq = 'many' WHERE id = '{session_id(5)}'",
        )
        self.break_page(self.pages("events")[0])
        journal = await self.started()
        found = {record.id for record in (await journal.sessions(archived=False, limit=1000, before=None)).found}
        self.assertEqual(len(found), SESSIONS - 3)
        self.assertFalse(found & {session_id(number) for number in (3, 4, 5)})

    async def test_no_number_is_given_out_again(self) -> None:
        """Not even when the row of the session has forgotten some: the events know, and the witness knows the total."""
        # an older state of the row, whose events are there
        self.change(f"UPDATE sessions SET last_seq = 3 WHERE id = '{session_id(1)}'")
        self.break_page(self.pages("tokens")[0])
        journal = await self.started()
        self.assertEqual((await journal.append(session_id(1), [opened(3)]))[0].seq, 6)
        self.assertEqual((await journal.append(session_id(2), [opened(3)]))[0].seq, 4)

    async def test_nor_when_its_events_are_lost_too(self) -> None:
        self.change(f"UPDATE sessions SET last_seq = 3 WHERE id = '{session_id(1)}'")
        self.break_page(self.pages("events")[0])
        journal = await self.started()
        # two numbers are missing from the total, and may have been of any session
        self.assertEqual((await journal.append(session_id(1), [opened(3)]))[0].seq, 6)
        self.assertEqual((await journal.append(session_id(7), [opened(3)]))[0].seq, 5)

    async def test_it_goes_on_in_the_same_epoch_after_that(self) -> None:
        self.break_page(self.pages("events")[0])
        first = await self.started()
        await first.append(session_id(1), [opened(3)])
        await first.stop()
        second = await self.started()
        self.assertEqual(second.log_epoch, first.log_epoch)
        # and what was open is closed
        self.assertEqual([event.type for event in await all_events(second)], ["terminal.opened", "terminal.closed"])


class InterruptedTests(SalvageCase):
    """A kill while the new file is made."""

    def run_and_die(self, at: str, nth: int) -> None:
        """Begins anew in another process, which kills itself when it is about to call this function of `os` for the nth time."""
        script = f"""
import os, signal, sys, time
from computerd.journal import damage
calls, real = [], os.{at}
def die(*args, **how):
    calls.append(1)
    if len(calls) == {nth}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **how)
os.{at} = die
damage.begin_anew(sys.argv[1], 0, time.time)
"""
        ended = subprocess.run(
            [sys.executable, "-c", script, self.absolute],
            env={"PYTHONPATH": ROOT},
            cwd=ROOT,
            capture_output=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(ended.returncode, -signal.SIGKILL, ended.stderr)

    async def test_every_step(self) -> None:
        """The revocation counts after each of them, and so do the sessions."""
        broken = self.broken()
        for at, nth in (("rename", 1), ("rename", 2), ("rename", 3), ("fsync", 1), ("fsync", 2)):
            for name in os.listdir(self.folder):
                os.unlink(os.path.join(self.folder, name))
            self.overwrite("journal.db", broken)
            os.chmod(self.path, 0o600)
            self.run_and_die(at, nth)
            journal = await self.started()
            self.assertTrue(journal.revocations.revoked("a", "alice", 1.0), (at, nth))
            self.assertFalse(journal.revocations.revoked("b", "alice", 1.0), (at, nth))
            self.assertIsNotNone(await journal.session(session_id(1)), (at, nth))
            await journal.stop()
            rest = {name for name in os.listdir(self.folder) if "damaged" not in name}
            self.assertEqual(rest, {"journal.db", "journal.db.lock", "journal.db.seen", "reserve.bin"}, (at, nth))

    def broken(self) -> bytes:
        """A damaged file with a revocation."""
        self.change("INSERT INTO revocations (token_id, member, at) VALUES ('a', NULL, 5000)")
        self.break_page(self.pages("events")[0])
        return self.read()

    def test_a_whole_new_one_is_not_used_beside_the_old_one(self) -> None:
        connect(self.path + damage.READY, durable=True).close()
        before = self.read()
        damage.finish(self.path)
        self.assertEqual((self.read(), os.path.exists(self.path + damage.READY)), (before, False))
