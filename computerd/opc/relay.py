"""Joins this process's streams with one terminal of the daemon, from its opening to its end.

Until the ending is known, everything is served; after it, only what waits for standard output and error is still written. One loop over
poll(2) does it all, so that nothing runs at the same time as anything else:

* While standard output or error does not take more, nothing is read from the link; so the remote program waits. The daemon's
  pings can't be seen then; an unasked pong (RFC 6455, section 5.5.3) with each ping of ours says that we live.
* Standard input is read only as fast as it may be sent.
* A lost link is found by an error, by the end of the stream, or by silence.
"""

from __future__ import annotations

import contextlib
import select
import signal
import termios
from collections.abc import Callable
from typing import Final, NamedTuple

from computerd.opc.keys import Escapes, Key
from computerd.opc.link import Link, Lost
from computerd.opc.modes import Modes
from computerd.opc.plan import Ending, by_signal, failed
from computerd.opc.remote import (
    Exited,
    Greeted,
    Happening,
    InputDropped,
    Opened,
    Output,
    Refused,
    Remote,
    ResizeRefused,
)
from computerd.opc.say import Say
from computerd.opc.signals import ENDING, Signals
from computerd.opc.streams import Sink, Source
from computerd.opc.tty import Tty
from computerd.opc.window import RETRY_SECONDS, Window

OPEN_SECONDS: Final = 30.0
"""For the daemon to open the terminal."""
LAST_OUTPUT_SECONDS: Final = 15.0
"""For standard output to take what came before the link was lost."""
INPUT_BYTES: Final = 16 * 1024
"""Standard input is read when there is room for so much, so that a spent budget does not make a frame of each byte."""


class Ends(NamedTuple):
    """This process's side.

    Attributes:
        source: Standard input, or None: it is taken to be at its end.
        local: The user's terminal when the remote one is shown on it, or None.
        modes: Follows what the program switches on, if that is to be undone.
    """

    source: Source | None
    out: Sink
    err: Sink
    local: Tty | None
    escapes: Escapes
    window: Window
    modes: Modes | None


