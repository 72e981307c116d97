"""What the service manager hears."""

from __future__ import annotations

import os
import socket

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.tap.notify import Notifier


class NotifierTests(SynchronousTestCase):
    """`Notifier`."""

    def setUp(self) -> None:
        self.path = self.mktemp()
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        self.manager.bind(self.path)
        self.manager.setblocking(False)
        self.path = os.path.abspath(self.path)

    def heard(self) -> list[str]:
        """Every datagram so far."""
        said = []
        try:
            while True:
                said.append(self.manager.recv(4096).decode())
        except BlockingIOError:
            return said

    def test_it_sends_its_lines(self) -> None:
        Notifier(self.path).send("READY=1", "STATUS=on")
        self.assertEqual(self.heard(), ["READY=1\nSTATUS=on"])

    def test_nobody_listens(self) -> None:
        Notifier(None).send("READY=1")
        Notifier("/nowhere/at/all").send("READY=1")
        self.assertEqual(self.heard(), [])

    def test_the_watchdog_is_fed_in_time(self) -> None:
        clock = Clock()
        notifier = Notifier.from_environ({"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": "3000000"}, 7)
        notifier.feed(clock)
        clock.pump([1.0] * 3)
        self.assertEqual(self.heard(), ["WATCHDOG=1"] * 4)
        notifier.starve()
        clock.advance(10)
        self.assertEqual(self.heard(), [])
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_a_watchdog_for_another_process_is_none(self) -> None:
        environ = {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "8"}
        self.assertIsNone(Notifier.from_environ(environ, 7).watchdog)
        self.assertEqual(Notifier.from_environ(environ, 8).watchdog, 3.0)

    def test_nonsense_in_the_environment(self) -> None:
        for environ in (
            {"NOTIFY_SOCKET": "relative"},
            {"NOTIFY_SOCKET": ""},
            {"WATCHDOG_USEC": "soon"},
            {"WATCHDOG_USEC": "0"},
        ):
            notifier = Notifier.from_environ(environ, 1)
            self.assertEqual((notifier.address, notifier.watchdog), (None, None))
