"""A test case with one daemon for all classes that want the same, and Unix users when it runs as root."""

from __future__ import annotations

import atexit
import os
from typing import ClassVar

from twisted.trial.unittest import SynchronousTestCase

from tests.endtoend.client import Client
from tests.endtoend.computer import Account, Computer, eventually


class _Stage:
    """The daemon of the class whose tests run now: trial knows no fixtures of a class. The next class takes it over, if it wants the same."""

    case: ClassVar[type[ComputerCase] | None] = None

    @classmethod
    def set_for(cls, case: type[ComputerCase]) -> None:
        """Has the daemon of `case` run, and no other."""
        before = cls.case
        if before is case and case.computer.running:
            return
        if before is not None and before.computer.running and cls._alike(before, case):
            computer = case.computer = before.computer
            case.agent = before.agent
            eventually(lambda: computer.footprint()[1:] == computer.at_rest, "nothing is left of the class before")
            cls.case = case
            return
        cls.clear()
        case.agent = Account.make() if os.geteuid() == 0 else None
        cls.case = case
        case.computer = Computer(agent=case.agent, options=case.options, environ=dict(case.environ))
        if case.agent is not None:
            case.arrange(case.agent)
        case.computer.start()

    @staticmethod
    def _alike(one: type[ComputerCase], other: type[ComputerCase]) -> bool:
        wanted = [(case.options, case.environ, case.arrange.__func__, case.own) for case in (one, other)]  # type: ignore[attr-defined]
        return wanted[0] == wanted[1] and not other.own

    @classmethod
    def clear(cls) -> None:
        """Ends it and removes its user."""
        case, cls.case = cls.case, None
        if case is not None:
            case.computer.remove()
            if case.agent is not None:
                case.agent.remove()


atexit.register(_Stage.clear)


class ComputerCase(SynchronousTestCase):
    """A daemon; as root its terminals run as a Unix user made for it. Each test has a session of its own.

    Class attributes:
        options: More options of the daemon.
        environ: More of its environment.
        own: Shares the daemon with no other class.
        root_only: Skips, with a reason, when not root.
    """

    options: ClassVar[tuple[str, ...]] = ()
    environ: ClassVar[dict[str, str]] = {}
    own: ClassVar[bool] = False
    root_only: ClassVar[bool] = False
    computer: ClassVar[Computer]
    agent: ClassVar[Account | None]

    def setUp(self) -> None:
        if self.root_only and os.geteuid() != 0:
            self.skipTest("needs root: it makes Unix users")
        _Stage.set_for(type(self))
        self.session = self.computer.session()

    @classmethod
    def arrange(cls, agent: Account) -> None:
        """Changes the agent's Unix user before the daemon starts."""

    def connect(self, member: str = "alice", *arguments: str) -> Client:
        """A connection that ends with the test."""
        client = self.computer.client(member, *arguments)
        self.addCleanup(client.socket.close)
        return client

    def quiet(self) -> None:
        """Waits until the daemon has nothing to do: for a fifth of a second it uses no processor time."""
        seen = [self.computer.cpu()]

        def idle() -> bool:
            seen.append(self.computer.cpu())
            return len(seen) > 10 and seen[-1] == seen[-10]

        eventually(idle, "the daemon is quiet")

    def settled(self) -> None:
        """No terminal is left in the daemon, but its reserve of pseudo-terminals."""
        eventually(lambda: self.computer.footprint()[1:] == self.computer.at_rest, "no terminal is left")
