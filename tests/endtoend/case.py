"""A test case with one daemon for all classes that want the same, and Unix users when it runs as root."""

from __future__ import annotations

import atexit
import os
from typing import ClassVar

from twisted.trial.unittest import SynchronousTestCase

from tests.endtoend.client import Client
from tests.endtoend.computer import Account, Computer, eventually


class _Stage:
    """The daemons that run now: trial knows no fixtures of a class.

    Attributes:
        case: Whose tests run.
        plain: Who has started the daemon that all share who want nothing special.
        special: Who has started one for himself; it ends with his tests.
    """

    case: ClassVar[type[ComputerCase] | None] = None
    plain: ClassVar[type[ComputerCase] | None] = None
    special: ClassVar[type[ComputerCase] | None] = None

    @classmethod
    def set_for(cls, case: type[ComputerCase]) -> None:
        """Has a daemon run as `case` wants it."""
        if cls.case is case and case.computer.running:
            return
        cls.case = case
        special, cls.special = cls.special, None
        cls._end(special)
        if case.is_special():
            cls.special = case
        elif cls.plain is not None and cls.plain.computer.running:
            computer = case.computer = cls.plain.computer
            case.agent = cls.plain.agent
            eventually(lambda: computer.footprint()[1:] == computer.at_rest, "nothing is left of the class before")
            return
        else:
            cls.plain = case
        case.agent = Account.make() if os.geteuid() == 0 else None
        case.computer = Computer(agent=case.agent, options=case.options, environ=dict(case.environ))
        if case.agent is not None:
            case.arrange(case.agent)
        case.computer.start()

    @classmethod
    def clear(cls) -> None:
        """Ends all."""
        cls._end(cls.special)
        cls._end(cls.plain)

    @staticmethod
    def _end(case: type[ComputerCase] | None) -> None:
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
        self.computer.new_page()
        self.session = self.computer.session()

    @classmethod
    def is_special(cls) -> bool:
        """Whether it wants a daemon that others do not."""
        arranges = cls.arrange.__func__ is not ComputerCase.arrange.__func__  # type: ignore[attr-defined]
        return bool(cls.own or cls.options or cls.environ or arranges)

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
