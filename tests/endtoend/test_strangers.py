"""What strangers and neighbours learn, and whom they can slow down (C5, C13, C16, W7 of the threat model, BR-039)."""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import time
from typing import Any

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, RefusedError, Shell, http
from tests.endtoend.test_flow import echo_times

FORGE = """
import socket, sys
host, port, token = "127.0.0.1", int(sys.argv[1]), sys.argv[2]
head, _, signature = token.rpartition(".")
print("go", flush=True)
number = 0
while True:
    with socket.create_connection((host, port)) as one:
        one.settimeout(2)
        try:
            for _ in range(100):
                number += 1
                forged = head + "." + "%043d" % number + signature[43:]
                one.sendall(
                    f"GET /sessions HTTP/1.1\\r\\nHost: {host}\\r\\nAuthorization: Bearer {forged}\\r\\n\\r\\n".encode()
                )
                if not one.recv(65536):
                    break
        except OSError:
            pass
"""


class LearningTests(ComputerCase):
    """C5: an answer tells nothing of what is not the caller's."""

    def test_a_foreign_terminal_and_none_are_alike(self) -> None:
        """C5, T3, BR-082: the same words after the same time."""
        mine = self.connect().open(self.session, "cat")
        times: dict[str, list[float]] = {mine.id: [], "tm_000000000000": []}
        answers = set()
        for _ in range(4):
            with self.computer.client() as other:
                for n in range(80):
                    name = (mine.id, "tm_000000000000")[n % 2]
                    began = time.perf_counter()
                    with self.assertRaises(RefusedError) as caught:
                        other.ask("terminals.eof", terminalId=name)
                    times[name].append(time.perf_counter() - began)
                    answers.add(str(caught.exception))
        self.assertEqual(len(answers), 1, answers)
        foreign, none = (statistics.median(each) for each in times.values())
        self.assertLess(abs(foreign - none), 0.001)

    def test_nothing_before_the_credential(self) -> None:
        """C13: who has none gets the same answer, whatever is there, and no frame of his is looked at."""
        frame = b"\x81\x8d\0\0\0\0" + b'{"jsonrpc":1}'
        answers = set()
        for session in (self.session, "cs_0000000000000000"):
            for upgrade in (True, False):
                with socket.create_connection(("127.0.0.1", self.computer.port), 10) as one:
                    more = (
                        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: opc.v1\r\n"
                    )
                    path = f"/connect?sessionId={session}" if upgrade else f"/sessions/{session}"
                    one.sendall(
                        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more if upgrade else ''}\r\n".encode() + frame
                    )
                    said = _all_of(one)
                self.assertTrue(said.startswith(b"HTTP/1.1 401 "), said)
                self.assertEqual(said.count(b"HTTP/1.1"), 1)
                body = json.loads(said.partition(b"\r\n\r\n")[2])["error"]
                body.pop("requestId")
                answers.add(json.dumps(body))
        self.assertEqual(len(answers), 1, answers)


class HeaderTests(ComputerCase):
    """W7: what a caller says does not become a header."""

    def test_no_line_of_a_caller_gets_into_a_head(self) -> None:
        """W7: not by a path, a query, a title, an id, a header or a subprotocol; nor into the log."""
        evil = "a\r\nX-Injected: 1\r\n\r\n<b>\u202e\"'"
        quoted = "".join(f"%{byte:02x}" for byte in evil.encode())
        token = self.computer.token()
        base = self.computer.base
        replies = [
            http(f"{base}/sessions/{quoted}", token=token),
            http(f"{base}/{quoted}", token=token),
            http(f"{base}/sessions?cursor={quoted}", token=token),
            http(f"{base}/sessions?{quoted}=1", token=token),
            http(f"{base}/sessions", "POST", token=token, body={"title": evil}),
            http(f"{base}/sessions", "POST", token=token, body={"id": evil}),
            http(f"{base}/sessions", "POST", token=token, body={evil: 1}),
            http(f"{base}/sessions", token=token, X_Request_Id="é\tx", User_Agent="\x1b]0;x\x07"),
        ]
        self.assertEqual(replies[4].json["session"]["title"], evil)
        for reply in replies:
            self.assertIsNone(reply.headers["X-Injected"])
            self.assertEqual(reply.headers["Content-Type"].partition(";")[0], "application/json")
            for name, value in reply.headers.items():
                self.assertNotIn("Injected", name + value)
            self.assertNotIn(b"\r\n", reply.body)
        for line in self.computer.log.splitlines():
            self.assertFalse(line.startswith("X-Injected"), line)
        self.assertNotIn("\x1b", self.computer.log)

    def test_methods_of_other_protocols(self) -> None:
        """W18: there is nothing to trace, to tunnel or to ask options of."""
        token = self.computer.token()
        for verb in ("TRACE", "CONNECT", "OPTIONS", "PROPFIND"):
            reply = http(f"{self.computer.base}/sessions", verb, token=token, X_Canary="canary")
            self.assertIn(reply.status, (400, 405), verb)
            self.assertNotIn(b"canary", reply.body)


