"""What systemd is told: that the daemon is ready, lives, reloads, stops. Source: sd_notify(3).

Nothing is sent when `NOTIFY_SOCKET` is not set. The watchdog is fed by the reactor, never by a thread, so that it bites when
the reactor hangs.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Self

from attrs import define
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall


@define(eq=False)
class Notifier:
    """Speaks to the service manager.

    Attributes:
        address: Of its datagram socket, or None: there is none.
        watchdog: Seconds within which it wants to hear from us, or None.
    """

    address: str | None = None
    watchdog: float | None = None
    _feeding: LoopingCall | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], pid: int) -> Self:
        """As the environment says; a watchdog that is meant for another process is none."""
        address = environ.get("NOTIFY_SOCKET")
        if address is not None and address[:1] not in ("/", "@"):
            address = None
        period = environ.get("WATCHDOG_USEC", "")
        meant_for = environ.get("WATCHDOG_PID", str(pid))
        wanted = period.isdigit() and int(period) > 0 and meant_for == str(pid)
        return cls(address, int(period) / 1e6 if wanted else None)

    def send(self, *lines: str) -> None:
        """Sends assignments such as `READY=1`. Never raises: a manager that does not listen is no reason to stop."""
        if self.address is None:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as to:
                to.sendto("\n".join(lines).encode(), address)
        except OSError:
            return

    def feed(self, reactor: IReactorTime) -> None:
        """Feeds the watchdog three times in each of its periods."""
        if self.watchdog is None or self.address is None or self._feeding is not None:
            return
        self._feeding = LoopingCall(self.send, "WATCHDOG=1")
        self._feeding.clock = reactor
        self._feeding.start(self.watchdog / 3)

    def starve(self) -> None:
        """Feeds it no more."""
        if self._feeding is not None and self._feeding.running:
            self._feeding.stop()
        self._feeding = None
