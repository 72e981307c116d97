"""A child of the kill test: appends to the journal and decides as fast as it can, and says what was acknowledged.

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
from computerd.session.port import Change, Decided, Decision, Draft
from tests.session.journal_interface import a_key, a_record, beginning, closed, opened

SESSIONS = 3
WRITERS = 8


async def append(journal: Journal, writer: int) -> None:
    """Opens and closes terminals for ever."""
    session = a_record(writer % SESSIONS).id
    for number in count():
        terminal = writer * 1_000_000 + os.getpid() * 10_000_000 + number
        for draft in (opened(terminal, "x" * (number % 3000)), closed(terminal)):
            if writer % 2:
                events = await journal.append(session, [draft])
            else:
                name = f"{session} {os.getpid()} {writer} {number} {draft.type}"
                outcome = await journal.decide(session, deciding(draft), key=a_key(name))
                events = outcome.events
            for event in events:
                os.write(1, f"{session} {event.seq} {event.id}\n".encode())


def deciding(draft: Draft) -> Decision:
    """A decision: this happens."""
    return lambda record: Decided([draft], Change(title=f"{draft.type} after {record.last_seq}"))


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
