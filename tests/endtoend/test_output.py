"""No byte is lost, none is changed, and the exit comes last (BR-001 to BR-018)."""

from __future__ import annotations

import hashlib

from tests.endtoend.case import ComputerCase


class OutputTests(ComputerCase):
    """What a program writes is what the client reads."""

    def test_all_output_arrives_before_the_exit(self) -> None:
        """BR-001, BR-002, T9: 20 times 300,000 bytes, then the exit, then nothing."""
        client = self.connect()
        for _ in range(20):
            out, code, signal = client.run(self.session, "head -c 300000 /dev/zero | tr '\\0' x")
            self.assertEqual((len(out), set(out), code, signal), (300_000, {ord("x")}, 0, None))
        self.assertEqual(client.after_exit, 0)

    def test_very_short_commands_lose_nothing(self) -> None:
        """BR-011."""
        client = self.connect()
        for _ in range(30):
            self.assertEqual(client.run(self.session, "echo hi"), (b"hi\r\n", 0, None))

    def test_every_line_of_a_long_output_in_order(self) -> None:
        """T9, as the hash of what `seq` prints."""
        client = self.connect()
        out, code, _ = client.run(self.session, "seq 1 200000", tty=False)
        expected = "".join(f"{n}\n" for n in range(1, 200_001)).encode()
        self.assertEqual(hashlib.sha256(out).hexdigest(), hashlib.sha256(expected).hexdigest())
        self.assertEqual(code, 0)

    def test_the_answer_precedes_the_output(self) -> None:
        """Section 4: a client knows the channel before anything comes on it, however fast the program is."""
        client = self.connect()
        for _ in range(30):
            number = client.send("terminals.open", sessionId=self.session, cols=80, rows=24, command="echo fast")
            frames = client.frames
            client.until(lambda number=number: number in client.answers)
            self.assertEqual(client.frames, frames)
            terminal = client.answer(number)["terminal"]
            self.assertRegex(terminal["id"], r"^tm_[0-9A-Za-z]{12}$")
            client.until(lambda terminal=terminal: terminal["id"] in client.exits)
            self.assertEqual(bytes(client.output[terminal["channel"]]), b"fast\r\n")

    def test_frames_hold_at_most_64_kib(self) -> None:
        """Output frames are 64 KiB at most, channel number included, and not one per read."""
        client = self.connect()
        client.run(self.session, "head -c 5000000 /dev/zero", tty=False)
        self.assertLessEqual(client.largest, 65536)
        self.assertGreater(client.largest, 4096)

    def test_pipes_keep_standard_error_apart(self) -> None:
        client = self.connect()
        shell = client.open(self.session, "echo out; echo err >&2; exit 3", tty=False)
        self.assertEqual(shell.wait(), (3, None))
        self.assertEqual((bytes(shell.out), bytes(shell.err)), (b"out\n", b"err\n"))

    def test_a_background_job_does_not_delay_the_exit(self) -> None:
        """BR-003, T10: at most 500 ms, in both modes."""
        client = self.connect()
        for tty in (True, False):
            shell = client.open(self.session, "trap '' HUP; sleep 30 & echo hi; exit 7", tty=tty)
            self.assertEqual(shell.wait(2), (7, None))
            self.assertEqual(bytes(shell.out).rstrip(), b"hi")

    def test_a_background_job_that_prints_does_not_delay_it_either(self) -> None:
        """BR-004."""
        client = self.connect()
        command = "trap '' HUP PIPE; (while echo tick; do sleep 0.05; done) & echo done; exit 0"
        for tty in (True, False):
            shell = client.open(self.session, command, tty=tty)
            self.assertEqual(shell.wait(3), (0, None))
            self.assertIn(b"done", shell.out)

    def test_closed_standard_streams_are_not_an_exit(self) -> None:
        """BR-005."""
        client = self.connect()
        for tty in (True, False):
            shell = client.open(self.session, "exec 0<&- 1>&- 2>&-; sleep 0.7; exit 5", tty=tty)
            with self.assertRaises(TimeoutError):
                shell.wait(0.3)
            self.assertEqual(shell.wait(), (5, None))

    def test_the_end_of_a_terminal_is_no_error_in_the_log(self) -> None:
        """BR-006."""
        client = self.connect()
        for _ in range(20):
            client.run(self.session, "true")
        self.assertNotIn("Traceback", self.computer.log)

    def test_exit_codes_and_signals(self) -> None:
        """BR-007: an exit status is modulo 256, and 137 from exit() is no signal."""
        client = self.connect()
        cases = {
            "exit 0": (0, None),
            "exit 137": (137, None),
            "exit 300": (44, None),
            "kill -TERM $$": (None, "SIGTERM"),
            "kill -9 $$": (None, "SIGKILL"),
            "kill -PIPE $$": (None, "SIGPIPE"),
            "kill -SEGV $$": (None, "SIGSEGV"),
        }
        for command, expected in cases.items():
            for tty in (True, False):
                self.assertEqual(client.run(self.session, command, tty=tty)[1:], expected, (command, tty))

    def test_what_cannot_be_run_ends_as_in_any_shell(self) -> None:
        """BR-010, D15: 127 and 126, one line, no traceback and no path of the daemon."""
        client = self.connect()
        for command, expected in {"/no/such": 127, "/etc": 126, "/etc/passwd": 126}.items():
            out, code, _ = client.run(self.session, command)
            self.assertEqual(code, expected, command)
            self.assertNotIn(b"Traceback", out)
            self.assertNotIn(b"computerd", out.replace(self.session.encode(), b""))

    def test_characters_split_over_writes_arrive_as_bytes(self) -> None:
        """BR-014, BR-015."""
        client = self.connect()
        out, _, _ = client.run(self.session, r"printf '\342'; sleep .1; printf '\202'; sleep .1; printf '\254\n'")
        self.assertEqual(out, b"\xe2\x82\xac\r\n")
        out, _, _ = client.run(self.session, r"printf '\377\376A\302'")
        self.assertEqual(out, b"\xff\xfe\x41\xc2")

    def test_random_bytes_arrive_unchanged(self) -> None:
        """BR-013."""
        client = self.connect()
        command = "head -c 1000000 /dev/urandom > r; sha256sum < r >&2; cat r"
        shell = client.open(self.session, command, tty=False)
        shell.wait()
        self.assertEqual(hashlib.sha256(shell.out).hexdigest().encode(), bytes(shell.err).split()[0])

    def test_the_locale_is_utf_8(self) -> None:
        """BR-016, BR-017."""
        client = self.connect()
        out, _, _ = client.run(self.session, r"locale charmap; printf '\303\251' | wc -m; locale 2>&1 >/dev/null")
        self.assertEqual(out.split(), [b"UTF-8", b"1"])

    def test_the_terminal_type(self) -> None:
        """BR-019."""
        client = self.connect()
        self.assertEqual(client.run(self.session, "echo $TERM")[0], b"xterm-256color\r\n")
        self.assertEqual(client.run(self.session, "echo $TERM", term="vt100")[0], b"vt100\r\n")
        self.assertEqual(client.run(self.session, "echo $TERM", tty=False)[0], b"dumb\n")
