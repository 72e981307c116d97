"""System calls that fail, and users that try their luck, with a whole daemon (D2, D13, D14 of the threat model)."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import termios
import tty
from typing import ClassVar

from attrs import define, field

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, RefusedError, Shell
from tests.endtoend.computer import Computer, agents_python, eventually
from tests.endtoend.test_life import LifeCase


@define(eq=False)
class Traced(Computer):
    """A daemon whose system calls, and its children's, fail as strace is told.

    Attributes:
        inject: See strace(1), `--inject`.
    """

    inject: str = ""

    def command(self) -> list[str]:
        """See `Computer`. -D: the tracer is a grandchild, so that the process is the daemon."""
        call = self.inject.partition(":")[0]
        return [
            "strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={self.inject}",
            *Computer.command(self),
        ]  # fmt: skip


class FailedDropTests(LifeCase):
    """D2: a user's program never runs as somebody else."""

    def test_the_program_is_not_run_and_the_journal_says_nothing_of_it(self) -> None:
        """D2: an error for the caller, no event, and nothing stays."""
        if self.agent is None or shutil.which("strace") is None:
            self.skipTest("needs root and strace")
        for inject in ("setresuid:error=EPERM", "setgroups:error=EPERM", "setresgid:retval=0"):
            computer = Traced(agent=self.agent, inject=inject)
            self.addCleanup(computer.remove)
            computer.start()
            session = computer.session()
            client = computer.client()
            mark = computer.folder / "ran"
            for tty_ in (True, False):
                with self.assertRaises(RefusedError) as caught:
                    client.open(session, f"touch {mark}", tty=tty_)
                self.assertEqual(
                    (caught.exception.slug, caught.exception.data["status"]), ("computer_unavailable", 503)
                )
            self.assertFalse(mark.exists(), inject)
            self.assertEqual(self.agent.processes(), [])
            eventually(lambda c=computer: c.footprint()[1:] == c.at_rest, "no terminal is left")
            types = {str(event["type"]) for event in computer.events(session)}
            self.assertFalse({"terminal.opened", "terminal.closed"} & types, types)
            client.socket.close()
            computer.stop()


@define(eq=False)
class AtATerminal(Computer):
    """A daemon that somebody has started by hand: it has a controlling terminal.

    Attributes:
        keyboard: The master of it.
        screen: Its slave.
    """

    keyboard: int = field(default=-1)
    screen: int = field(default=-1)

    def command(self) -> list[str]:
        """See `Computer`. It makes its own session, and the terminal becomes that session's."""
        # the first terminal that the leader of a session opens
        script = f"import os, sys; os.open({os.ttyname(self.screen)!r}, os.O_RDWR); os.execv(sys.argv[1], sys.argv[1:])"
        return [sys.executable, "-c", script, *Computer.command(self)]

    def start(self) -> None:
        """See `Computer`."""
        self.keyboard, self.screen = os.openpty()
        tty.setraw(self.screen)  # so that every byte that is typed can be read at once
        Computer.start(self)

    def typed(self) -> int:
        """Bytes that somebody has typed at it."""
        return int.from_bytes(fcntl.ioctl(self.screen, termios.FIONREAD, b"\0" * 4), sys.byteorder)

    def remove(self) -> None:
        """See `Computer`."""
        Computer.remove(self)
        for number in (self.keyboard, self.screen):
            if number >= 0:
                os.close(number)


TYPE = """
import fcntl, os, termios
tried = 0
for path in ("/dev/tty", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/proc/%d/fd/0" % os.getppid()):
    for flags in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY):
        for n in range(200):
            tried += 1
            try:
                number = os.open(path, flags | os.O_NONBLOCK)
            except OSError:
                break
            try:
                fcntl.ioctl(number, termios.TIOCSTI, b"x")
                print("typed at", path)
            except OSError:
                pass
            os.close(number)
try:
    os.open("/dev/tty", os.O_RDWR)
except OSError as error:
    print("tty:", error.strerror)
print("tried", tried, "sid", os.getsid(0) == os.getpgid(os.getppid()) == os.getppid())
"""


class StartedByHandTests(LifeCase):
    """D13: root's shell is not typed at from a terminal."""

    def test_nothing_is_typed_at_the_daemons_terminal(self) -> None:
        """D13: not with TIOCSTI either, in pipe mode, where the program has no terminal of its own."""
        computer = AtATerminal(agent=self.agent)
        self.addCleanup(computer.remove)
        computer.start()
        attack = computer.folder / "type.py"
        attack.write_text(TYPE)
        attack.chmod(0o644)
        client = computer.client()
        session = computer.session()
        with open(f"/proc/{computer.pid}/stat") as stat:
            self.assertNotEqual(stat.read().rpartition(")")[2].split()[4], "0")  # it has a terminal
        out, code, _ = client.run(session, f"{agents_python()} {attack}; exit 0", tty=False)
        self.assertEqual(code, 0)
        self.assertNotIn(b"typed at", out)
        self.assertIn(b"tty: No such device or address", out)
        self.assertIn(b"sid True", out)
        # on a terminal of its own it may type, at itself
        client.run(session, f"{agents_python()} {attack}", tty=True)
        self.assertEqual(computer.typed(), 0)


class ManyClosesTests(ComputerCase):
    """D14: what a close signals."""

    rounds: ClassVar[int] = 25

    def test_two_hundred_closes_hit_nobody_else(self) -> None:
        """D14: in pipe mode, children that change their group and session just before; the daemon and a bystander live on."""
        bystander = self.computer.client()
        self.addCleanup(bystander.socket.close)
        other = bystander.open(self.computer.session(), "stty raw -echo; echo go; cat")
        other.expect(b"go")
        pid = self.computer.pid
        for _ in range(self.rounds):
            client = self.computer.client()  # each has its hundred requests
            shells = [self.restless(client) for _ in range(8)]
            for shell in shells:
                shell.expect(b"go\n")
            sent = [client.send("terminals.close", terminalId=shell.id) for shell in shells]
            for number in sent:
                client.answer(number)
            for shell in shells:
                self.assertEqual(shell.wait(8), (None, "SIGHUP"))
            client.socket.close()
        other.type(b"alive")
        other.expect(b"alive")
        self.assertEqual((self.computer.running, self.computer.pid), (True, pid))
        bystander.socket.close()
        self.settled()

    def restless(self, client: Client) -> Shell:
        """A program whose children go over into groups of their own. They end by themselves: who left is not hit either."""
        script = (
            "for (1, 2) { unless (fork) { setpgrp(0, 0); close $_ for (STDIN, STDOUT, STDERR); alarm 2; sleep 6013 } } "
            "$| = 1; print qq(go\\n); sleep 6013"
        )
        return client.open(self.session, f"exec perl -e '{script}'", tty=False)
