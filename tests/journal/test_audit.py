"""The audit trail: on the disk soon, in groups, and told when it is not what was written (G4, S4)."""

from __future__ import annotations

import os
import sqlite3
import time

from twisted.internet import reactor, task
from twisted.trial.unittest import SynchronousTestCase

from computerd.api.audit import Entry
from computerd.journal import audit, trail
from computerd.journal.audit import Line
from computerd.journal.database import connect
from computerd.journal.engine import Engine
from computerd.journal.refusal import DamagedError
from computerd.journal.thread import POLL_SECONDS
from computerd.journal.trail import Trail
from tests.journal.real import JournalCase
from tests.session.journal_interface import opened, session_id

WHOLE = Entry(1000.5, "terminals.open", "forbidden", "alice", "jti", "cs_1", "tm_1", 3)


class FileTests(JournalCase):
    """On a path, as `computerctl` uses it."""

    def append(self, *entries: Entry) -> None:
        """Writes them."""
        for entry in entries:
            audit.append(self.path, entry)

    def actions(self, **which: object) -> list[str]:
        """What is found."""
        return [line.entry.action for line in audit.entries(self.path, **which)]  # type: ignore[arg-type]

    def test_there_and_back(self) -> None:
        """G4."""
        self.assertEqual(audit.entries(self.path), [])
        self.assertEqual(os.listdir(self.folder), [])
        self.append(WHOLE, Entry(2.0, "daemon.started"))
        self.assertEqual(audit.entries(self.path), [Line(1, WHOLE, True), Line(2, Entry(2.0, "daemon.started"), True)])

    def test_which(self) -> None:
        self.append(
            Entry(1.0, "a", member="alice"),
            Entry(2.0, "b", member="bob"),
            Entry(3.0, "c", member="alice", session_id="s"),
        )
        self.assertEqual(self.actions(), ["a", "b", "c"])
        self.assertEqual(self.actions(limit=2), ["b", "c"])
        self.assertEqual(self.actions(since=2.0), ["b", "c"])
        self.assertEqual(self.actions(until=2.0), ["a"])
        self.assertEqual(self.actions(member="alice", limit=1), ["c"])
        self.assertEqual(self.actions(session_id="s"), ["c"])
        self.assertEqual(self.actions(action="b"), ["b"])

    def test_any_text(self) -> None:
        """Whoever prints it escapes it."""
        subject = "\x1b[2J\r\n\x00'; DROP TABLE audit; -- \u2028 \x9b"
        self.append(Entry(1.0, "a", subject=subject), Entry(1.0, "a", subject="name \udcff"))
        self.assertEqual([line.entry.subject for line in audit.entries(self.path)], [subject, "name \\udcff"])
        self.assertTrue(all(line.sound for line in audit.entries(self.path)))

    def test_a_row_that_was_changed_is_told(self) -> None:
        """S4."""
        self.append(*(Entry(1.0, f"action {number}", member="alice") for number in range(6)))
        connection = sqlite3.connect(self.path, isolation_level=None)
        for statement in (
            "UPDATE audit SET member = 'mallory' WHERE number = 2",
            "UPDATE audit SET number = 40 WHERE number = 4",
            "UPDATE audit SET action = CAST(x'ff' AS TEXT), count = 'many' WHERE number = 5",
            "UPDATE audit SET at = 'x', checksum = 0 WHERE number = 6",
        ):
            connection.execute(statement)
        connection.close()
        self.append(Entry(1.0, "new"))
        found = {line.number: line.sound for line in audit.entries(self.path)}
        self.assertEqual(found, {1: True, 2: False, 3: True, 5: False, 6: False, 40: False, 41: True})

    def test_a_damaged_file(self) -> None:
        with open(self.path, "wb") as file:
            file.write(b"garbage " * 1000)
        os.chmod(self.path, 0o600)
        with self.assertRaises(DamagedError):
            audit.entries(self.path)


