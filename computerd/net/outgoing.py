"""A stream out of a workspace on its way to the client, in step with it.

The transport pauses this producer when it has 64 KiB that the client does not take, and the source is given no room then: with the piece that
was on its way, a client that reads nothing costs 128 KiB. One that takes not a byte for `STALLED_SECONDS` is let go of: what the kernel holds for it
tells a slow one from one that has stopped.

What the client was promised (a length, or a last chunk) is either kept or seen to be broken: after an error, the connection is aborted.
"""

# twisted.web has no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import fcntl
import sys
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.interfaces import IDelayedCall, IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

from computerd.contract.errors import ApiError
from computerd.workspace.port import Source

if TYPE_CHECKING:
    from computerd.net.request import Request

STALLED_SECONDS: Final = 60.0
Trailers = Callable[[], tuple[tuple[str, str], ...]]
"""The fields after a body in chunks (RFC 9110, section 6.5), which are known at its end."""


@implementer(IPushProducer)
class Outgoing:
    """One answer's body. `computerd.workspace.port.Sink` of its source.

    Args:
        request: Has its head ready, and not written.
        source: Not started.
        length: How many bytes it is to give; None: as many as come.
        over: Called once when it has ended.
        trailers: Called when all was given, and never after an error.
    """

    _log = Logger()

    def __init__(
        self,
        request: Request,
        source: Source,
        length: int | None,
        over: Callable[[], None],
        trailers: Trailers | None = None,
    ) -> None:
        self._request = request
        self._channel = request.channel
        self._source = source
        self._left = length
        self._over = over
        self._trailers = trailers
        self._done = False
        self._paused = False
        self._wanting = False
        self._stall: IDelayedCall | None = None
        self._held: int | None = None

    def start(self) -> None:
        """Writes the head, and lets the bytes come."""
        self._request.registerProducer(self, True)
        self._request.write(b"")
        self._source.start(self)

    # what the source calls

    def write(self, data: bytes) -> bool:
        """See `Sink`."""
        if self._done:
            return False
        if self._left is not None:
            if len(data) > self._left:
                self._break("it has more than was promised", stop=True)
                return False
            self._left -= len(data)
        self._request.write(data)
        self._channel.site.tally.moved["sent"] += len(data)
        self._wanting = self._paused
        return not self._paused

    def ended(self, error: BaseException | None) -> None:
        """See `Sink`."""
        if self._done:
            return
        if error is not None:
            self._break(error.message if isinstance(error, ApiError) else repr(error), stop=False)
        elif self._left:
            self._break(f"{self._left} bytes are missing", stop=False)
        else:
            self._finished()
            self._request.unregisterProducer()
            self._request.end(() if self._trailers is None else self._trailers())

    def _break(self, why: str, *, stop: bool) -> None:
        self._log.info("a download was broken off: {why}", why=why)
        self._finished()
        if stop:
            self._source.stop()
        self._channel.abort()

    # what the transport and the request call

    def pauseProducing(self) -> None:
        """The client does not take it. Twisted says so with every write."""
        self._paused = True
        if self._stall is None and not self._done:
            self._wait()

    def resumeProducing(self) -> None:
        """The client has taken everything."""
        self._paused = False
        self._calm()
        if self._wanting and not self._done:
            self._wanting = False
            self._source.resume()

    def stopProducing(self) -> None:
        """The client has gone, or has to. Harmless after the end."""
        if not self._done:
            self._finished()
            self._source.stop()

    def stop(self) -> None:
        """Ends it now, as the client will see."""
        if not self._done:
            self.stopProducing()
            self._channel.abort()

    def _wait(self) -> None:
        self._held = _held(self._channel.transport)
        self._stall = self._channel.site.reactor.callLater(STALLED_SECONDS, self._stalled)

    def _stalled(self) -> None:
        self._stall = None
        before = self._held
        if before is not None and _held(self._channel.transport) != before:
            self._wait()
        else:
            self.stop()

    def _calm(self) -> None:
        stall, self._stall = self._stall, None
        if stall is not None:
            stall.cancel()

    def _finished(self) -> None:
        self._done = True
        self._calm()
        self._over()


def _held(transport: Any) -> int | None:
    """Bytes that the kernel holds for a client that has not taken them (SIOCOUTQ of tcp(7) and unix(7)); None where it can't tell."""
    try:
        found = fcntl.ioctl(transport.getHandle().fileno(), termios.TIOCOUTQ, bytes(4))
    except (AttributeError, OSError, ValueError):
        return None
    return int.from_bytes(found, sys.byteorder)
