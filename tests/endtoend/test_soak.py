"""A thousand terminals opened and closed in every way, and nothing is left of them."""

from __future__ import annotations

import os
import random

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, Shell
from tests.endtoend.computer import eventually

ROUNDS = int(os.environ.get("COMPUTERD_SOAK", "1000"))


class SoakTests(ComputerCase):
    """Opens and closes, mixed."""

    own = True
    timeout = 600

    def test_a_thousand_opens_and_closes(self) -> None:
        """BR-061, BR-062, T14: section 3.2: descriptors, pseudo-terminals, processes and zombies end exactly as before."""
        chance = random.Random(20)
        client = self.connect()
        client.run(self.session, "true")
        sessions = [self.computer.session() for _ in range(4)]
        eventually(lambda: self.computer.footprint()[1:] == self.computer.at_rest, "at rest")
        client.socket.close()
        eventually(lambda: self._at_rest(), "no connection is left")
        before = self.computer.footprint()
        memory = self.computer.memory()
        done = 0
        while done < ROUNDS:
            client = self.computer.client()
            for _ in range(10):
                session = chance.choice(sessions)
                batch = [self._one(client, session, chance) for _ in range(chance.randint(1, 3))]
                for shell in batch:
                    if shell is not None:
                        shell.wait()
                done += len(batch)
            chance.choice([client.socket.close, client.socket.socket.close])()
        eventually(lambda: self.computer.footprint() == before, "everything is as before", 15, self._what_is_there)
        self.assertLess(self.computer.memory() - memory, 16 << 20)
        self.assertNotIn("Traceback", self.computer.log)

    def _at_rest(self) -> bool:
        first = self.computer.footprint()
        return first == self.computer.footprint() and first[1:] == self.computer.at_rest

    def _what_is_there(self) -> str:
        folder = f"/proc/{self.computer.pid}/fd"
        return str(sorted(os.readlink(f"{folder}/{name}") for name in os.listdir(folder)))

    def _one(self, client: Client, session: str, chance: random.Random) -> Shell | None:
        """One terminal, of a sort drawn by chance."""
        tty = chance.random() < 0.6
        kind = chance.randrange(6)
        if kind == 0:
            return client.open(session, "exit 3", tty=tty)
        if kind == 1:
            return client.open(session, "seq 1 5000", tty=tty)
        if kind == 2:
            shell = client.open(session, "cat", tty=tty)
            shell.type(b"hello\n" * 50)
            shell.eof()
            return shell
        shell = client.open(session, "sleep 100 & wait", tty=tty)
        if kind == 3 and tty:
            shell.resize(chance.randint(1, 300), 40)
        if kind == 4:
            shell.type(b"unread " * 1000)
        shell.close()
        return shell
