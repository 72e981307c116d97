"""From the launcher's start to the moment when the program is known to run as the user, in the workspace."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone, ProcessDone, ProcessTerminated
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.process import PTYProcess
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from computerd.contract.errors import ApiError, Code
from computerd.host.greeting import Failed, Greeting, Ready
from computerd.host.line import Line
from computerd.host.process import outcome
from computerd.host.reading import Kernel

LAUNCH_SECONDS: Final = 10.0
"""For the launcher to say its word. It takes milliseconds, unless the disk or the workspace's file system hangs."""


class Reaped(ProcessProtocol):
    """Knows when a child is reaped, and its status; everything else of Twisted's process is not used.

    Attributes:
        leader: The child's number, once it was started.
        pid: The same, until it is reaped and the number is free.
        status: Of wait(2), after that.
        told: Who is told of the end, with the status of wait(2).
    """

    def __init__(self) -> None:
        self.leader = 0
        self.pid: int | None = None
        self.status: int | None = None
        self.told: Callable[[int], None] | None = None

    def connectionMade(self) -> None:
        """The child was started. The line is ours: Twisted's reader would have taken output from it, and its end for the process's."""
        assert self.transport is not None
        self.leader = self.pid = self.transport.pid
        if isinstance(self.transport, PTYProcess):
            self.transport.connectionLost(Failure(ConnectionDone()))  # type: ignore[no-untyped-call]  # Twisted's process has no types

    def processExited(self, reason: Failure) -> None:
        """The child was reaped: its number is free."""
        self.pid = None
        assert isinstance(reason.value, ProcessDone | ProcessTerminated)
        self.status = reason.value.status
        if self.told is not None:
            self.told(self.status)

    def kill(self) -> None:
        """SIGKILL, if it has not been reaped. To itself alone: it may not lead a group of its own yet."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


@define(eq=False)
class Opening:
    """A launcher at work.

    Attributes:
        line: Where it runs.
        child: The child.
        refused: Makes what the caller is told of a launcher's failure.
        done: Fires with the output that came after the launcher's word, or fails. Cancelling it kills the child.
    """

    _reactor: IReactorTime
    line: Line
    child: Reaped
    greeting: Greeting
    refused: Callable[[Failed], ApiError]
    done: Deferred[bytes] = field(init=False)
    _limit: IDelayedCall | None = field(default=None, init=False)
    _over: bool = field(default=False, init=False)
    _failure: ApiError | None = field(default=None, init=False)

    def begin(self) -> Deferred[bytes]:
        """Listens to the launcher."""
        self.done = Deferred(self._cancelled)
        self._limit = self._reactor.callLater(LAUNCH_SECONDS, self._too_late)
        self.child.told = self._exited
        source = self.line.sources[0]
        source.descriptor.readable = self._readable
        source.descriptor.read_on()
        if self.child.status is not None:
            self._exited(self.child.status)
        return self.done

    def _readable(self) -> None:
        data, kernel = self.line.sources[0].read(self._reactor.seconds)
        if kernel is Kernel.END:
            self.line.sources[0].descriptor.read_no_more()
        self._heard(self.greeting.feed(data))

    def _heard(self, word: Ready | Failed | None) -> None:
        if isinstance(word, Ready):
            self._finish()
            self.line.sources[0].descriptor.read_no_more()
            self.done.callback(word.rest)
        elif isinstance(word, Failed):
            # it ends by itself; the caller is answered when nothing of it is left
            self.line.sources[0].descriptor.read_no_more()
            self._failure = self.refused(word)
            if self.child.status is not None:
                self.abort(self._failure)

    def _exited(self, status: int) -> None:
        source = self.line.sources[0]
        kernel = Kernel.MORE
        while self._failure is None and not self._over and kernel is Kernel.MORE:
            data, kernel = source.read(self._reactor.seconds)
            self._heard(self.greeting.feed(data))
            if not data:
                break
        if not self._over:
            code, name = outcome(status)
            how = f"with status {code}" if name is None else f"by {name}"
            self.abort(
                self._failure
                or ApiError(Code.COMPUTER_UNAVAILABLE, f"The program was not started: its launcher ended {how}.")
            )

    def _too_late(self) -> None:
        self._limit = None
        self.abort(
            ApiError(Code.COMPUTER_UNAVAILABLE, f"The program was not started within {LAUNCH_SECONDS:.0f} seconds.")
        )

    def _cancelled(self, _: Deferred[bytes]) -> None:
        self._abandon()

    def abort(self, error: ApiError) -> None:
        """Ends it: the child is killed, the line closed, and `done` fails with `error`."""
        self._abandon()
        self.done.errback(error)

    def _abandon(self) -> None:
        self._finish()
        self.child.kill()
        self.line.close()

    def _finish(self) -> None:
        self._over = True
        self.child.told = None
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