class Relay:
    """One terminal's life at this end.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(
        self, link: Link, remote: Remote, ends: Ends, signals: Signals, say: Say, clock: Callable[[], float]
    ) -> None:
        self._link = link
        self._remote = remote
        self._ends = ends
        self._signals = signals
        self._say = say
        self._clock = clock
        self._open_limit = clock() + OPEN_SECONDS
        self._drop_told = False
        self._ending: Ending | None = None
        self._drain_limit: float | None = None

    def run(self) -> Ending:
        """Opens the terminal and stays until it has ended. Every failure is an ending."""
        self._guarded(self._remote.open)
        while self._ending is None or self._draining():
            ready = self._wait()
            self._guarded(lambda ready=ready: self._serve(ready))  # type: ignore[misc]
        return self._ending

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Lost as lost:
            self._last_words()
            self._end(failed(str(lost), LAST_OUTPUT_SECONDS))
        except BrokenPipeError:
            self._hang_up(by_signal(signal.SIGPIPE))
        except termios.error:
            self._hang_up(failed("the terminal that this ran on has gone."))
        except OSError as error:
            self._hang_up(failed(f"can't write the output: {error.strerror or error}. What came after it is lost."))

    # --- waiting

    @property
    def _held_up(self) -> bool:
        return bool(self._ends.out.waiting or self._ends.err.waiting)

    def _draining(self) -> bool:
        return self._held_up and (self._drain_limit is None or self._clock() < self._drain_limit)

    def _wait(self) -> set[int]:
        """Waits for something to do; returns the descriptors that poll(2) has something to say of."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        for sink in (self._ends.out, self._ends.err):
            if sink.waiting:
                poll.register(sink, select.POLLOUT)
        now = self._clock()
        times = [] if self._drain_limit is None else [self._drain_limit - now]
        if self._ending is None:
            times += [*self._link_times(poll, now), *self._input_times(poll, now)]
        # up to the next millisecond, or the loop would spin through the last one
        timeout = int(max(0.0, min(times)) * 1000 + 0.999) if times else None
        return {fd for fd, _ in poll.poll(timeout)}

    def _link_times(self, poll: select.poll, now: float) -> list[float]:
        events = (0 if self._held_up else select.POLLIN) | (select.POLLOUT if self._link.unsent else 0)
        if events:
            poll.register(self._link, events)
        times = [self._remote.tend_in(now)]
        if self._link.buffered and not self._held_up:
            times.append(0.0)
        if not self._remote.is_open:
            times.append(self._open_limit - now)
        if self._ends.window.due is not None:
            times.append(self._ends.window.due - now)
        return times

    def _input_times(self, poll: select.poll, now: float) -> list[float]:
        source = self._ends.source
        if source is None or not source.open:
            return []
        if self._remote.room(now) >= INPUT_BYTES:
            poll.register(source, select.POLLIN)
            return []
        time = self._remote.room_in(now, INPUT_BYTES)
        return [] if time is None else [time]

    # --- serving

    def _serve(self, ready: set[int]) -> None:
        for number in self._signals.take():
            self._signal(number)
        for sink in (self._ends.out, self._ends.err):
            if sink.fileno() in ready:
                sink.flush()
        now = self._clock()
        if self._ending is None and not self._held_up and (self._link.fileno() in ready or self._link.buffered):
            for happening in self._remote.take(now) or ():
                self._happened(happening)
        source = self._ends.source
        if self._ending is None and source is not None and source.fileno() in ready:
            self._read(source, now)
        if self._ending is None:
            self._tend(now)

    def _tend(self, now: float) -> None:
        self._remote.tend(now, reading=not self._held_up)
        if not self._remote.is_open and now >= self._open_limit:
            raise Lost(f"the daemon did not open a terminal within {OPEN_SECONDS:.0f} s. Look at its log.")
        if (size := self._ends.window.news(now)) is not None:
            self._remote.resize(size)
        if self._ends.source is None or not self._ends.source.open:
            self._remote.end_input()

    def _happened(self, happening: Happening) -> None:
        if self._ending is not None:
            return
        match happening:
            case Output(data, error):
                self._output(data, self._ends.err if error else self._ends.out)
            case Opened(terminal):
                self._opened(terminal)
            case Exited(ending):
                self._end(ending)
            case Refused(failure):
                self._end(failed(failure.message)._replace(abnormal=False))
            case Greeted(connection, version):
                self._say.detail(f"connection {connection}, daemon {version}")
            case InputDropped():
                self._input_dropped()
            case ResizeRefused():
                self._ends.window.forget(self._clock(), RETRY_SECONDS)

    def _opened(self, terminal: str) -> None:
        self._say.detail(f"terminal {terminal}")
        if self._ends.local is not None:
            self._ends.local.raw()
        # it may have another size by now than was asked for
        self._ends.window.changed(self._clock())

    def _output(self, data: bytes, sink: Sink) -> None:
        if self._ends.modes is not None:
            self._ends.modes.feed(data)
        sink.write(data)

    def _input_dropped(self) -> None:
        """A person sees what is missing; a file that arrived with holes must not look like success."""
        if self._ends.local is None:
            self._hang_up(
                failed(
                    "input was dropped: the program reads it more slowly than it came. Send it to a file first, and use that."
                )
            )
        elif not self._drop_told:
            self._drop_told = True
            self._say.warn("some of the input was dropped: the program does not read it.")

    def _read(self, source: Source, now: float) -> None:
        for piece in self._ends.escapes.feed(source.read(self._remote.room(now))):
            if isinstance(piece, bytes):
                self._remote.input(piece)
            elif self._ending is None:
                self._key(piece)

    def _key(self, key: Key) -> None:
        if key is Key.LEAVE:
            self._hang_up(failed("left the terminal."))
        elif key is Key.HELP:
            self._say.text("\n" + self._ends.escapes.help())
        elif key is Key.STATUS:
            self._say.text("\n" + self._remote.status())
        else:
            self._suspend()

    def _signal(self, number: int) -> None:
        if number in ENDING:
            self._hang_up(by_signal(number))
        elif number == signal.SIGWINCH:
            self._ends.window.changed(self._clock())
        elif number == signal.SIGTSTP:
            self._suspend()
        elif number == signal.SIGCONT:
            self._resumed()

    def _suspend(self) -> None:
        """Stops, with the terminal as the shell knows it, until this job is continued."""
        local = self._ends.local
        raw = local is not None and local.is_raw
        if local is not None and raw:
            local.restore()
            self._say.text("\n")
        self._signals.stop()
        if local is not None and raw and self._ending is None:
            local.raw()
        self._resumed()

    def _resumed(self) -> None:
        now = self._clock()
        self._remote.slept(now)
        if self._ends.local is not None and self._ending is None:
            self._ends.local.again()
            self._ends.window.forget(now)

    # --- the end

    def _end(self, ending: Ending) -> None:
        """Only what can't wait takes precedence over the ending that is known already."""
        if self._ending is None or (ending.drain == 0.0 and self._ending.drain != 0.0):
            self._ending = ending
            self._drain_limit = None if ending.drain is None else self._clock() + ending.drain

    def _hang_up(self, ending: Ending) -> None:
        """Ends it from this side. The daemon also hangs up the terminals of a connection that just closes."""
        if self._ending is None:
            with contextlib.suppress(Lost):
                self._remote.close()
        self._end(ending)

    def _last_words(self) -> None:
        """A link that can't be written to any more may still hold what the daemon said before, such as how the program ended."""
        try:
            while self._ending is None and (happened := self._remote.take(self._clock())) is not None:
                for happening in happened:
                    self._happened(happening)
        except (Lost, OSError, termios.error):
            return
