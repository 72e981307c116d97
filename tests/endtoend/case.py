"""A test case with one daemon for the whole class, and Unix users when it runs as root."""

from __future__ import annotations

import os
from typing import ClassVar

from twisted.trial.unittest import SynchronousTestCase

from tests.endtoend.client import Client
from tests.endtoend.computer import Account, Computer, eventually


class ComputerCase(SynchronousTestCase):
    """One daemon a class; as root its terminals run as a Unix user made for it. Each test has a session of its own.

    Class attributes:
        options: More options of the daemon.
        environ: More of its environment.
        root_only: Skips, with a reason, when not root.
    """

    options: ClassVar[tuple[str, ...]] = ()
    environ: ClassVar[dict[str, str]] = {}
    root_only: ClassVar[bool] = False
    computer: ClassVar[Computer]
    agent: ClassVar[Account | None]

    @classmethod
    def setUpClass(cls) -> None:
        if cls.root_only and os.geteuid() != 0:
            return
        cls.agent = Account.make() if os.geteuid() == 0 else None
        cls.computer = Computer(agent=cls.agent, options=cls.options, environ=dict(cls.environ))
        try:
            cls.computer.start()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls) -> None:
        if cls.root_only and os.geteuid() != 0:
            return
        cls.computer.remove()
        if cls.agent is not None:
            cls.agent.remove()

    def setUp(self) -> None:
        if self.root_only and os.geteuid() != 0:
            self.skipTest("needs root: it makes Unix users")
        self.session = self.computer.session()

    def connect(self, member: str = "alice", *arguments: str) -> Client:
        """A connection that ends with the test."""
        client = self.computer.client(member, *arguments)
        self.addCleanup(client.socket.close)
        return client

    def settled(self) -> None:
        """Nothing of a terminal is left in the daemon."""
        eventually(lambda: self.computer.footprint()[1:] == (0, 0), "no pseudo-terminal and no child is left")
