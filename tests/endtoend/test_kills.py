"""`kill -9` for the daemon under load, again and again (S1, S2, L1, L8 of the threat model): nothing that a client was told is lost.

`COMPUTERD_KILLS` says how often, for each class. With `COMPUTERD_UNIT=1` also under the shipped unit, in a systemd of its own.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from typing import ClassVar

from tests.endtoend.computer import Account, Computer, eventually
from tests.endtoend.delegated import Delegated
from tests.endtoend.load import STAYS, Ledger, catch_up, crew
from tests.endtoend.test_life import LifeCase
from tests.endtoend.unit import UnderSystemd

KILLS = int(os.environ.get("COMPUTERD_KILLS", "5"))
READY_SECONDS = 2.0
"""From the start to the first answer, at the 99th percentile."""
ORPHAN_SECONDS = 2.0
MEASURED = 100
"""Kills from which on a 99th percentile says something."""


def percentile(values: list[float], percent: int) -> float:
    """Nearest rank."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def commands(account: Account) -> list[str]:
    """What the user's processes are."""
    found = []
    for pid in account.processes():
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                found.append(file.read().replace("\0", " ").strip())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


class KillCase(LifeCase):
    """What the three have in common."""

    timeout = 3600
    place: ClassVar[str]
    next_start_clears: ClassVar[bool] = False

    def kill(self, computer: Computer) -> None:
        """The rounds, and the account of them."""
        assert self.agent is not None
        ledger = Ledger.of(computer, 3)
        chance = random.Random(200)
        ready, back, cleared = [], [], []
        processes = 0
        for _ in range(KILLS):
            actors = crew(computer, ledger, chance)
            time.sleep(chance.uniform(0.02, 0.4))  # where it is then is what the test is about
            processes += len(self.agent.processes())
            computer.stop(signal.SIGKILL)
            killed = time.monotonic()
            if not self.next_start_clears:
                cleared.append(self.clear(self.agent, killed))
            for actor in actors:
                actor.join(20)
                self.assertFalse(actor.is_alive(), actor)
            computer.start()
            ready.append(computer.ready)
            back.append(time.monotonic() - killed)
            if self.next_start_clears:
                # what the start does is to be done when it answers
                cleared.append(self.clear(self.agent, time.monotonic()))
        catch_up(computer, ledger)
        counts = ledger.check(computer)
        counts["processes"] = processes
        counts["orphans"] = sum(seconds > ORPHAN_SECONDS for seconds in cleared)
        self.report(counts, {"processes gone": cleared, "first answer after the start": ready, "after the kill": back})
        self.assertEqual(counts["orphans"], 0, cleared)
        if KILLS >= MEASURED:
            self.assertLessEqual(percentile(ready, 99), READY_SECONDS)
        self.assertGreater(counts["acknowledged"], 10 * KILLS)
        self.assertGreater(processes, KILLS)
        self.assertEqual(self.quick_check(computer), "ok")

    def report(self, counts: Counter[str], seconds: dict[str, list[float]]) -> None:
        """The figures, for the record: when it comes to this, nothing is lost, missing or there twice."""
        figures = "; ".join(
            f"{name}: p50 {percentile(values, 50):.2f} s, p99 {percentile(values, 99):.2f} s, max {max(values):.2f} s"
            for name, values in seconds.items()
        )
        print(f"\n{self.place}: {KILLS} kills; 0 lost, 0 gaps, 0 twice; {dict(counts)}; {figures}")

    def clear(self, agent: Account, since: float) -> float:
        """Waits until no process is left that was not promised to stay; how many seconds that was after `since`."""
        eventually(lambda: not self.orphans(agent), "no process is left", 10, lambda: commands(agent))
        return time.monotonic() - since

    def quick_check(self, computer: Computer) -> str:
        """What SQLite says of the journal."""
        with closing(sqlite3.connect(computer.folder / "state" / "journal.db")) as journal:
            (finding,) = journal.execute("PRAGMA quick_check").fetchone()
        return str(finding)

    def orphans(self, agent: Account) -> list[str]:
        """Processes that must go."""
        return commands(agent)

    def make(self, computer: Computer) -> Computer:
        """One that is removed with the test."""
        self.addCleanup(computer.remove)
        computer.start()
        return computer

    def setUp(self) -> None:
        super().setUp()
        if self.agent is None:
            self.skipTest("needs root: its programs run as a Unix user that has no others")


class PlainTests(KillCase):
    """Without systemd and cgroups: what did not ask to stay dies of the hang-up, as at a modem's."""

    place = "no cgroup"

    def test_kills(self) -> None:
        """S1, S2, L1: nothing acknowledged is lost, nothing happens twice, numbers have no gap."""
        self.kill(self.make(Computer(agent=self.agent)))

    def orphans(self, agent: Account) -> list[str]:
        """See `KillCase`. The rest is ended here, so that it does not add up."""
        left = [command for command in commands(agent) if str(STAYS) not in command]
        if not left:
            for pid in agent.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        return left


class DelegatedTests(KillCase):
    """In a cgroup of its own: the next start ends everything, whatever it asked for."""

    place = "delegated cgroup"
    next_start_clears = True

    def test_kills(self) -> None:
        """S1, S2, L1, L9."""
        self.kill(self.make(Delegated(agent=self.agent)))


class UnitTests(KillCase):
    """Under the shipped unit: systemd ends everything at once."""

    place = "unit of systemd"

    def test_kills(self) -> None:
        """S1, S2, L1, L8."""
        if not os.environ.get("COMPUTERD_UNIT"):
            self.skipTest("boots a second systemd: only with COMPUTERD_UNIT=1")
        self.kill(self.make(UnderSystemd(agent=self.agent)))
