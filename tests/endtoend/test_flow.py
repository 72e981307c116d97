"""Slow, frozen and greedy clients: they harm themselves only (BR-069 to BR-076, W12)."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import statistics
import time

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, Shell, http

MIB = 1 << 20


def echo_times(shell: Shell, count: int) -> list[float]:
    """Seconds that each of `count` keys took to come back."""
    times = []
    for _ in range(count):
        shell.out.clear()
        began = time.perf_counter()
        shell.type(b"k")
        shell.expect(b"k", 5)
        times.append(time.perf_counter() - began)
    return times


class FlowTests(ComputerCase):
    """Back-pressure and fairness."""

    def echo(self, client: Client) -> Shell:
        """A terminal that sends back what it gets."""
        shell = client.open(self.session, "stty raw -echo; echo go; cat")
        shell.expect(b"go")
        return shell

    def test_a_client_that_reads_nothing_costs_next_to_nothing(self) -> None:
        """BR-069, BR-072, W12: its program blocks, memory stays, and afterwards every number is there, in order."""
        client = self.connect()
        echo = self.echo(self.connect())
        before = self.computer.memory()
        flood = client.open(self.session, "seq 1 100000000")
        client.until(lambda: len(flood.out) > 1000)
        # the library reads ahead in a thread of its own until its queue is full; then it reads no more
        self.quiet()
        self.assertLess(self.computer.memory() - before, 2 * MIB)
        used = self.computer.cpu()
        self.assertLess(statistics.median(echo_times(echo, 50)), 0.1)
        self.quiet()
        self.assertLess(self.computer.cpu() - used, 0.5)
        client.until(lambda: len(flood.out) > 8 * MIB)
        lines = bytes(flood.out).split(b"\r\n")[:-1]
        self.assertEqual(lines, [b"%d" % n for n in range(1, len(lines) + 1)])
        client.ask("ping")

    def test_a_flood_starves_nobody(self) -> None:
        """BR-073: on the same connection, on another, and over HTTP."""
        client = self.connect()
        for _ in range(3):
            client.open(self.session, "yes")
        same, other = self.echo(client), self.echo(self.connect())
        for shell in (same, other):
            client.output.clear()
            times = echo_times(shell, 60)
            self.assertLess(statistics.median(times), 0.1)
        began = time.monotonic()
        self.assertEqual(http(self.computer.base + "/health").status, 200)
        self.assertLess(time.monotonic() - began, 2)

    def test_all_floods_of_a_connection_get_their_turn(self) -> None:
        client = self.connect()
        shells = [client.open(self.session, "yes") for _ in range(4)]
        client.until(lambda: sum(len(shell.out) for shell in shells) > 12 * MIB)
        sizes = sorted(len(shell.out) for shell in shells)
        self.assertGreater(sizes[0] * 4, sizes[-1], sizes)

    def test_a_slow_reader_that_answers_pings_is_kept(self) -> None:
        """BR-076."""
        client = self.connect()
        flood = client.open(self.session, "yes")
        for _ in range(30):
            client.take()
            time.sleep(0.05)  # that is how slow it is
        client.ask("ping")
        self.assertGreater(len(flood.out), 0)

    def test_a_tail_that_is_read_late_is_whole(self) -> None:
        """Section 5: no byte that was written before the exit is lost, however slow the client."""
        client = self.connect()
        shells = [client.open(self.session, "seq 1 300000; exit 6") for _ in range(4)]
        self.quiet()
        expected = b"".join(b"%d\r\n" % n for n in range(1, 300_001))
        for shell in shells:
            self.assertEqual(shell.wait(60), (6, None))
            self.assertEqual(bytes(shell.out), expected)
        self.assertEqual(client.after_exit, 0)

    def test_unread_answers_end_the_connection_only(self) -> None:
        """4008: what can't be held back is bounded at 16 MiB. Each answer is a session with 50 KiB of metadata."""
        session = self.computer.session(metadata={f"{n:0512}": "v" * 512 for n in range(50)})
        before = self.computer.memory()
        raw = Raw(self.computer.port, self.computer.token())
        self.addCleanup(raw.close)
        request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "sessions.get", "params": {"sessionId": session}})
        # 100 requests a second are answered: 16 MiB are full after some four seconds
        for _ in range(70):
            for _ in range(10):
                raw.text(request)
            time.sleep(0.1)
        self.assertLess(self.computer.memory() - before, 32 * MIB)
        self.assertTrue(raw.rest().endswith(b"\x0f\xa8more than 16 MiB unsent"), "closed with 4008")
        self.connect().ask("ping")


