"""What the client sends reaches the program whole, in order, and within its limits (BR-020 to BR-032, T7)."""

from __future__ import annotations

import hashlib
import os
import random
import time

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import RefusedError
from tests.endtoend.computer import alive, eventually


class InputTests(ComputerCase):
    """Input."""

    def test_a_paste_of_one_mebibyte_arrives_whole(self) -> None:
        """BR-020."""
        client = self.connect()
        data = random.Random(1).randbytes(1 << 20)
        shell = client.open(self.session, "stty raw -echo; echo go; head -c 1048576 | sha256sum")
        shell.expect(b"go")
        shell.type(data)
        shell.expect(hashlib.sha256(data).hexdigest().encode())

    def test_a_slow_reader_gets_it_too(self) -> None:
        """Section 5: input within the limit waits for a program that reads slowly."""
        client = self.connect()
        data = random.Random(2).randbytes(1 << 20)
        shell = client.open(self.session, "stty raw -echo; echo go; sleep 1; head -c 1048576 | sha256sum")
        shell.expect(b"go")
        shell.type(data)
        shell.expect(hashlib.sha256(data).hexdigest().encode())

    def test_a_paste_with_echo_does_not_deadlock(self) -> None:
        """BR-021: both directions full, and all of the echo is there."""
        client = self.connect()
        lines = b"".join(b"%096d\n" % n for n in range(10_000))
        shell = client.open(self.session, "echo go; cat > f; sha256sum < f")
        shell.expect(b"go\r\n")
        shell.type(lines)
        shell.eof()
        seen = shell.expect(hashlib.sha256(lines).hexdigest().encode())
        self.assertEqual(seen[:-64].replace(b"\r\n", b"\n"), lines)

    def test_a_paste_into_a_program_that_does_not_read_harms_nobody(self) -> None:
        """BR-022, BR-062: an echo elsewhere stays quick, and the close comes."""
        stuck = self.connect().open(self.session, "stty raw -echo; echo go; sleep 60")
        stuck.expect(b"go")
        other = self.connect().open(self.session, "stty raw -echo; echo go; cat")
        other.expect(b"go")
        stuck.type(b"x" * 900_000)
        began = time.monotonic()
        other.type(b"!")
        other.expect(b"!")
        self.assertLess(time.monotonic() - began, 1)
        stuck.close()
        self.assertEqual(stuck.wait(), (None, "SIGHUP"))

    def test_input_over_the_limit_is_dropped_and_told_once(self) -> None:
        """T7: the next request is refused and not carried out, so that the terminal is still there for the one after it."""
        client = self.connect()
        shell = client.open(self.session, "stty raw -echo; echo go; sleep 60")
        shell.expect(b"go")
        shell.type(b"x" * (6 << 20))
        with self.assertRaises(RefusedError) as caught:
            shell.close()
        error = caught.exception
        self.assertEqual((error.code, error.slug, error.data["status"]), (-32000, "rate_limited", 429))
        self.assertGreater(error.data["retryAfterMs"], 0)
        shell.resize(100, 40)

    def test_frames_over_the_limit_are_dropped_whole(self) -> None:
        """A frame is never torn: what arrives is a sequence of whole frames."""
        client = self.connect()
        shell = client.open(
            self.session,
            "stty raw -echo; echo go; timeout --foreground 2 cat > f; stty sane\n"
            "echo size=$(wc -c < f)= torn=$(fold -w 10000 f | tr -s a-h | awk 'length != 1' | wc -l)=",
        )
        shell.expect(b"go")
        head = shell.channel.to_bytes(4, "big")
        for letter in b"abcdefgh" * 60:
            client.socket.send(head + bytes([letter]) * 10_000)
        shell.expect(b"size=")
        size = int(shell.expect(b"=")[:-1])
        self.assertTrue(1_000_000 <= size < 4_800_000, size)
        self.assertEqual(size % 10_000, 0)
        self.assertIn(b"torn=0=", shell.expect(b"torn=") + shell.expect(b"="))

    def test_end_of_input_on_pipes(self) -> None:
        """BR-025: closes standard input after what was sent before, and the output still comes."""
        client = self.connect()
        shell = client.open(self.session, "wc -c; until [ -e end ]; do sleep 0.05; done", tty=False)
        shell.type(b"y" * 100_000)
        shell.eof()
        shell.expect(b"100000\n")
        shell.eof()
        (self.computer.folder / "workspaces" / self.session / "end").touch()
        self.assertEqual((shell.wait(), bytes(shell.out)), ((0, None), b""))

    def test_input_after_the_end_is_dropped(self) -> None:
        client = self.connect()
        shell = client.open(self.session, "sleep 0.3; wc -c", tty=False)
        shell.type(b"y" * 100_000)
        shell.eof()
        shell.type(b"more")
        shell.wait()
        self.assertEqual(bytes(shell.out), b"100000\n")

    def test_end_of_input_on_a_terminal(self) -> None:
        """BR-026: at the start of a line, and in the middle of one."""
        client = self.connect()
        for typed in (b"", b"abc", b"line\n"):
            shell = client.open(self.session, "echo go; cat")
            shell.expect(b"go\r\n")
            shell.type(typed)
            shell.eof()
            self.assertEqual(shell.wait(), (0, None), typed)

    def test_end_of_input_leaves_a_login_shell(self) -> None:
        client = self.connect()
        shell = client.open(self.session)
        shell.type(b"PS1='re''ady> '\n")
        shell.expect(b"ready> ")
        shell.eof()
        self.assertEqual(shell.wait(), (0, None))

    def test_calls_just_after_the_exit_are_answered(self) -> None:
        """BR-029, BR-036: each answers with success or `terminal_not_found`, and the log stays clean."""
        for n in range(40):
            if n % 20 == 0:
                client = self.connect()  # each has its hundred requests
            shell = client.open(self.session, "true")
            shell.type(b"x")
            sent = [
                client.send("terminals.resize", terminalId=shell.id, cols=10, rows=10),
                client.send("terminals.eof", terminalId=shell.id),
                client.send("terminals.close", terminalId=shell.id),
            ]
            for number in sent:
                try:
                    self.assertEqual(client.answer(number), {})
                except RefusedError as error:
                    self.assertEqual(error.slug, "terminal_not_found")
            shell.wait()
        self.assertNotIn("Traceback", self.computer.log)

    def test_control_c(self) -> None:
        """BR-032."""
        client = self.connect()
        shell = client.open(self.session, "echo go; sleep 100; echo no")
        shell.expect(b"go\r\n")
        shell.type(b"\x03")
        self.assertEqual(shell.wait(2), (None, "SIGINT"))
        self.assertEqual(bytes(shell.out), b"^C")

    def test_erase_takes_a_whole_character(self) -> None:
        """BR-018: IUTF8."""
        client = self.connect()
        shell = client.open(self.session, "stty -echo; printf R; head -n1 | od -An -tx1")
        shell.expect(b"R")
        shell.type("aé".encode() + b"\x7f\n")
        self.assertIn(b"61 0a", shell.expect(b"0a"))

    def test_an_interrupt_gets_through_a_flood(self) -> None:
        """BR-071: bounded buffers leave little stale output before the prompt."""
        client = self.connect()
        shell = client.open(self.session, "bash --norc --noprofile -i")
        shell.type(b"PS1='re''ady> '\n")
        shell.expect(b"ready> ")
        shell.type(b"yes\n")
        shell.expect(b"y\r\ny\r\n" * 1000)
        shell.type(b"\x03")
        client.output.clear()
        shell.expect(b"ready> ", 5)
        shell.type(b"echo; echo al''ive\n")
        shell.expect(b"alive")


