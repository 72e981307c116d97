"""Acknowledged means stored (S1), numbers have no gap (S2), every terminal that was opened is closed (T13): with SIGKILL at any moment."""

from __future__ import annotations

import random
import sys

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from tests.journal.appender import SESSIONS
from tests.journal.real import JournalCase
from tests.journal.test_credentials import ROOT
from tests.session.journal_interface import all_events, session_id

ROUNDS = 30


class Appender(ProcessProtocol):
    """Kills the child once it has acknowledged so many events. Twisted's own methods keep their names."""

    def __init__(self, enough: int) -> None:
        self.enough = enough
        self.output = b""
        self.errors = b""
        self.ended: Deferred[None] = Deferred()

    def outReceived(self, data: bytes) -> None:
        self.output += data
        if self.output.count(b"\n") >= self.enough and self.transport is not None and self.transport.pid:
            self.transport.signalProcess("KILL")
            self.enough = sys.maxsize

    def errReceived(self, data: bytes) -> None:
        self.errors += data

    def processEnded(self, reason: Failure) -> None:
        self.ended.callback(None)

    def acknowledged(self) -> list[tuple[str, int, str]]:
        """What it has said, without a line that was cut off."""
        lines = [line.split() for line in self.output.decode().split("\n")[:-1]]
        return [(session, int(seq), event) for session, seq, event in lines]


class KillTests(JournalCase):
    """`kill -9`."""

    timeout = 180

    async def test_kill(self) -> None:
        """S1, S2, T13."""
        epochs = set()
        acknowledged: list[tuple[str, int, str]] = []
        for number in range(ROUNDS):
            child = Appender(random.Random(number).randint(1, 400))
            reactor.spawnProcess(
                child,
                sys.executable,
                [sys.executable, "-m", "tests.journal.appender", self.absolute],
                env={"PYTHONPATH": ROOT},
                path=ROOT,
            )
            await child.ended
            self.assertNotIn(b"Traceback", child.errors)
            self.assertNotEqual(child.acknowledged(), [])
            acknowledged += child.acknowledged()
            if number % 5 == 4:
                epochs.add(await self.look(acknowledged))
        self.assertEqual(len(epochs), 1)

    async def look(self, acknowledged: list[tuple[str, int, str]]) -> str:
        """Opens what is left, checks it, and returns its epoch."""
        self.assertEqual(self.query("PRAGMA quick_check"), [("ok",)])
        # an answer was kept with each decision, and says how the session was after it
        wrong = """
            SELECT answer FROM keys WHERE NOT EXISTS (
                SELECT 1 FROM events WHERE session_id = substr(key, 1, 19) AND seq = cast(substr(answer, 6) AS INTEGER)
                    AND type = substr(key, -length(type))
            )
        """
        self.assertEqual(self.query(wrong), [])
        self.assertNotEqual(self.query("SELECT count(*) FROM keys"), [(0,)])
        journal = await self.started()
        stored: dict[tuple[str, int], str] = {}
        for number in range(SESSIONS):
            events = await all_events(journal, number)
            self.assertEqual([event.seq for event in events], list(range(1, len(events) + 1)))
            stored.update({(session_id(number), event.seq): event.id for event in events})
            ends = [event.data["terminalId"] for event in events if event.type == "terminal.closed"]
            beginnings = [event.data["terminalId"] for event in events if event.type == "terminal.opened"]
            self.assertEqual(len(ends), len(set(ends)))
            self.assertEqual(sorted(ends), sorted(beginnings))
        lost = [entry for entry in acknowledged if stored.get(entry[:2]) != entry[2]]
        self.assertEqual(lost, [])
        await journal.stop()
        return journal.log_epoch
