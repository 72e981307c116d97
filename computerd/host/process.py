"""A program that runs on a line, and its end.

    running → exited → drained → ended

It ends when it has exited and all that it wrote was given away; exit alone is no end, and neither is the end of a stream. Others may hold the
other side open (a job in the background), so that its end never comes: 500 ms after the exit it is enough that nothing is left to read, or that
so much was read as the kernel can have held at the exit. A watcher that takes no more delays all of this and loses nothing, until `discard`.

A hang-up may outlive the end: 5 s after it, what is left is killed, also of a foreground job that survived the process. Until then the process is
not `gone`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from computerd.contract import limits
from computerd.host.hangup import HangUp
from computerd.host.line import Line
from computerd.host.reading import Source
from computerd.terminal.port import Stream, Watcher

_REALTIME: Final = range(int(signal.SIGRTMIN), int(signal.SIGRTMAX) + 1)

_LOOK_SECONDS: Final = 0.25
"""Between two looks whether a foreground job that outlived its terminal is still there."""


def outcome(status: int) -> tuple[int | None, str | None]:
    """The exit code, or the signal's name, of a status of wait(2)."""
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status), None
    number = os.WTERMSIG(status)
    try:
        return None, signal.Signals(number).name
    except ValueError:
        return None, f"SIGRTMIN+{number - _REALTIME.start}" if number in _REALTIME else f"SIG{number}"


class _Nobody:
    """Watches a process that was discarded before it was started, until it is."""

    def output(self, stream: Stream, data: bytes) -> bool:
        return True

    def ended(self, exit_code: int | None, signal: str | None) -> None:
        pass


@define(eq=False)
class HostProcess:
    """Implements `computerd.terminal.port.Process`.

    Attributes:
        pid: Leader of its own session and group.
        on_exit: Called once, when it has been reaped and its output is drained: nothing of it is left but perhaps others of its terminal.
        on_gone: Called once, after that, when no signal is due any more.
        leftovers: Kills whatever is left of the terminal, instead of its groups; None where that can't be, or isn't wanted.
    """

    _reactor: IReactorTime
    pid: int
    _line: Line
    _rest: bytes
    on_exit: Callable[[HostProcess], None]
    on_gone: Callable[[HostProcess], None]
    leftovers: Callable[[], None] | None = None
    _watcher: Watcher | None = field(default=None, init=False)
    _paused: bool = field(default=False, init=False)
    _discarding: bool = field(default=False, init=False)
    _status: int | None = field(default=None, init=False)
    _lingered: bool = field(default=False, init=False)
    _linger: IDelayedCall | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)
    _hang_up: HangUp | None = field(default=None, init=False)
    _kill: IDelayedCall | None = field(default=None, init=False)
    _look_again: IDelayedCall | None = field(default=None, init=False)
    _clock: Callable[[], float] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._clock = self._reactor.seconds
        for source in self._line.sources:
            source.descriptor.readable = self._reader(source)

    # What the port promises.

    def start(self, watcher: Watcher) -> None:
        """See `Process`."""
        self._watcher = watcher
        if self._ended and self._status is not None:
            # it was discarded before anybody watched it; who counts terminals has to hear of the end all the same
            watcher.ended(*outcome(self._status))
            return
        rest, self._rest = self._rest, b""
        if rest:
            self._deliver(Stream.OUTPUT, rest)
        self._read_on()

    def write(self, data: bytes) -> bool:
        """See `Process`."""
        return self._line.input.write(data)

    def eof(self) -> None:
        """See `Process`."""
        self._line.input.end()

    def resize(self, columns: int, rows: int) -> None:
        """See `Process`."""
        self._line.resize(columns, rows)

    def resume(self) -> None:
        """See `Process`."""
        if self._paused:
            self._paused = False
            self._read_on()

    def hang_up(self) -> None:
        """See `Process`."""
        if self._hang_up is not None or self._status is not None:
            return
        self._hang_up = HangUp(self.pid)
        self._kill = self._reactor.callLater(limits.KILL_SECONDS, self._kill_rest)
        self._hang_up.begin(self._line.foreground())

    def discard(self) -> None:
        """See `Process`."""
        self._discarding = True
        self._paused = False
        if self._watcher is None:
            self.start(_Nobody())
        else:
            self._read_on()

    # Output.

    def _reader(self, source: Source) -> Callable[[], None]:
        def readable() -> None:
            self._readable(source)

        return readable

    def _readable(self, source: Source) -> None:
        if self._status is None:
            data, kernel = source.read(self._clock)
            if kernel is kernel.END:
                source.finish()
        else:
            data = source.read_rest(self._clock, last=self._lingered)
        if data:
            self._line.input.answered(len(data))
            self._deliver(source.stream, data)
        if source.done:
            self._end_if_drained()
        elif not self._paused:
            source.descriptor.read_on()

    def _deliver(self, stream: Stream, data: bytes) -> None:
        assert self._watcher is not None, "nothing is read before start"
        if self._discarding or self._watcher.output(stream, data) or self._discarding:
            return
        self._paused = True
        for source in self._line.sources:
            source.descriptor.read_no_more()

    def _read_on(self) -> None:
        """Reads whatever is not read yet: at once after the exit, for nothing may announce it any more."""
        if self._watcher is None or self._ended:
            return
        for source in self._line.sources:
            if self._status is not None:
                self._drain(source)
            elif not self._paused and not source.done:
                source.descriptor.read_on()
        self._end_if_drained()

    def _drain(self, source: Source) -> None:
        while not self._paused and not source.done:
            self._readable(source)
            if not self._lingered:
                return

    # The end.

    def exited(self, status: int) -> None:
        """The process was reaped, with that status of wait(2)."""
        self._status = status
        self._line.release()
        self._linger = self._reactor.callLater(limits.LINGER_SECONDS, self._linger_over)
        self._read_on()

    def _linger_over(self) -> None:
        self._linger, self._lingered = None, True
        self._read_on()

    def _end_if_drained(self) -> None:
        if self._ended or self._status is None or not all(source.done for source in self._line.sources):
            return
        self._ended = True
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._line.close()
        assert self._watcher is not None, "nothing is read before start"
        self._watcher.ended(*outcome(self._status))
        self.on_exit(self)
        self._after_end()

    def _after_end(self) -> None:
        self._look_again = None
        if self._kill is None:
            if self.leftovers is not None:
                self.leftovers()
            self.on_gone(self)
        elif self.leftovers is None and not (self._hang_up is not None and self._hang_up.pending()):
            self._kill.cancel()
            self._forget_hang_up()
            self.on_gone(self)
        else:
            self._look_again = self._reactor.callLater(_LOOK_SECONDS, self._after_end)

    def _kill_rest(self) -> None:
        if self._hang_up is not None:
            self._hang_up.kill(self._line.foreground(), alive=self._status is None)
        self._forget_hang_up()
        if self._ended:
            if self._look_again is not None:
                self._look_again.cancel()
            self._after_end()
        elif self.leftovers is not None:
            self.leftovers()

    def _forget_hang_up(self) -> None:
        self._kill = None
        if self._hang_up is not None:
            self._hang_up.forget()
