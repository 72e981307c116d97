"""D4 of the threat model: a program starts whatever the daemon's threads hold at that moment.

A lock that a thread holds at the moment of a fork is held for ever in the child (of the C library's allocator, of its name service, of Python):
whatever is looked up there between fork and exec can hang.
"""

from __future__ import annotations

import grp
import os
import pwd
import socket
import threading

from twisted.internet.defer import ensureDeferred, gatherResults

from tests.host.real import RealCase

_OPENS = int(os.environ.get("COMPUTERD_OPENS", "300"))
"""2,000 are what the threat model asks for before a release."""


class LookupTests(RealCase):
    """D4: names are looked up in four threads all the time."""

    def _look_up(self) -> None:
        while not self.enough.is_set():
            pwd.getpwnam(self.person.pw_name)
            grp.getgrgid(self.person.pw_gid)
            socket.getaddrinfo("localhost", 80)
            self.lookups += 1

    async def _opens(self, count: int) -> None:
        self.enough = threading.Event()
        self.lookups = 0
        threads = [threading.Thread(target=self._look_up) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for at in range(0, count, 5):
                ends = await gatherResults([ensureDeferred(self._one(at + n)) for n in range(5)])
                self.assertEqual([(3, None)] * 5, ends)
        finally:
            self.enough.set()
            for thread in threads:
                thread.join()
        self.assertGreater(self.lookups, count)

    async def _one(self, number: int) -> tuple[int | None, str | None]:
        _, recorder = await self.open("exit 3", (80, 24) if number % 2 else None)
        return await recorder.finish()

    async def test_no_child_hangs(self) -> None:
        """D4."""
        await self._opens(_OPENS)

    async def test_no_child_of_a_fork_hangs(self) -> None:
        """D4, as on old kernels."""
        self.spawner.configure(self.settings(fork=True))
        await self._opens(_OPENS // 3)
