"""A real journal on a folder of its own, for the tests of this room."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import cast

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from computerd.journal.backlog import Reactor
from computerd.journal.journal import Journal
from computerd.session.aging import Aging
from tests.session.journal_interface import a_record, beginning

the_reactor = cast("Reactor", reactor)


class JournalCase(TestCase):
    """Has a folder, and journals on it that are stopped at the end."""

    timeout = 60

    def setUp(self) -> None:
        self.folder = self.mktemp()
        os.mkdir(self.folder, 0o700)
        self.path = os.path.join(self.folder, "journal.db")
        self.absolute = os.path.abspath(self.path)
        self.ahead = self.passed = 0.0

    def now(self) -> float:
        """The wall clock, which a test may set ahead."""
        return time.time() + self.ahead + self.passed

    def later(self, seconds: float) -> None:
        """Time passes, by both clocks."""
        self.passed += seconds

    def new_journal(self, path: str | None = None) -> Journal:
        """A journal that is not started."""
        journal = Journal(path or self.path, the_reactor, self.now, os.urandom)
        journal._aging = Aging(self.now, lambda: the_reactor.seconds() + self.passed)
        return journal

    async def started(self, path: str | None = None) -> Journal:
        """A journal that runs until it is stopped or the test ends."""
        journal = self.new_journal(path)
        self.addCleanup(journal.stop)
        await journal.start()
        return journal

    async def session(self, journal: Journal, number: int = 1) -> str:
        """A session in the journal."""
        record = a_record(number)
        await journal.create(record, beginning(record))
        return record.id

    def size(self, suffix: str = "") -> int:
        """Bytes of the file, or of one beside it."""
        return os.path.getsize(self.path + suffix)

    def read(self, name: str = "journal.db") -> bytes:
        """A file of the folder."""
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def overwrite(self, name: str, data: bytes) -> None:
        """Gives a file of the folder another content; it stays the same file."""
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data)

    def query(self, sql: str, path: str | None = None) -> list[tuple[object, ...]]:
        """What another process would read."""
        connection = sqlite3.connect(path or self.path, isolation_level=None)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()
