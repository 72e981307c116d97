"""Retention (S7): what goes, how much at a time, and what is never taken for a loss."""

from __future__ import annotations

import sqlite3
import time

from computerd.journal.engine import Engine
from computerd.journal.group import Group
from computerd.journal.trimming import Trimmer
from tests.journal.real import JournalCase
from tests.session.journal_interface import a_key, a_record, beginning, opened, session_id, waking

EVENTS = 20_000


class TrimmingTests(JournalCase):
    """On SQLite. The rest is in the interface tests."""

    async def setUp(self) -> None:  # type: ignore[override]
        super().setUp()
        self.reports: list[str] = []
        self.patch(Engine, "_report", lambda journal, text: self.reports.append(text))
        self.journal = await self.started()
        await self.session(self.journal)

    def fill(self, number: int, events: int) -> None:
        """Makes a session with so many events, without the journal, whose time that would take."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            """
            INSERT INTO events SELECT ?, x, 'ev_', 0, NULL, NULL, 'turn.text', printf('%.200c', 'x'), 0
            FROM (WITH RECURSIVE n(x) AS (SELECT 3 UNION ALL SELECT x + 1 FROM n WHERE x < ?) SELECT x FROM n)
            """,
            (session_id(number), events),
        )
        connection.execute("UPDATE sessions SET last_seq = ? WHERE id = ?", (events, session_id(number)))
        connection.execute("COMMIT")
        connection.close()

    async def test_many_events_a_few_at_a_time(self) -> None:
        """S7. No call removes or looks at more than it was told, and the events are never loaded."""
        self.fill(1, EVENTS)
        calls, first = 0, 1
        while True:
            moved = await self.journal.trim(keep=100, before=None, limit=1000)
            if moved is None:
                break
            calls += 1
            if moved:
                self.assertLessEqual(moved[session_id(1)] - first, 1000)
                first = moved[session_id(1)]
                self.assertEqual(self.query("SELECT min(seq), count(*) FROM events"), [(first, EVENTS - first + 1)])
        self.assertEqual((first, calls), (EVENTS - 99, EVENTS // 1000))
        record = await self.journal.session(session_id(1))
        assert record is not None
        self.assertEqual((record.first_seq, record.last_seq), (EVENTS - 99, EVENTS))

    async def test_trimmed_is_not_lost(self) -> None:
        """S7. The next start finds the epoch as it was."""
        for number in range(50):
            await self.journal.append(session_id(1), [opened(number)])
        epoch = self.journal.log_epoch
        while await self.journal.trim(keep=0, before=time.time() + 60, limit=7) is not None:
            pass
        self.assertEqual(self.query("SELECT count(*) FROM events"), [(0,)])
        await self.journal.stop()
        again = await self.started()
        self.assertEqual((again.log_epoch, self.reports[1:]), (epoch, []))
        record = await again.session(session_id(1))
        assert record is not None
        # what was open is closed, whether its beginning is still there or not
        self.assertEqual((record.first_seq, record.last_seq), (53, 102))

    async def test_never_backwards(self) -> None:
        """Events of an earlier epoch may still be there; `first_seq` stays where the new one begins."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("UPDATE sessions SET first_seq = 3")
        connection.close()
        self.assertEqual(await self.journal.trim(keep=1, before=None, limit=100), {session_id(1): 3})
        record = await self.journal.session(session_id(1))
        assert record is not None
        self.assertEqual(record.first_seq, 3)

    async def test_a_pass_of_many_sessions_comes_to_its_end(self) -> None:
        for number in range(2, 40):
            record = a_record(number)
            await self.journal.create(record, beginning(record))
        calls = 1
        while await self.journal.trim(keep=100, before=None, limit=10) is not None:
            calls += 1
        self.assertEqual(calls, 4)
        # and the next one begins at the beginning
        self.assertEqual(await self.journal.trim(keep=1, before=None, limit=1), {session_id(1): 2})
        moved = await self.journal.trim(keep=1, before=None, limit=1000)
        assert moved is not None
        self.assertEqual(len(moved), 38)

    async def test_keys_count_too(self) -> None:
        for number in range(30):
            await self.journal.decide(session_id(1), waking, key=a_key(str(number)))
        self.later(25 * 3600)
        self.assertEqual(await self.journal.trim(keep=100, before=None, limit=20), {})
        self.assertEqual(self.query("SELECT count(*) FROM keys"), [(10,)])
        self.assertIsNone(await self.journal.trim(keep=100, before=None, limit=20))
        self.assertEqual(self.query("SELECT count(*) FROM keys"), [(0,)])

    async def test_a_step_of_the_wall_clock_forgets_no_key(self) -> None:
        """L5."""
        kept = a_key("once")
        await self.journal.decide(session_id(1), waking, key=kept)
        self.ahead = 2 * 365 * 86_400
        self.assertIsNone(await self.journal.trim(keep=100, before=None, limit=20))
        for ahead in (self.ahead, 0.0):
            self.ahead = ahead
            self.assertIsNotNone(await self.journal.answered(kept.member, kept.method, kept.key, kept.digest))
            self.assertTrue((await self.journal.decide(session_id(1), waking, key=kept)).repeated)

    async def test_the_log_stays_bounded(self) -> None:
        """S7. Removing is writing too."""
        self.fill(1, EVENTS)
        while await self.journal.trim(keep=1, before=None, limit=500) is not None:
            pass
        self.assertLess(self.size("-wal"), 16_000_000)

    def test_rows_that_are_removed_are_counted(self) -> None:
        """The log is written back after so many."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        self.addCleanup(connection.close)
        group = Group(connection)
        connection.execute("BEGIN IMMEDIATE")
        Trimmer().trim(group, 1, None, 100, 0, 0)
        connection.execute("ROLLBACK")
        self.assertEqual(group.removed, 1)
