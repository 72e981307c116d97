"""Slows down who presents forged credentials, without locking out anybody else.

The numbers are sshd's (`PerSourcePenalties`, `PerSourceNetBlockSize`): each failure costs an address 5 s, over 15 s it is
refused without a look at what it sends, at most for 10 minutes; an IPv6 neighbourhood counts as one address.

Addresses of this machine are shared by its owner, by whoever he puts a proxy in front for, and by the agents' own
programs. Whatever is refused there, be it only over a budget of checks that they share, any of them can have refused for the owner. So nothing
is: a forgery costs its check (110 µs, less than its connection), and is the last request on its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from attrs import define, field
from twisted.internet.address import IPv4Address as TcpAddress
from twisted.internet.address import IPv6Address as Tcp6Address
from twisted.internet.interfaces import IAddress

from computerd.net.limited import Limited

PENALTY_SECONDS: Final = 5.0
REFUSED_OVER_SECONDS: Final = 15.0
MAX_PENALTY_SECONDS: Final = 600.0
MAX_SOURCES: Final = 65_536


def source(address: IAddress) -> str | None:
    """The name under which a peer is counted; None for this machine itself."""
    if not isinstance(address, TcpAddress | Tcp6Address):
        return None
    try:
        host = ip_address(address.host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(host, IPv6Address) and host.ipv4_mapped is not None:
        host = host.ipv4_mapped
    if host.is_loopback:
        return None
    if isinstance(host, IPv4Address):
        return str(host)
    return str(IPv6Address(int(host) >> 64 << 64))


@define(eq=False)
class Throttle:
    """Remembers who failed, as the moment up to which each has to pay.

    Attributes:
        seconds: A monotonic clock.
    """

    seconds: Callable[[], float]
    _until: dict[str, float] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._until)

    def check(self, origin: str | None) -> None:
        """Refuses who has failed too often.

        Raises:
            ApiError: `rate_limited`, with the time to wait.
        """
        until = None if origin is None else self._until.get(origin)
        if until is None:
            return
        excess = until - self.seconds() - REFUSED_OVER_SECONDS
        if excess > 0:
            raise _slow_down(max(1, round(1000 * excess)))

    def failed(self, origin: str | None) -> None:
        """A forged credential came from there."""
        if origin is None:
            return
        now = self.seconds()
        until = max(now, self._until.pop(origin, 0.0)) + PENALTY_SECONDS
        if len(self._until) >= MAX_SOURCES:
            self._make_room()
        self._until[origin] = min(until, now + MAX_PENALTY_SECONDS)

    def _make_room(self) -> None:
        # insertion order is the order of the last failure: who failed longest ago goes first
        for origin in list(self._until)[: MAX_SOURCES // 16]:
            del self._until[origin]


def _slow_down(wait_ms: int) -> Limited:
    return Limited(
        "credentials",
        "Too many credentials from this address were not valid: wait, and check the credential.",
        retry_after_ms=wait_ms,
    )
