"""One listener: hands its clients to the site, and knows what is served to them only because of where it listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from computerd.net.heads import is_loopback

if TYPE_CHECKING:
    from computerd.net.httpchannel import Channel
    from computerd.net.site import Site

Exposition = Callable[[], bytes]
"""Renders the metrics as they are now."""


class Entrance(Factory):
    """The factory of one listener's connections.

    Attributes:
        metrics: What `GET /metrics` answers to those who come in here; None: there is no such path. Nobody comes in before the listener
            is bound, and until whoever binds it has looked at its address, there are none.
    """

    noisy = False  # the daemon says once that it is ready, and where

    def __init__(self, site: Site) -> None:
        self._site = site
        self.metrics: Exposition | None = None

    def buildProtocol(self, addr: IAddress | None) -> Channel:
        """A channel for a client that has just connected."""
        channel = self._site.buildProtocol(addr)
        channel.metrics = self.metrics
        return channel


def is_private(bound: IAddress) -> bool:
    """Whether only this machine can connect to a listener that is bound to that address: never to one of all interfaces."""
    return isinstance(bound, UNIXAddress) or is_loopback(bound)
