"""End to end: `opc` on a terminal."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.opc.person import OPC, SHELL_OPC, Daemon, Person, wait_until

PATIENT = "trap '' HUP; "
FULL_SCREEN = r"printf '\033[?1049h\033[?25l\033[?1000;1006h\033[?2004h\033[?1004h\033[>1u\033[31mfull''screen'; "


class OnATty(SynchronousTestCase):
    """Each test has a person who works at one terminal."""

    def setUp(self) -> None:
        self.daemon = Daemon.start()
        self.addCleanup(self.daemon.stop)

    def person(self, *words: str, env: dict[str, str] | None = None, **more: Any) -> Person:
        person = Person.at([*OPC, *words], self.daemon.env(**(env or {})), **more)
        self.addCleanup(person.leave)
        self.before = person.modes
        return person

    def assert_restored(self, person: Person) -> None:
        self.assertEqual(person.modes, self.before)

    def test_a_shell(self) -> None:
        person = self.person("shell", size=(100, 30))
        person.look(b"$ ")
        self.assertTrue(person.is_raw)
        person.type(b"tty && stty size; echo $TERM\r")
        person.look(b"/dev/pts/")
        person.look(b"30 100\r\nxterm-256color\r\n")
        person.type(b"exit 7\r")
        status, shown = person.end()
        self.assertEqual(status, 7)
        self.assert_restored(person)
        self.assertNotIn(b"opc:", shown)

    def test_nothing_is_added_to_a_normal_end(self) -> None:
        person = self.person("shell", "-q", "--", FULL_SCREEN + "exit 3")
        status, shown = person.end()
        self.assertEqual(status, 3)
        self.assertTrue(shown.endswith(b"fullscreen"), shown)
        self.assert_restored(person)

    def test_the_window_changes(self) -> None:
        """BR-121."""
        person = self.person("shell", "--", "trap 'stty size' WINCH; echo ready; while :; do read x; done")
        person.look(b"ready")
        for columns in range(90, 101):
            person.resize(columns, 33)
        person.look(b"33 100\r\n")
        resizes = self.daemon.requests().count("terminals.resize")
        self.assertLess(resizes, 11)

    def test_a_fixed_size(self) -> None:
        person = self.person("shell", "--size", "132x50", "--", "trap 'stty size' WINCH; echo ready; read x; stty size")
        person.look(b"ready")
        person.resize(99, 33)
        person.type(b"\r")
        person.look(b"50 132\r\n")

    def test_control_c_is_the_programs(self) -> None:
        """BR-121."""
        person = self.person("shell", "--", "trap 'echo got it; exit 9' INT; echo ready; while :; do sleep 0.05; done")
        person.look(b"ready")
        person.type(b"\x03")
        person.look(b"got it")
        self.assertEqual(person.end()[0], 9)

    def test_escapes(self) -> None:
        person = self.person("shell")
        person.look(b"$ ")
        person.type(b"~?")
        person.look(b"~.   - leave")
        person.type(b"~#")
        person.look(b"session cs_")
        person.type(b"~~\r")
        person.look(b"~\r\n")
        person.look(b"$ ")
        person.type(b"echo a~.b\r")
        person.look(b"a~.b\r\n")
        person.look(b"$ ")
        person.type(b"~.")
        status, shown = person.end()
        self.assertEqual(status, 255)
        self.assertIn(b"opc: left the terminal", shown)
        self.assert_restored(person)

    def test_no_escapes(self) -> None:
        person = self.person("shell", "-e", "none", "--", "cat")
        wait_until(lambda: person.is_raw, "raw")
        person.type(b"~.\r")
        person.look(b"~.\r\n~.\r\n")
        person.type(b"\x04")
        self.assertEqual(person.end()[0], 0)

    def test_every_ending_signal_restores(self) -> None:
        """BR-115."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT):
            person = self.person("shell", "--", FULL_SCREEN + "exec sleep 60")
            person.look(b"fullscreen")
            self.assertTrue(person.is_raw)
            person.kill(number)
            status, shown = person.end()
            self.assertEqual(status, 128 + number)
            self.assert_restored(person)
            for sequence in (b"?1049l", b"?25h", b"?1000l", b"?1006l", b"?2004l", b"?1004l", b"\x1b[<1u", b"\x1b[m"):
                self.assertIn(sequence, shown)
            self.assertNotIn(b"?1002l", shown)

    def test_a_signal_within_vim(self) -> None:
        if shutil.which("vim") is None:
            raise SkipTest("needs vim")
        person = self.person("shell", "--", "vim -N -n -u NONE -c 'set showmode mouse=a' -c startinsert")
        person.look(b"-- INSERT --")
        person.type(b"hello")
        person.look(b"hello")
        person.kill(signal.SIGTERM)
        status, shown = person.end()
        self.assertEqual(status, 143)
        self.assertIn(b"?1049l", shown)
        self.assert_restored(person)

    def test_the_programs_death_by_signal(self) -> None:
        person = self.person("shell", "--", FULL_SCREEN + "kill -9 $$")
        status, shown = person.end()
        self.assertEqual(status, 137)
        self.assertIn(b"?1049l", shown)
        self.assert_restored(person)

    def test_the_daemon_dies(self) -> None:
        person = self.person("shell", "--", FULL_SCREEN + "exec sleep 60")
        person.look(b"fullscreen")
        self.daemon.process.kill()
        status, shown = person.end()
        self.assertEqual(status, 255)
        self.assertIn(b"?1049l", shown)
        self.assertIn(b"opc: the daemon ended the connection", shown)
        self.assert_restored(person)

    def test_the_daemon_closes(self) -> None:
        person = self.person("shell")
        person.look(b"$ ")
        self.daemon.tell("/_/close", code=4001, reason="x")
        status, shown = person.end()
        self.assertEqual(status, 255)
        self.assertIn(
            b"\nopc: the daemon closed the connection (4001: the credential expired or was revoked). Get a new token",
            shown,
        )
        self.assert_restored(person)

    def test_no_daemon(self) -> None:
        person = self.person("shell", env={"OPC_LOCAL_SOCKET": "/nonexistent/local.sock"})
        status, shown = person.end()
        self.assertEqual(status, 255)
        self.assertIn(b"opc: found no daemon", shown)
        self.assert_restored(person)

    def test_colour(self) -> None:
        there = {"OPC_LOCAL_SOCKET": "/nonexistent/local.sock"}
        for env, coloured in (
            ({"NO_COLOR": ""}, True),
            ({"NO_COLOR": "1"}, False),
            ({"NO_COLOR": "", "TERM": "dumb"}, False),
        ):
            _, shown = self.person("shell", env={**there, **env}).end()
            self.assertEqual(b"\x1b[" in shown, coloured, env)
        _, shown = self.person("shell", "--color=always", env=there).end()
        self.assertIn(b"\x1b[1;31mopc:", shown)

    def test_suspended_and_continued(self) -> None:
        if shutil.which("bash") is None:
            raise SkipTest("needs a shell with job control")
        env = self.daemon.env(PS1="local$ ")
        person = Person.at(["bash", "--norc", "--noprofile", "--noediting", "-i"], env)
        self.addCleanup(person.leave)
        person.look(b"local$ ")
        person.type(SHELL_OPC.encode() + b" shell -- 'PS1=remote.; exec sh -i'\n")
        person.look(b"remote.")
        wait_until(lambda: person.is_raw, "raw")
        person.type(b"~\x1a")
        person.look(b"Stopped")
        person.look(b"local$ ")
        self.assertFalse(person.is_raw)
        person.resize(97, 31)
        person.type(b"fg\n")
        wait_until(lambda: person.is_raw, "raw again")
        person.type(b"stty size; exit 4\r")
        person.look(b"31 97")
        person.look(b"local$ ")
        self.assertFalse(person.is_raw)
        person.type(b"echo was $?\n")
        person.look(b"was 4")

    def test_stopped_from_outside(self) -> None:
        person = self.person("shell")
        person.look(b"$ ")
        person.kill(signal.SIGSTOP)
        wait_until(lambda: _state(person.process.pid) == "T", "stopped")
        # as a shell does that takes the terminal back
        subprocess.run(["stty", "sane"], stdin=person.slave, check=True)
        self.assertFalse(person.is_raw)
        person.kill(signal.SIGCONT)
        wait_until(lambda: person.is_raw, "raw again")
        person.type(b"exit 6\r")
        self.assertEqual(person.end()[0], 6)
        self.assert_restored(person)

    def test_output_that_is_no_terminal(self) -> None:
        read, write = os.pipe()
        person = self.person("shell", "-q", "--", "test -t 1 && stty size", stdout=write, size=(77, 22))
        os.close(write)
        with open(read, "rb") as file:
            self.assertEqual(file.read(), b"22 77\r\n")
        self.assertEqual(person.end()[0], 0)
        self.assert_restored(person)

    def test_exec_is_on_pipes(self) -> None:
        person = self.person("exec", "--", "test -t 0 || echo pipes; cat")
        person.look(b"pipes")
        self.assertFalse(person.is_raw)
        person.type(b"line\n\x04")
        person.look(b"line\r\nline\r\n")
        self.assertEqual(person.end()[0], 0)

    def test_interrupting_exec(self) -> None:
        person = self.person("exec", "--", "echo ready; exec sleep 60")
        person.look(b"ready")
        person.type(b"\x03")
        self.assertEqual(person.end()[0], 130)
        wait_until(lambda: "terminals.close" in self.daemon.requests(), "a close")

    def test_a_defect_restores(self) -> None:
        breaking = (
            "import computerd.opc.remote as r; r.Remote.tend_in = lambda self, now: 1 / 0 if self.received else 9.0; "
        )
        argv = [
            OPC[0],
            "-c",
            breaking + "import sys, computerd.opc.main as m; sys.exit(m.main(['shell', '--', sys.argv[1]]))",
        ]
        person = Person.at([*argv, FULL_SCREEN + "exec sleep 60"], self.daemon.env())
        self.addCleanup(person.leave)
        before = person.modes
        status, shown = person.end()
        self.assertEqual(status, 255)
        self.assertIn(b"?1049l", shown)
        self.assertIn(b"opc: a defect of opc: ZeroDivisionError", shown)
        self.assertEqual(person.modes, before)


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]
