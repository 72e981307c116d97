"""Many at once: opens for the last slot, ends in front of a slow reader, a reader that is stopped (T5, T9, T12 of the threat model)."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, RefusedError, Shell
from tests.endtoend.computer import eventually

NUMBERS = b"".join(b"%d\r\n" % n for n in range(1, 60_001))


class SlotTests(ComputerCase):
    """T5: eight terminals of a session, whoever asks."""

    def test_fifty_opens_at_once_over_ten_connections(self) -> None:
        """T5: eight are alive at any time, half of them killed meanwhile; a slot whose terminal did not start is free again."""
        clients = [self.connect() for _ in range(10)]
        shells: list[Shell] = []
        for _ in range(3):
            got = self.opened(clients)
            shells += got
            self.assertEqual(len(shells), 8)
            for shell in shells[::2]:
                self.assertEqual(shell.client.ask("terminals.close", terminalId=shell.id), {})
            for shell in shells[::2]:
                shell.wait()
            shells = shells[1::2]

    def opened(self, clients: list[Client]) -> list[Shell]:
        """Asks five times on each at once; those that were opened. Among the requests are some that can't be."""
        command = "echo go; exec sleep 100"
        sent = [
            (client, client.send("terminals.open", sessionId=self.session, cols=80, rows=24, command=command), n)
            for n in range(5)
            for client in clients
        ]
        for client in clients:
            client.send("terminals.open", sessionId=self.session, cols=80, rows=24, command="")  # refused
        shells = []
        for client, number, _ in sent:
            try:
                terminal = client.answer(number)["terminal"]
            except RefusedError as error:
                self.assertEqual(error.slug, "too_many_terminals")
            else:
                shells.append(Shell(client, terminal["id"], terminal["channel"], None))
        for shell in shells:
            shell.expect(b"go")
        return shells


class TailTests(ComputerCase):
    """T9: nothing is lost at the exit."""

    def test_eight_at_once_to_a_slow_client(self) -> None:
        """T9: by SHA-256. The client takes one message, waits for nothing, takes the next; the exit is the last of each."""
        client = self.connect()
        chance = random.Random(9)
        wanted = hashlib.sha256(NUMBERS).hexdigest()
        for _ in range(3):
            shells = [client.open(self.session, f"seq 60000; exit {n}") for n in range(8)]
            pause = threading.Event()
            while not all(shell.id in client.exits for shell in shells):
                client.take()
                if chance.random() < 0.2:
                    pause.wait(0.004)  # a slow client: nothing is waited for
            for n, shell in enumerate(shells):
                self.assertEqual(shell.wait(), (n, None))
                self.assertEqual(hashlib.sha256(shell.out).hexdigest(), wanted)
        self.assertEqual(client.after_exit, 0)


READER = """
import hashlib, sys
from tests.endtoend.client import Client
with Client.to(sys.argv[1], sys.argv[2]) as client:
    shell = client.open(sys.argv[3], "echo $$; exec seq 3000000", tty=False)
    print(int(shell.expect(b"\\n")), flush=True)
    code, _ = shell.wait(100)
    print(code, hashlib.sha256(shell.out).hexdigest(), flush=True)
"""


class StoppedReaderTests(ComputerCase):
    """T12, BR-075: a client that is stopped. After two pings without an answer it is cut off: `tests.net.test_connection.PingTests`."""

    def test_it_finds_all_when_it_goes_on(self) -> None:
        """T12: until then it is kept. Its program blocks, nobody else notices, and no byte is lost."""
        with subprocess.Popen(
            [sys.executable, "-c", READER, self.computer.url, self.computer.token(), self.session],
            stdout=subprocess.PIPE,
        ) as reader:
            assert reader.stdout is not None
            self.addCleanup(reader.kill)
            program = int(reader.stdout.readline())
            reader.send_signal(signal.SIGSTOP)
            eventually(lambda: _is_stuck(program), "the program is held back")
            other = self.connect()
            echo = other.open(self.session, "stty raw -echo; echo go; cat")
            echo.expect(b"go")
            echo.type(b"!")
            echo.expect(b"!", 1)
            reader.send_signal(signal.SIGCONT)
            wanted = hashlib.sha256(b"".join(b"%d\n" % n for n in range(1, 3_000_001))).hexdigest()
            self.assertEqual(reader.stdout.readline().split(), [b"0", wanted.encode()])
            self.assertEqual(reader.wait(20), 0)

    def test_killed_while_it_is_stopped(self) -> None:
        """T12: its terminals go with it."""
        with subprocess.Popen(
            [sys.executable, "-c", READER, self.computer.url, self.computer.token(), self.session],
            stdout=subprocess.PIPE,
        ) as reader:
            assert reader.stdout is not None
            program = int(reader.stdout.readline())
            reader.send_signal(signal.SIGSTOP)
            eventually(lambda: _is_stuck(program), "the program is held back")
            reader.kill()
            reader.wait()
            eventually(lambda: not os.path.exists(f"/proc/{program}"), "the program is gone", 6)
        self.settled()


def _is_stuck(pid: int) -> bool:
    """Whether a program waits for a pipe to be emptied: its place in the kernel and its processor time stay."""
    before = _place(pid)
    for _ in range(10):
        threading.Event().wait(0.02)
        if _place(pid) != before:
            return False
    return True


def _place(pid: int) -> tuple[str, bytes]:
    with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/io", "rb") as io:
        fields = stat.read().rpartition(")")[2].split()
        return fields[0], io.readline() + io.readline()
