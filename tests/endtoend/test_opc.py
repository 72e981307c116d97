"""The client program with a real daemon: statuses, input and secrets (BR-008, BR-009, BR-024, BR-049, BR-118)."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
from pathlib import Path

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import WAIT, raw
from tests.endtoend.computer import Computer, program
from tests.endtoend.test_life import LifeCase


def opc(computer: Computer, *words: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of `opc` for a daemon."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OPC_", "XDG_"))}
    environ = {**clean, "OPC_URL": computer.base, "OPC_TOKEN": computer.token(), "HOME": str(computer.folder)}
    return [program("opc"), *words], environ


class OpcTests(ComputerCase):
    """`opc exec` and `opc shell` on pipes."""

    def opc(self, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Runs it to its end."""
        command, environ = opc(self.computer, *words)
        return subprocess.run(command, input=given, env=environ, capture_output=True, check=False, timeout=WAIT)

    def test_the_status_arrives(self) -> None:
        """BR-008: each time, however soon the program ends."""
        for n in range(10):
            verb = ("exec", "shell")[n % 2]
            self.assertEqual(self.opc(verb, self.session, "--", "sh", "-c", "exit 5").returncode, 5)
        self.assertEqual(self.opc("exec", self.session, "--", "sh", "-c", "kill -9 $$").returncode, 128 + 9)

    def test_piped_input(self) -> None:
        """BR-118: no hang, no carriage return, the program's end is the client's."""
        done = self.opc("shell", self.session, given=b"echo hi; exit 3\n")
        self.assertEqual((done.stdout, done.returncode), (b"hi\n", 3), done.stderr)
        done = self.opc("shell", self.session, "--", "cat", given=b"a\nb\xff")
        self.assertEqual((done.stdout, done.returncode), (b"a\nb\xff", 0), done.stderr)
        self.assertEqual(self.opc("shell", self.session, "--", "true").returncode, 0)

    def test_a_large_paste_is_split(self) -> None:
        """BR-024: 300 kB through the client; a frame of more than 64 KiB is taken, one over a message's limit ends its connection only."""
        data = random.Random(24).randbytes(300_000)
        done = self.opc("exec", self.session, "--", "sha256sum", given=data)
        self.assertEqual(done.stdout.split()[0].decode(), hashlib.sha256(data).hexdigest(), done.stderr)
        client, other = self.connect(), self.connect()
        shell = client.open(self.session, "wc -c", tty=False)
        client.socket.send(shell.channel.to_bytes(4, "big") + b"x" * 65_537)
        shell.eof()
        shell.wait()
        self.assertEqual(bytes(shell.out), b"65537\n")
        echo = other.open(self.session, "cat", tty=False)
        try:
            client.socket.send(b"\0" * (10 << 20))
        except OSError:
            pass
        except Exception as error:
            self.assertIn("1009", str(error))
        self.assertEqual(client.closed()[0], 1009)
        echo.type(b"untouched")
        echo.expect(b"untouched")

    def test_no_secret_in_any_command_line(self) -> None:
        """BR-049: not of the client, whose token comes from the environment, nor of what the daemon starts; and no URL with one is logged."""
        signature = self.computer.token().rpartition(".")[2].encode()
        command, environ = opc(self.computer, "exec", self.session, "--", "echo ready; exec cat")
        with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdin is not None and child.stdout is not None
            self.assertEqual(child.stdout.readline(), b"ready\n")
            lines = [line for line in map(_command_line, Path("/proc").iterdir()) if line]
            child.stdin.close()
            self.assertEqual(child.wait(WAIT), 0)
        self.assertTrue(any(b"echo ready" in line for line in lines))
        self.assertEqual([line for line in lines if signature in line], [])
        socket = raw(
            self.computer.url, subprotocols=["opc.v1", f"opc.bearer.{self.computer.token()}"], origin=self.computer.base
        )
        socket.close()
        self.assertNotIn(signature.decode(), self.computer.log)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes() if process.name.isdigit() else b""
    except OSError:
        return b""


class LostTests(LifeCase):
    """The daemon dies."""

    def test_a_lost_connection_is_never_success(self) -> None:
        """BR-009: 255 and one line, for a daemon that is killed."""
        computer = self.computer()
        command, environ = opc(computer, "shell", computer.session(), "--", "echo ready; exec sleep 60")
        with subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as child:
            assert child.stdout is not None and child.stderr is not None
            self.assertEqual(child.stdout.readline(), b"ready\n")
            computer.stop(signal.SIGKILL)
            self.assertEqual(child.wait(WAIT), 255)
            self.assertEqual(child.stderr.read().count(b"\n"), 1)
