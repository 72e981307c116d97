"""Which files are refused."""

from __future__ import annotations

import os
import sqlite3
import stat

from twisted.trial.unittest import SkipTest

from computerd.journal.database import connect
from computerd.journal.refusal import DamagedError, JournalError, NewerSchemaError, UnsafeFileError, UnusableError
from computerd.journal.schema import MIGRATIONS
from tests.journal.real import JournalCase


class DatabaseTests(JournalCase):
    """Opening."""

    def refused(self, error: type[Exception], path: str | None = None) -> str:
        """The text of the refusal, which names the file."""
        with self.assertRaises(error) as caught:
            connect(path or self.path, durable=False)
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        return text

    def made(self) -> None:
        """A journal that nobody uses."""
        connect(self.path, durable=True).close()

    def test_a_new_file_is_for_its_owner_only(self) -> None:
        before = os.umask(0)
        try:
            connection = connect(self.path, durable=False)
        finally:
            os.umask(before)
        connection.execute("INSERT INTO meta VALUES ('a', 'b')")
        self.addCleanup(connection.close)
        for name in os.listdir(self.folder):
            mode = os.stat(os.path.join(self.folder, name)).st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o600, name)
        self.assertIn("journal.db-wal", os.listdir(self.folder))

    def test_settings(self) -> None:
        for durable, synchronous in ((False, 1), (True, 2)):
            connection = connect(self.path, durable=durable)
            self.addCleanup(connection.close)
            self.assertEqual(connection.execute("PRAGMA journal_mode").fetchone(), ("wal",))
            self.assertEqual(connection.execute("PRAGMA synchronous").fetchone(), (synchronous,))

    def test_a_readable_file_is_closed_to_others(self) -> None:
        self.made()
        os.chmod(self.path, 0o644)
        connect(self.path, durable=False).close()
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)

    def test_others_may_write(self) -> None:
        self.made()
        os.chmod(self.path, 0o620)
        self.assertIn("0620", self.refused(UnsafeFileError))
        os.chmod(self.path, 0o600)
        os.chmod(self.folder, 0o777)
        self.assertIn(self.folder, self.refused(UnsafeFileError))

    def test_a_link(self) -> None:
        self.made()
        link = os.path.join(self.folder, "link.db")
        os.symlink(os.path.abspath(self.path), link)
        self.assertIn("link", self.refused(UnsafeFileError, link))
        os.unlink(link)
        os.link(self.path, link)
        self.assertIn("link", self.refused(UnsafeFileError, link))

    def test_a_dangling_link(self) -> None:
        os.symlink(os.path.abspath(os.path.join(self.folder, "elsewhere")), self.path)
        self.refused(UnsafeFileError)
        self.assertEqual(os.listdir(self.folder), ["journal.db"])

    def test_a_folder_through_a_link(self) -> None:
        link = self.mktemp()
        os.symlink(os.path.abspath(self.folder), link)
        self.assertIn(link, self.refused(UnsafeFileError, os.path.join(link, "journal.db")))

    def test_no_file_at_all(self) -> None:
        os.mkdir(self.path)
        self.refused(UnsafeFileError)
        os.rmdir(self.path)
        os.mkfifo(self.path, 0o600)
        self.refused(UnsafeFileError)

    def test_no_folder(self) -> None:
        self.refused(UnusableError, os.path.join(self.folder, "no", "journal.db"))

    def test_another_owner(self) -> None:
        if os.geteuid() != 0:
            raise SkipTest("only root can give a file away")
        self.made()
        os.chown(self.path, 65534, 65534)
        self.assertIn("65534", self.refused(UnsafeFileError))
        os.chown(self.path, 0, 0)
        os.chown(self.folder, 65534, 65534)
        self.assertIn("65534", self.refused(UnsafeFileError))

    def test_a_newer_schema(self) -> None:
        self.made()
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA user_version = 999")
        connection.close()
        self.assertIn("999", self.refused(NewerSchemaError))
        self.assertTrue(issubclass(NewerSchemaError, JournalError))

    def test_not_a_database(self) -> None:
        with open(self.path, "wb") as file:
            file.write(b"garbage " * 1000)
        os.chmod(self.path, 0o600)
        self.refused(DamagedError)

    def test_a_migration_that_was_cut_off_is_done_again(self) -> None:
        # what a kill leaves behind is what SQLite's own recovery makes of a transaction without an end
        connection = sqlite3.connect(self.path, isolation_level=None)
        os.chmod(self.path, 0o600)
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("BEGIN IMMEDIATE")
        for statement in MIGRATIONS[0][:-2]:
            connection.execute(statement)
        connection.close()
        connect(self.path, durable=False).close()
        self.assertEqual(self.query("PRAGMA user_version"), [(len(MIGRATIONS),)])
