"""A child of the kill test: appends to the journal as fast as it can, and says what was acknowledged.

Each line of its output is `session seq event`, written after the append has fired.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import count
from typing import cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore

from computerd.journal.backlog import Reactor
from computerd.journal.journal import Journal
from tests.session.journal_interface import a_record, beginning, closed, opened

SESSIONS = 3
WRITERS = 8


async def append(journal: Journal, writer: int) -> None:
    """Opens and closes terminals for ever."""
    session = a_record(writer % SESSIONS).id
    for number in count():
        terminal = writer * 1_000_000 + os.getpid() * 10_000_000 + number
        for draft in (opened(terminal, "x" * (number % 3000)), closed(terminal)):
            for event in await journal.append(session, [draft]):
                os.write(1, f"{session} {event.seq} {event.id}\n".encode())


async def main() -> None:
    """Makes the sessions, then lets the writers go."""
    journal = Journal(sys.argv[1], cast("Reactor", reactor), time.time, os.urandom)
    await journal.start()
    for number in range(SESSIONS):
        record = a_record(number)
        if await journal.session(record.id) is None:
            await journal.create(record, beginning(record))
    for writer in range(WRITERS):
        Deferred.fromCoroutine(append(journal, writer)).addErrback(lambda failure: failure.printTraceback())


if __name__ == "__main__":
    core = cast("IReactorCore", reactor)
    core.callWhenRunning(lambda: Deferred.fromCoroutine(main()).addErrback(lambda failure: failure.printTraceback()))
    core.run()
