"""The small parts that decide something: exit statuses, the pulse, the window, sizes, colours, imports."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from computerd.opc import arguments, link, plan, say, sessions
from computerd.opc.calls import Calls
from computerd.opc.plan import Plan
from computerd.opc.pulse import PING_SECONDS, SILENCE_SECONDS, Pulse
from computerd.opc.window import RESIZE_SECONDS, Window
from tests.opc.person import ROOT


class ExitTests(SynchronousTestCase):
    def test_statuses(self) -> None:
        for code in (0, 1, 44, 137, 255):
            self.assertEqual(plan.exited(code, None).status, code)
        self.assertEqual(plan.exited(None, "SIGKILL").status, 137)
        self.assertEqual(plan.exited(None, "SIGTERM").status, 143)

    def test_what_is_not_said_is_no_success(self) -> None:
        for code, name in (
            (None, None),
            (None, "SIGNONSENSE"),
            (True, None),
            (False, None),
            (-1, None),
            (256, None),
            ("0", None),
        ):
            self.assertEqual(plan.exited(code, name).status, 255)


class PulseTests(SynchronousTestCase):
    def test_a_silent_link_is_lost_within_a_minute(self) -> None:
        pulse, now, pings = Pulse(0.0), 0.0, 0
        while not pulse.lost(now):
            pings += pulse.due(now)
            self.assertGreater(pulse.wait(now), 0)
            now += pulse.wait(now)
        self.assertLess(now, 60)
        self.assertEqual(pings, 2)

    def test_an_answer_keeps_it(self) -> None:
        pulse = Pulse(0.0)
        for count in range(1, 10):
            now = count * PING_SECONDS
            self.assertTrue(pulse.due(now))
            pulse.heard(now + 0.25)
            pulse.pong(now + 0.25)
            self.assertFalse(pulse.lost(now + 0.25))
        self.assertEqual(pulse.round_trip, 0.25)
        self.assertTrue(pulse.lost(now + SILENCE_SECONDS + 1))


class WindowTests(SynchronousTestCase):
    def test_changes_are_gathered(self) -> None:
        size = (80, 24)
        window = Window(size, lambda: size)
        told, now = [], 0.0
        for columns in range(81, 181):
            size = (columns, 24)
            window.changed(now)
            now += 0.001
            told += [news] if (news := window.news(now)) else []
        window.changed(now)
        now = window.due or now
        told += [news] if (news := window.news(now)) else []
        self.assertLessEqual(len(told), 0.1 / RESIZE_SECONDS + 2)
        self.assertEqual(told[0], (81, 24))
        self.assertEqual(told[-1], (180, 24))

    def test_no_change_is_no_news(self) -> None:
        window = Window((80, 24), lambda: (80, 24))
        window.changed(0.0)
        self.assertIsNone(window.news(1.0))
        window.forget(1.0)
        self.assertEqual(window.news(2.0), (80, 24))

    def test_a_fixed_size(self) -> None:
        window = Window((80, 24), None)
        window.changed(0.0)
        window.forget(0.0)
        self.assertIsNone(window.due)
        self.assertIsNone(window.news(9.0))


class PlanTests(SynchronousTestCase):
    def test_params(self) -> None:
        tty = Plan("cs_1", None, True, (80, 24), False, "xterm")
        self.assertEqual(tty.params(), {"sessionId": "cs_1", "tty": True, "cols": 80, "rows": 24, "term": "xterm"})
        pipes = Plan("cs_1", "ls", False, (80, 24), False, "xterm")
        self.assertEqual(pipes.params(), {"sessionId": "cs_1", "tty": False, "command": "ls"})


class ArgumentsTests(SynchronousTestCase):
    def test_globals_go_before_and_after_the_verb(self) -> None:
        for words in (["--url", "U", "-v", "exec", "ls"], ["exec", "--url", "U", "-v", "ls"]):
            options = arguments.parse(words)
            self.assertEqual((options.url, options.verbose, options.command), ("U", 1, ["ls"]))

    def test_the_terminals_options(self) -> None:
        options = arguments.parse(
            ["shell", "cs_x", "-tt", "-e", "none", "-n", "--size", "120x40", "--term=vt100", "--", "a", "-T"]
        )
        self.assertEqual((options.session, options.tty, options.escape, options.no_input), ("cs_x", 2, "none", True))
        self.assertEqual(
            (options.size, options.term, options.command, options.no_tty), ((120, 40), "vt100", ["a", "-T"], False)
        )

    def test_abbreviations_are_refused(self) -> None:
        self.patch(sys, "stderr", io.StringIO())
        error = self.assertRaises(SystemExit, arguments.parse, ["sessions", "--lim", "3"])
        self.assertEqual(error.code, 2)


class CallsTests(SynchronousTestCase):
    def test_answers_find_their_question(self) -> None:
        calls, heard = Calls(), []
        for name in ("a", "b"):
            calls.request("ping", {}, lambda result, error, name=name: heard.append((name, result, error)))  # type: ignore[misc]
        self.assertIsNone(calls.take(b'{"jsonrpc":"2.0","id":2,"result":{"x":1}}'))
        self.assertIsNone(
            calls.take(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"m","data":{"code":"c"}}}')
        )
        self.assertEqual(heard, [("b", {"x": 1}, None), ("a", None, {"code": "c"})])

    def test_what_is_neither_is_passed_over(self) -> None:
        calls = Calls()
        for text in (
            b"",
            b"[]",
            b"null",
            b'{"id":9,"result":{}}',
            b'{"id":null,"error":{}}',
            b'{"id":"x"}',
            b'{"method":1}',
            b"\xff",
        ):
            self.assertIsNone(calls.take(text))
        self.assertEqual(calls.take(b'{"method":"ready","params":{}}'), ("ready", {}))


class SayingTests(SynchronousTestCase):
    def test_colour(self) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        terminal, pipe = Terminal(), io.StringIO()
        self.assertTrue(say.colored(terminal, "auto", {"TERM": "xterm", "NO_COLOR": ""}))
        self.assertFalse(say.colored(terminal, "auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}))
        self.assertFalse(say.colored(terminal, "auto", {"TERM": "dumb"}))
        self.assertFalse(say.colored(pipe, "auto", {}))
        self.assertTrue(say.colored(pipe, "auto", {"FORCE_COLOR": "1"}))
        self.assertTrue(say.colored(pipe, "always", {"NO_COLOR": "1"}))
        self.assertFalse(say.colored(terminal, "never", {"FORCE_COLOR": "1"}))
        self.assertFalse(say.colored(None, "auto", {}))

    def test_every_close_code_says_what_to_do(self) -> None:
        for code in (1001, 1002, 1007, 1008, 1009, 1012, 4001, 4008, 4029, 4400, 4503, 1011, 4999):
            lost = link.closed(code, "")
            self.assertIn(f"({code}", str(lost))
            self.assertEqual(lost.code, code)

    def test_the_reason_of_an_unknown_close_does_not_steer_the_terminal(self) -> None:
        self.assertIn("(4999: a [2Jb)", str(link.closed(4999, "a\x1b[2Jb")))

    def test_a_strangers_title_does_not_steer_the_terminal(self) -> None:
        lines = sessions.table([{"id": "cs_1", "title": "a\x1b]0;x\x07\nb", "owner": None}], color=False)
        self.assertEqual(len(lines), 2)
        self.assertNotIn("\x1b", lines[1])

    def test_whom_a_token_speaks_for(self) -> None:
        claims = base64.urlsafe_b64encode(json.dumps({"sub": "ada"}).encode()).decode().rstrip("=")
        self.assertEqual(sessions.subject(f"x.{claims}.y"), "ada")
        for token in (None, "", "opaque", "a.b.c", "a.W10.c", "a.e30.c", "a.\xff.c"):
            self.assertIsNone(sessions.subject(token))


class ImportTests(SynchronousTestCase):
    def test_what_needs_no_daemon_is_quick(self) -> None:
        """Twisted alone takes 0.3 s to import, msgspec 30 ms, wsproto 50 ms, attrs 20 ms."""
        code = (
            "import sys, contextlib, computerd.opc.main as m\n"
            "with contextlib.suppress(SystemExit): m.main(sys.argv[1:])\n"
            "print('\\n' + ' '.join(sorted(sys.modules)))"
        )
        for words in (
            ["--help"],
            ["shell", "--help"],
            ["sessions", "--help"],
            ["events", "--help"],
            ["--version"],
            ["version"],
            ["schema"],
            ["completion", "bash"],
            ["config", "show"],
        ):
            done = subprocess.run(
                [sys.executable, "-c", code, *words],
                env={"PYTHONPATH": ROOT, "OPC_LOCAL_SOCKET": "/nonexistent", "HOME": "/nonexistent"},
                capture_output=True,
                check=True,
                text=True,
            )
            loaded = done.stdout.rpartition("\n\n")[2] if "\n\n" in done.stdout else done.stdout
            modules = set(loaded.split())
            self.assertIn("computerd.opc.main", modules)
            self.assertEqual(
                modules
                & {"twisted", "autobahn", "msgspec", "cryptography", "asyncio", "shtab", "attr", "wsproto", "h11"},
                set(),
                words,
            )