class Raw:
    """A WebSocket client that reads nothing unless it is told to."""

    def __init__(self, port: int, token: str, receive_buffer: int = 4096) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(5)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(
            f"GET /connect HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: opc.v1\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self.socket.recv(1)
            if not piece:
                raise ConnectionError(f"closed after {head!r}")
            head += piece
        assert re.match(rb"HTTP/1.1 101 ", head), head

    def text(self, text: str) -> None:
        """Sends a text message, masked with zeros."""
        self.frame(1, text.encode())

    def frame(self, opcode: int, data: bytes, fin: bool = True) -> None:
        """Sends one frame."""
        size = len(data)
        first = bytes([(0x80 if fin else 0) | opcode])
        if size < 126:
            head = first + bytes([0x80 | size])
        elif size < 65536:
            head = first + b"\xfe" + size.to_bytes(2, "big")
        else:
            head = first + b"\xff" + size.to_bytes(8, "big")
        self.socket.sendall(head + b"\0\0\0\0" + data)

    def rest(self) -> bytes:
        """All that the server still sends, up to its end of the connection."""
        data = bytearray()
        while piece := self.socket.recv(1 << 20):
            data += piece
        return bytes(data)

    def close(self) -> None:
        """Ends it without a word."""
        self.socket.close()


class StormTests(ComputerCase):
    """Many small things at once (W10, W11)."""

    def memory_stays(self, act: object) -> None:
        """Runs `act(raw)` until the server cuts it off or it is through; 32 MiB are not exceeded meanwhile."""
        assert callable(act)
        before = self.computer.memory()
        other = self.connect()
        raw = Raw(self.computer.port, self.computer.token())
        self.addCleanup(raw.close)
        with contextlib.suppress(OSError):
            act(raw)
        self.assertLess(self.computer.memory() - before, 32 * MIB)
        began = time.monotonic()
        other.ask("ping")
        self.assertLess(time.monotonic() - began, 2)

    def test_pings(self) -> None:
        """W11."""
        self.memory_stays(lambda raw: [raw.frame(9, b"x" * 125) for _ in range(20_000)])

    def test_fragments(self) -> None:
        """W10."""
        self.memory_stays(lambda raw: [raw.frame(1 if n == 0 else 0, b"x", fin=False) for n in range(20_000)])

    def test_tiny_frames(self) -> None:
        self.memory_stays(lambda raw: [raw.frame(2, b"\0\0\0\x09" + b"x") for _ in range(20_000)])

    def test_requests(self) -> None:
        self.memory_stays(lambda raw: [raw.text('{"jsonrpc":"2.0","id":1,"method":"ping"}') for _ in range(20_000)])

    def test_costly_json(self) -> None:
        """J2."""
        self.memory_stays(lambda raw: [raw.text("[0" + ",0" * 500_000 + "]") for _ in range(30)])

    def test_frames_of_every_kind(self) -> None:
        """Malformed framing is 1002 for that connection, and nothing for the others."""
        other = self.connect()
        for opcode in range(16):
            for data in (b"", b"x", b"x" * 200):
                raw = Raw(self.computer.port, self.computer.token())
                try:
                    raw.frame(opcode, data)
                    raw.frame(opcode, data, fin=False)
                except OSError:
                    pass
                raw.close()
        other.ask("ping")
        self.assertNotIn("Traceback", self.computer.log)
