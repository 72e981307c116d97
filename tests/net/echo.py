"""A server that sends every message back, out of the daemon's own parser and sender: what a conformance runner needs.

`python -m tests.net.echo` prints its port.
"""

from __future__ import annotations

import os
import time
from typing import Any

from twisted.internet import reactor as _reactor

from computerd.contract.closing import CloseCode
from computerd.net.connection import Opening, Socket
from computerd.net.factory import ConnectionFactory
from computerd.net.roster import Roster
from computerd.net.sender import text_frame

reactor: Any = _reactor


class EchoSocket(Socket):
    """As the daemon's, but that a message is not a request."""

    def _problem(self) -> CloseCode | None:
        return None

    def _open(self) -> None:
        self.take_input = lambda channel, data: self.onMessage(channel.to_bytes(4, "big") + data, True)

    def onMessage(self, payload: bytes, is_binary: bool) -> None:
        """Sends it back."""
        if self.dead:
            return
        if is_binary:
            assert self.sender is not None
            self.sender.control(b"\x82" + text_frame(payload)[1:])
        else:
            Socket.onMessage(self, payload, is_binary)

    def take_text(self, text: str) -> None:
        """Sends it back."""
        assert self.sender is not None
        self.sender.control(text_frame(text.encode()))


class EchoFactory(ConnectionFactory):
    """Takes connections as they are, without the daemon's HTTP in front."""

    protocol = EchoSocket

    def buildProtocol(self, addr: Any) -> Any:
        """A connection."""
        made: Any = super().buildProtocol(addr)
        made.opening = Opening(None, False, (), "rq_conformance")
        return made


def main() -> None:
    """Serves until it is ended."""
    reactor.seconds = time.monotonic
    nothing: Any = None
    factory = EchoFactory(reactor, nothing, nothing, Roster(), time.time, os.urandom)
    port = reactor.listenTCP(0, factory, interface="127.0.0.1")
    print(port.getHost().port, flush=True)
    reactor.run()


if __name__ == "__main__":
    main()
