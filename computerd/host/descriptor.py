"""One file descriptor of ours on the reactor."""

from __future__ import annotations

import os
from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorFDSet, IReadWriteDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer


def _nothing() -> None:
    pass


@implementer(IReadWriteDescriptor)
@define(eq=False)
class Descriptor:
    """Owns a non-blocking file descriptor and its place on the reactor.

    After `close` its number is -1 for ever: the kernel gives numbers out again, and a late call must not reach another terminal.

    Attributes:
        readable: Called when there is something to read, or an end to be seen.
        writable: Called when there is room to write.
    """

    _reactor: IReactorFDSet
    number: int
    readable: Callable[[], None] = _nothing
    writable: Callable[[], None] = _nothing
    _reading: bool = field(default=False, init=False)
    _writing: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        os.set_blocking(self.number, False)

    @property
    def closed(self) -> bool:
        """Whether the descriptor is gone."""
        return self.number < 0

    def read_on(self) -> None:
        """Asks for `readable`, until `read_no_more`."""
        if not self._reading and self.number >= 0:
            self._reading = True
            self._reactor.addReader(self)

    def read_no_more(self) -> None:
        """Takes `read_on` back."""
        if self._reading:
            self._reading = False
            self._reactor.removeReader(self)

    def write_on(self) -> None:
        """Asks for `writable`, until `write_no_more`."""
        if not self._writing and self.number >= 0:
            self._writing = True
            self._reactor.addWriter(self)

    def write_no_more(self) -> None:
        """Takes `write_on` back."""
        if self._writing:
            self._writing = False
            self._reactor.removeWriter(self)

    def close(self) -> None:
        """Leaves the reactor and closes. A second call does nothing."""
        if self.number < 0:
            return
        self.read_no_more()
        self.write_no_more()
        number, self.number = self.number, -1
        os.close(number)

    # What the reactor calls.

    def fileno(self) -> int:
        """See `IFileDescriptor`."""
        return self.number

    def doRead(self) -> None:
        """See `IReadDescriptor`."""
        self.readable()

    def doWrite(self) -> None:
        """See `IWriteDescriptor`."""
        self.writable()

    def connectionLost(self, reason: Failure) -> None:
        """The other side is closed and nothing is left to read: whoever reads or writes will find that out by himself."""
        reading, writing = self._reading, self._writing
        self._reading = self._writing = False  # the reactor has removed both
        if reading:
            self.readable()
        if writing:
            self.writable()

    def logPrefix(self) -> str:
        """See `ILoggingContext`."""
        return "terminal"
