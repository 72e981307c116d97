"""SIGKILL for the daemon, again and again: what is written is whole, and what lives on wanted to (L1, T13 of the threat model)."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter

from websockets.exceptions import ConnectionClosed

from tests.endtoend.client import Client, RefusedError
from tests.endtoend.computer import Computer, alive, eventually, sleeping
from tests.endtoend.test_life import LifeCase

DEATHS = int(os.environ.get("COMPUTERD_DEATHS", "10"))


class DeathTests(LifeCase):
    """A daemon that is killed in the midst of its work."""

    timeout = 180

    def test_each_terminal_is_opened_and_closed_once(self) -> None:
        """T13: ten deaths amid opens and closes. What a death left open, the next start closes; numbers have no gap."""
        chance = random.Random(13)
        computer = self.computer()
        session = computer.session()
        told: set[str] = set()
        for _ in range(DEATHS):
            client = computer.client()
            told |= self.work(client, session, chance)
            computer.stop(signal.SIGKILL)
            client.socket.close()
            computer.start()
        client = computer.client()
        self.assertEqual(client.run(session, "exit 5")[1], 5)
        events = self.all_events(computer, session)
        self.assertEqual([event["seq"] for event in events], list(range(1, len(events) + 1)))
        opened, closed = (
            Counter(dict(e["data"])["terminalId"] for e in events if e["type"] == kind)  # type: ignore[call-overload]
            for kind in ("terminal.opened", "terminal.closed")
        )
        self.assertEqual(opened, closed)
        self.assertEqual(set(opened.values()), {1})
        self.assertLessEqual(told, set(opened))
        self.assertGreater(len(opened), 2 * DEATHS)

    def work(self, client: Client, session: str, chance: random.Random) -> set[str]:
        """Opens and closes; returns the ids that a client was told. Some requests are still on their way at the end."""
        told = set()
        for _ in range(chance.randint(3, 6)):
            shell = client.open(
                session, chance.choice(["true", "exec sleep 100", "echo hi; exec cat"]), tty=chance.random() < 0.5
            )
            told.add(shell.id)
            if chance.random() < 0.7:
                client.send("terminals.close", terminalId=shell.id)
        for _ in range(chance.randint(0, 3)):
            client.send("terminals.open", sessionId=session, cols=80, rows=24, command="exec sleep 100")
        return told

    def all_events(self, computer: Computer, session: str) -> list[dict[str, object]]:
        """The whole journal of a session."""
        events: list[dict[str, object]] = []
        while page := computer.events(session, query=f"&after={len(events)}"):
            events += page
        return events

    def test_only_what_asked_for_it_outlives_the_daemon(self) -> None:
        """L1, without systemd and cgroups: programs die of the hang-up, as at a modem's; `nohup` and `setsid` live on, as after ssh.

        With a delegated cgroup the next start kills those too: `tests.host.test_cgroup`. Under the unit systemd does, at once.
        """
        computer = self.computer()
        client = computer.client()
        session = computer.session()
        shell = client.open(session, "bash --norc --noprofile -i")
        shell.type(b"PS1=; sleep 1401 & nohup sleep 1402 >/dev/null 2>&1 & setsid sleep 1403 &\n")
        eventually(lambda: all(map(sleeping, (1401, 1402, 1403))), "the jobs run")
        jobs = [sleeping(seconds) for seconds in (1401, 1402, 1403)]
        shell.type(b"echo s''elf=$$=; sleep 1404\n")
        shell.expect(b"self=")
        own = int(shell.expect(b"=")[:-1])
        piped = client.open(session, "echo p=$$=; exec cat", tty=False)
        piped.expect(b"p=")
        reader = int(piped.expect(b"=")[:-1])
        self.assertTrue(all(map(alive, [*jobs, own, reader])))
        for pid in jobs[1:]:
            self.addCleanup(os.kill, pid, signal.SIGKILL)
        computer.stop(signal.SIGKILL)
        eventually(lambda: not any(map(alive, (own, jobs[0], reader))), "all that heard of it are gone", 4)
        self.assertEqual([alive(pid) for pid in jobs[1:]], [True, True])
        computer.start()
        with computer.client() as again:
            with self.assertRaises(RefusedError) as caught:
                again.ask("terminals.close", terminalId=shell.id)
            self.assertEqual(caught.exception.slug, "terminal_not_found")
            self.assertEqual(again.run(session, "exit 3")[1], 3)
        self.assertRaises(ConnectionClosed, client.until, lambda: False)