class SecrecyTests(ComputerCase):
    """BR-091: what is typed is nobody's business."""

    def test_what_is_typed_is_written_nowhere(self) -> None:
        """BR-091: neither the log nor the journal has a password that was typed, or what was printed."""
        client = self.connect()
        shell = client.open(self.session)
        shell.type(b"PS1=; stty -echo; read -s p; echo got ${#p}; echo prin''ted-c4n4ry\n")
        shell.type(b"typed-c4n4ry\n")
        shell.expect(b"got 12")
        shell.expect(b"printed-c4n4ry")
        shell.type(b"exit\n")
        shell.wait()
        http(f"{self.computer.base}/sessions/{self.session}", token=self.computer.token())
        self.assertNotIn("c4n4ry", self.computer.log)
        self.assertNotIn("c4n4ry", json.dumps(self.computer.events(self.session)))
        files = [path for path in (self.computer.folder / "state").rglob("*") if path.is_file()]
        self.assertTrue(files)
        for path in files:
            self.assertNotIn(b"c4n4ry", path.read_bytes(), path.name)


class ForgeryTests(ComputerCase):
    """C16: checking forgeries stalls nobody."""

    own = True

    def echo(self, client: Client) -> Shell:
        """A terminal that sends back what it gets."""
        shell = client.open(self.session, "stty raw -echo; echo go; cat")
        shell.expect(b"go")
        return shell

    def test_a_flood_of_forged_credentials(self) -> None:
        """C16: as fast as one client can send them. An echo takes at most 100 ms, or 20 times what it takes without."""
        shell = self.echo(self.connect())
        before = statistics.quantiles(echo_times(shell, 200), n=100)[98]
        script = [sys.executable, "-c", FORGE, str(self.computer.port), self.computer.token()]
        floods = [subprocess.Popen(script, stdout=subprocess.PIPE) for _ in range(2)]
        try:
            for flood in floods:
                self.addCleanup(flood.wait)
                self.addCleanup(flood.kill)
                assert flood.stdout is not None
                self.addCleanup(flood.stdout.close)
                self.assertEqual(flood.stdout.readline(), b"go\n")
            used = self.computer.cpu()
            times = echo_times(shell, 400)
            self.assertGreater(self.computer.cpu() - used, 0)
            self.assertEqual([flood.poll() for flood in floods], [None, None])
        finally:
            for flood in floods:
                flood.kill()
        self.assertLess(statistics.quantiles(times, n=100)[98], max(0.1, 20 * before))


class AfterTheExitTests(ComputerCase):
    """BR-036, BR-039: a terminal that has ended."""

    def test_a_resize_prints_nothing(self) -> None:
        """BR-036, BR-039, T8: it is answered, with an error, and no frame comes of it."""
        client = self.connect()
        shell = client.open(self.session, "echo bye")
        shell.wait()
        frames = client.frames
        sizes: list[Any] = [(100, 40), (101, 41)]
        for name in (shell.id, "tm_000000000000"):
            for columns, rows in sizes:
                with self.assertRaises(RefusedError) as caught:
                    client.ask("terminals.resize", terminalId=name, cols=columns, rows=rows)
                self.assertEqual((caught.exception.slug, caught.exception.data["status"]), ("terminal_not_found", 404))
        self.assertIn("timing", client.ask("ping"))
        self.assertEqual((client.frames, bytes(shell.out)), (frames, b"bye\r\n"))


def _all_of(one: socket.socket) -> bytes:
    said = b""
    while piece := one.recv(65536):
        said += piece
    return said
