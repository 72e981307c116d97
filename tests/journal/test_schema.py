"""From the schema of one release to that of the next (S8)."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from hashlib import sha256

from computerd.api.credentials import Revocation
from computerd.contract.objects import Event
from computerd.journal import credentials, records
from computerd.journal.database import connect
from computerd.journal.schema import MIGRATIONS, migrate
from computerd.session.port import Record
from tests.journal.real import JournalCase
from tests.journal.test_credentials import ROOT, a_credential
from tests.session.journal_interface import a_key, all_events, opened, session_id, suspending, waking

RELEASED = {1: "537fa67b"}
"""The beginning of the digest of each migration that was released: such a one is never edited."""


class SchemaTests(JournalCase):
    """A file of an earlier release."""

    async def old(self) -> tuple[Record | None, list[Event]]:
        """Makes a file of schema 1 with a session, a credential and a revocation, as its release left it. Returns the session and its events."""
        journal = await self.started()
        await self.session(journal)
        await journal.append(session_id(1), [opened(1, "ls"), opened(2)])
        record, events = await journal.session(session_id(1)), list(await all_events(journal))
        self.epoch = journal.log_epoch
        await journal.stop()
        credentials.issue(self.path, a_credential("a"))
        credentials.revoke(self.path, token_id="b", at=5.0)
        # the rows go into tables that the statements of that release have made, in a file that stays the same file
        tables = ("meta", "events", "open_terminals", "tokens", "revocations")
        rows = {name: self.query(f"SELECT * FROM {name}") for name in tables}
        columns = [str(name) for _, name, *_ in self.query("PRAGMA table_info(sessions)")][:13]
        rows["sessions"] = self.query(f"SELECT {', '.join(columns)} FROM sessions")
        os.truncate(self.path, 0)
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        for name, found in rows.items():
            for row in found:
                connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        connection.close()
        self.assertEqual(self.query("PRAGMA user_version"), [(1,)])
        return record, events

    async def check(self, record: Record | None, events: list[Event]) -> None:
        """Starts, and finds all of it; what came with the new schema works."""
        journal = await self.started()
        self.assertEqual(self.query("PRAGMA user_version"), [(2,)])
        self.assertEqual(self.query("PRAGMA quick_check"), [("ok",)])
        self.assertEqual(journal.log_epoch, self.epoch)
        found = list(await all_events(journal))
        self.assertEqual(found[:4], events)
        self.assertEqual([event.type for event in found[4:]], ["terminal.closed"] * 2)
        now = await journal.session(session_id(1))
        assert now is not None and record is not None
        self.assertEqual((now.title, now.metadata, now.first_seq, now.last_seq), (record.title, record.metadata, 1, 6))
        self.assertTrue(journal.revocations.revoked("b", "bob", 1e10))
        self.assertEqual([item.token_id for item in credentials.issued(self.path)], ["a"])
        self.assertEqual(list(await journal.awake(limit=9, after="")), [session_id(1)])
        await journal.decide(session_id(1), suspending, key=a_key())
        self.assertTrue((await journal.decide(session_id(1), waking, key=a_key())).repeated)
        self.assertEqual(await journal.trim(keep=2, before=None, limit=100), {session_id(1): 6})
        await journal.stop()

    async def test_all_of_it_is_there(self) -> None:
        """S8."""
        await self.check(*await self.old())

    async def test_killed_at_each_statement(self) -> None:
        """S8. With SIGKILL, between any two statements of the migration."""
        record, events = await self.old()
        before = {name: self.read(name) for name in os.listdir(self.folder)}
        statements = len(MIGRATIONS[1]) + 2
        for number in range(2, statements + 3):
            for name in os.listdir(self.folder):
                if name not in before:
                    os.unlink(os.path.join(self.folder, name))
            for name, data in before.items():
                self.overwrite(name, data)
            script = f"""
import os, signal, sqlite3, sys
from computerd.journal.schema import migrate
seen = []
def die(statement):
    seen.append(statement)
    if len(seen) == {number}:
        os.kill(os.getpid(), signal.SIGKILL)
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.set_trace_callback(die)
migrate(connection)
raise SystemExit(len(seen))
"""
            ended = subprocess.run(  # noqa: ASYNC221  # the reactor has nothing to do meanwhile
                [sys.executable, "-c", script, self.absolute],
                env={"PYTHONPATH": ROOT},
                cwd=ROOT,
                capture_output=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(ended.returncode, -signal.SIGKILL, (number, ended.stderr))
            self.assertIn(self.query("PRAGMA user_version"), ([(1,)], [(2,)]))
            if number % 3 == 0:
                await self.check(record, events)

    def test_what_was_released_is_not_edited(self) -> None:
        for version, digest in RELEASED.items():
            text = "\n".join(MIGRATIONS[version - 1])
            self.assertEqual(sha256(text.encode()).hexdigest()[:8], digest, f"migration {version}")

    def test_two_at_once(self) -> None:
        """The second one finds it done."""
        first, second = (sqlite3.connect(self.path, isolation_level=None) for _ in range(2))
        for connection in (first, second):
            migrate(connection)
            connection.close()

    def test_the_tables_of_keys_and_audit_are_bounded_by_an_index(self) -> None:
        """What `trim` removes is found without looking at the rest."""
        connection = connect(self.path, durable=False)
        self.addCleanup(connection.close)
        for query in (
            "SELECT member FROM keys WHERE expires_at <= 5 ORDER BY expires_at LIMIT 5",
            "SELECT number FROM audit WHERE at < 5 ORDER BY at LIMIT 5",
            records.AWAKE,
        ):
            values = ("a", 5)[: query.count("?")]
            (plan,) = connection.execute("EXPLAIN QUERY PLAN " + query, values).fetchall()
            self.assertIn("USING", plan[3])
            self.assertIn("INDEX", plan[3])

    def test_revocations_are_read_as_before(self) -> None:
        credentials.revoke(self.path, member="alice", at=5.0)
        connection = connect(self.path, durable=False)
        self.addCleanup(connection.close)
        self.assertEqual(credentials.revocations(connection), [Revocation(None, "alice", 5.0)])