class JobTests(ComputerCase):
    """Job control works as at a console."""

    def test_job_control(self) -> None:
        """BR-041."""
        client = self.connect()
        shell = client.open(self.session, "bash --norc --noprofile -i")
        shell.type(b"PS1='> '; echo p''id=$$=; set -o | grep monitor\n")
        shell.expect(b"pid=")
        pid = int(shell.expect(b"=")[:-1])
        seen = shell.expect(b"monitor        \ton")
        self.assertNotIn(b"job control", seen)
        shell.type(b"sleep 200\n")
        eventually(lambda: _foreground(pid) in _children(pid, "sleep 200"), "sleep has the terminal")
        shell.type(b"\x1a")
        shell.expect(b"Stopped")
        shell.type(b"fg\n")
        shell.expect(b"sleep 200\r\n")
        eventually(lambda: _foreground(pid) in _children(pid, "sleep 200"), "it has it again")
        shell.type(b"\x03")
        shell.type(b"echo r''c=$?\n")
        shell.expect(b"rc=130")

    def test_a_pipeline_dies_of_sigpipe(self) -> None:
        """BR-043."""
        client = self.connect()
        for tty in (True, False):
            out, _, _ = client.run(self.session, "bash -c 'yes | head -n1; echo ${PIPESTATUS[@]}'", tty=tty)
            self.assertEqual(out.split(), [b"y", b"141", b"0"])

    def test_the_controlling_terminal(self) -> None:
        """BR-042, D13: there on a tty, absent on pipes, and a session of its own in both."""
        client = self.connect()
        out, _, _ = client.run(self.session, "echo x >/dev/tty; ps -o sid=,pgid=,pid= -p $$")
        first, *numbers = out.split()
        self.assertEqual(first, b"x")
        self.assertEqual(len(set(numbers)), 1)
        out, _, _ = client.run(self.session, "(: </dev/tty) 2>&1; ps -o sid=,pgid=,pid= -p $$", tty=False)
        self.assertIn(b"No such device", out)
        self.assertEqual(len(set(out.split()[-3:])), 1)

    def test_hanging_up_ends_jobs(self) -> None:
        """BR-056: foreground, background and stopped."""
        client = self.connect()
        for start, then in ((b"sleep 1111\n", b""), (b"sleep 1112 &\n", b""), (b"sleep 1113\n", b"\x1a")):
            shell = client.open(self.session, "bash --norc --noprofile -i")
            shell.type(b"PS1=; echo p''id=$$=\n")
            shell.expect(b"pid=")
            pid = int(shell.expect(b"=")[:-1])
            shell.type(start)
            name = start[:10].decode()
            eventually(lambda name=name, pid=pid: _children(pid, name), f"{name} runs")
            jobs = _children(pid, name)
            if then:
                shell.type(then)
                shell.expect(b"Stopped")
            shell.close()
            code, signal = shell.wait()
            self.assertEqual((code, signal), (None, "SIGHUP"))
            eventually(lambda jobs=jobs: not any(map(alive, jobs)), "its job is gone", 2)


def _foreground(pid: int) -> int:
    """The group that has the terminal of a process."""
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[5])


def _children(parent: int, command: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat, open(f"/proc/{name}/cmdline", "rb") as line:
                its_parent = int(stat.read().rpartition(")")[2].split()[1])
                its_command = line.read().replace(b"\0", b" ").strip().decode()
                if (its_parent, its_command) == (parent, command):
                    found.append(int(name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