class TrailTests(SynchronousTestCase):
    """What waits."""

    def setUp(self) -> None:
        self.reports: list[str] = []
        self.trail = Trail(lambda: 9.0, self.reports.append)
        self.path = self.mktemp()
        os.mkdir(self.path, 0o700)
        self.connection = connect(os.path.join(self.path, "journal.db"), durable=False)
        self.addCleanup(self.connection.close)
        self.statements: list[str] = []
        self.connection.set_trace_callback(self.statements.append)

    def rows(self) -> list[tuple[str, int]]:
        """What was written."""
        return self.connection.execute("SELECT action, count FROM audit ORDER BY number").fetchall()

    def test_one_commit_with_an_fsync(self) -> None:
        for number in range(3):
            self.trail.note(Entry(1.0, str(number)))
        self.trail.write(self.connection)
        self.assertEqual(self.statements[0], "PRAGMA synchronous = FULL")
        self.assertEqual(self.statements[-1], "PRAGMA synchronous = NORMAL")
        self.assertEqual(self.statements.count("COMMIT"), 1)
        self.assertEqual(self.rows(), [("0", 1), ("1", 1), ("2", 1)])
        del self.statements[:]
        self.trail.write(self.connection)
        self.assertEqual(self.statements, [])

    def test_what_the_disk_does_not_take_waits(self) -> None:
        self.trail.note(Entry(1.0, "a"))
        self.connection.execute("PRAGMA query_only = ON")
        with self.assertRaises(sqlite3.Error):
            self.trail.write(self.connection)
        self.assertEqual(self.statements[-1], "PRAGMA synchronous = NORMAL")
        self.connection.execute("PRAGMA query_only = OFF")
        self.trail.note(Entry(2.0, "b"))
        self.trail.write(self.connection)
        self.assertEqual(self.rows(), [("a", 1), ("b", 1)])

    def test_what_no_table_can_hold(self) -> None:
        """It costs its group, and not the journal."""
        self.trail.note(Entry(1.0, "a", count=2**70))
        self.trail.note(Entry(1.0, "b"))
        self.trail.write(self.connection)
        self.assertEqual((len(self.reports), self.rows()), (1, []))
        self.trail.note(Entry(1.0, "c"))
        self.trail.write(self.connection)
        self.assertEqual(self.rows(), [("c", 1), ("audit.dropped", 2)])

    def test_a_long_subject(self) -> None:
        self.trail.note(Entry(1.0, "a", subject="x" * 100_000))
        self.trail.write(self.connection)
        self.assertEqual(self.connection.execute("SELECT length(subject) FROM audit").fetchall(), [(200,)])

    def test_a_bounded_queue(self) -> None:
        """What does not fit is counted, said once, and written down."""
        self.patch(trail, "MAX_WAITING", 3)
        for number in range(5):
            self.trail.note(Entry(1.0, str(number)))
        self.assertEqual(len(self.reports), 1)
        self.trail.write(self.connection)
        self.assertEqual(self.rows(), [("0", 1), ("1", 1), ("2", 1), ("audit.dropped", 2)])
        self.trail.note(Entry(1.0, "on"))
        self.trail.write(self.connection)
        self.assertEqual(self.rows()[4:], [("on", 1)])
        for number in range(4):
            self.trail.note(Entry(1.0, str(number)))
        self.assertEqual(len(self.reports), 2)
        self.trail.write(self.connection)
        self.assertEqual(self.rows()[-1], ("audit.dropped", 1))


class JournalTests(JournalCase):
    """In the daemon."""

    async def until(self, rows: int) -> float:
        """Waits for so many rows, and returns how long that took."""
        begun = time.monotonic()
        while self.query("SELECT count(*) FROM audit") != [(rows,)]:
            await task.deferLater(reactor, 0.005)
        return time.monotonic() - begun

    async def test_soon_when_nothing_else_happens(self) -> None:
        """G4."""
        self.assertLessEqual(2 * POLL_SECONDS, 1)  # and below there is room for a busy machine
        journal = await self.started()
        journal.note(WHOLE)
        self.assertLess(await self.until(1), 3.0)
        self.assertEqual([line.entry for line in audit.entries(self.path)], [WHOLE])

    async def test_soon_when_much_happens(self) -> None:
        journal = await self.started()
        await self.session(journal)
        journal.note(WHOLE)
        begun = time.monotonic()
        while self.query("SELECT count(*) FROM audit") == [(0,)]:
            await journal.append(session_id(1), [opened()])
            self.assertLess(time.monotonic() - begun, 3.0)

    async def test_noted_before_the_start_and_at_the_end(self) -> None:
        journal = self.new_journal()
        journal.note(Entry(1.0, "daemon.started"))
        self.addCleanup(journal.stop)
        await journal.start()
        journal.note(Entry(2.0, "daemon.stopped"))
        await journal.stop()
        self.assertEqual([line.entry.action for line in audit.entries(self.path)], ["daemon.started", "daemon.stopped"])

    async def test_from_both_sides(self) -> None:
        journal = await self.started()
        for number in range(3):
            journal.note(Entry(1.0, "sessions.create"))
            await self.until(2 * number + 1)
            audit.append(self.path, Entry(1.0, "token.revoked"))
        self.assertEqual([line.number for line in audit.entries(self.path)], [1, 2, 3, 4, 5, 6])

    async def test_a_busy_disk_loses_none(self) -> None:
        reports: list[str] = []
        self.patch(Engine, "_report", lambda engine, text: reports.append(text))
        journal = await self.started()
        other = sqlite3.connect(self.path, isolation_level=None)
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        journal.note(WHOLE)
        await task.deferLater(reactor, 2 * POLL_SECONDS)
        other.execute("ROLLBACK")
        await self.until(1)
        self.assertEqual(reports, [])

    async def test_a_wall_clock_that_is_set_forward_takes_none_away(self) -> None:
        """L5."""
        journal = await self.started()
        journal.note(Entry(self.now(), "token.revoked"))
        await self.until(1)
        self.ahead = 10 * 365 * 86400.0
        self.assertIsNone(await journal.trim(keep=1, before=None, limit=10))
        self.assertEqual([line.entry.action for line in audit.entries(self.path)], ["token.revoked"])

    async def test_old_rows_go(self) -> None:
        journal = await self.started()
        journal.audit_keep_days = 2.0
        day = 86400
        for days in (5, 3, 1, 0):
            journal.note(Entry(time.time() - days * day, f"{days} days"))
        await self.until(4)
        self.assertEqual(await journal.trim(keep=1, before=None, limit=1), {})
        self.assertIsNone(await journal.trim(keep=1, before=None, limit=10))
        self.assertEqual([line.entry.action for line in audit.entries(self.path)], ["1 days", "0 days"])
