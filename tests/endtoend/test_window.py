"""Sizes: from the first instruction, and once for each real change (BR-033 to BR-038, T8)."""

from __future__ import annotations

from typing import Any

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import RefusedError


class WindowTests(ComputerCase):
    """`cols`, `rows` and `terminals.resize`."""

    def test_the_first_program_sees_the_size(self) -> None:
        """BR-033."""
        client = self.connect()
        for _ in range(10):
            self.assertEqual(client.run(self.session, "stty size", cols=123, rows=37)[0], b"37 123\r\n")

    def test_bad_sizes_are_refused_and_change_nothing(self) -> None:
        """BR-035, J4, T8: the field is named; the terminal lives on."""
        client = self.connect()
        shell = client.open(self.session, "cat", cols=91, rows=31)
        bad: list[Any] = [0, -1, 1001, 65536, 10**9, 2**64, 1.5, 1.0, "80", None, True, [], {}]
        for value in bad:
            with self.assertRaises(RefusedError) as caught:
                client.ask("terminals.resize", terminalId=shell.id, cols=value, rows=24)
            error = caught.exception
            self.assertEqual(
                (error.code, error.slug, error.data.get("field")), (-32602, "invalid_request", "cols"), value
            )
        shell.close()
        self.assertEqual(shell.wait(), (None, "SIGHUP"))

    def test_one_signal_for_each_real_change(self) -> None:
        """BR-038."""
        client = self.connect()
        command = "trap 'echo W $(stty size)' WINCH; echo go; while :; do printf .; sleep 0.05; done"
        shell = client.open(self.session, command)
        shell.expect(b"go\r\n")
        shell.resize(120, 40)
        shell.expect(b"W 40 120\r\n")
        shell.expect(b".")  # bash forgets a signal that comes while it still carries out the trap of the one before
        shell.resize(120, 40)
        shell.resize(100, 30)
        self.assertEqual(shell.expect(b"W 30 100\r\n").replace(b".", b""), b"W 30 100\r\n")

    def test_a_resize_is_ahead_of_input_sent_after_it(self) -> None:
        client = self.connect()
        shell = client.open(self.session, "stty -echo; echo go; read line; stty size")
        shell.expect(b"go\r\n")
        number = client.send("terminals.resize", terminalId=shell.id, cols=77, rows=33)
        shell.type(b"\n")
        client.answer(number)
        shell.expect(b"33 77")

    def test_pipes_take_no_size_and_a_tty_needs_one(self) -> None:
        """D8, D9."""
        client = self.connect()
        cases: list[tuple[dict[str, Any], str]] = [
            ({}, "cols"),
            ({"cols": 80}, "rows"),
            ({"rows": 24}, "cols"),
            ({"tty": False, "cols": 80}, "cols"),
            ({"tty": False, "rows": 24}, "rows"),
            ({"tty": False, "term": "xterm"}, "term"),
            ({"cols": 0, "rows": 24}, "cols"),
            ({"cols": 80, "rows": 1001}, "rows"),
            ({"cols": 80, "rows": 24, "command": ""}, "command"),
            ({"cols": 80, "rows": 24, "command": "a\0b"}, "command"),
            ({"cols": 80, "rows": 24, "command": "x" * 10_001}, "command"),
            ({"cols": 80, "rows": 24, "term": "../../x"}, "term"),
            ({"cols": 80, "rows": 24, "term": "a\nb"}, "term"),
            ({"cols": 80, "rows": 24, "term": "x" * 65}, "term"),
            ({"cols": 80, "rows": 24, "term": ""}, "term"),
            ({"cols": 80, "rows": 24, "cwd": "/"}, "cwd"),
        ]
        for params, field in cases:
            with self.assertRaises(RefusedError) as caught:
                client.ask("terminals.open", sessionId=self.session, **params)
            self.assertEqual((caught.exception.code, caught.exception.data.get("field")), (-32602, field), params)
        shell = client.open(self.session, "cat", tty=False)
        with self.assertRaises(RefusedError) as caught:
            shell.resize(80, 24)
        self.assertEqual(caught.exception.slug, "invalid_request")
        self.settled_after(shell)

    def test_a_long_command_of_any_characters(self) -> None:
        """D9."""
        client = self.connect()
        out, code, _ = client.run(self.session, "printf %s '" + "𝄞" * 9988 + "'", tty=False)
        self.assertEqual((out.decode(), code), ("𝄞" * 9988, 0))

    def settled_after(self, shell: Any) -> None:
        """Closes `shell`; nothing is left."""
        shell.close()
        shell.wait()
        self.settled()
