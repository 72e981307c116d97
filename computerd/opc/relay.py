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
from typing import Final

from computerd.opc.ends import Ends
from computerd.opc.finish import Finish
from computerd.opc.keys import Key
from computerd.opc.link import Link, Lost
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
from computerd.opc.streams import Source
from computerd.opc.window import RETRY_SECONDS

OPEN_SECONDS: Final = 30.0
"""For the daemon to open the terminal."""
INPUT_BYTES: Final = 16 * 1024
"""Standard input is read when there is room for so much, so that a spent budget does not make a frame of each byte."""


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
        self._finish = Finish(clock)

    def run(self) -> Ending:
        """Opens the terminal and stays until it has ended. Every failure is an ending."""
        self._guarded(self._remote.open)
        while (ending := self._finish.ending) is None or not self._finish.over(held_up=self._ends.held_up):
            ready = self._wait()
            self._guarded(lambda ready=ready: self._serve(ready))  # type: ignore[misc]  # a lambda's default has no type
        return ending

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Lost as lost:
            self._last_words()
            self._finish.lost(lost)
        except BrokenPipeError:
            self._hang_up(by_signal(signal.SIGPIPE))
        except termios.error:
            self._hang_up(failed("the terminal that this ran on has gone."))
        except OSError as error:
            self._hang_up(failed(f"can't write the output: {error.strerror or error}. What came after it is lost."))

    def _last_words(self) -> None:
        """A link that can't be written to any more may still hold what the daemon said before, such as how the program ended."""
        with contextlib.suppress(Lost, OSError, termios.error):
            while self._finish.ending is None and (happened := self._remote.take(self._clock())) is not None:
                for happening in happened:
                    self._happened(happening)

    def _hang_up(self, ending: Ending) -> None:
        """Ends it from this side. The daemon also hangs up the terminals of a connection that just closes."""
        if self._finish.ending is None:
            with contextlib.suppress(Lost):
                self._remote.close()
        self._finish.decide(ending)

    # --- waiting

    def _wait(self) -> set[int]:
        """Waits for something to do; returns the descriptors that poll(2) has something to say of."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        for sink in self._ends.waiting():
            poll.register(sink, select.POLLOUT)
        now = self._clock()
        times = [] if (left := self._finish.left()) is None else [left]
        if self._finish.ending is None:
            times += [*self._link_times(poll, now), *self._input_times(poll, now)]
        # up to the next millisecond, or the loop would spin through the last one
        timeout = int(max(0.0, min(times)) * 1000 + 0.999) if times else None
        return {fd for fd, _ in poll.poll(timeout)}

    def _link_times(self, poll: select.poll, now: float) -> list[float]:
        held_up = self._ends.held_up
        events = (0 if held_up else select.POLLIN) | (select.POLLOUT if self._link.unsent else 0)
        if events:
            poll.register(self._link, events)
        times = [self._remote.tend_in(now)]
        if self._link.buffered and not held_up:
            times.append(0.0)
        if not self._remote.is_open:
            times.append(self._open_limit - now)
        if self._ends.window.due is not None:
            times.append(self._ends.window.due - now)
        return times

    def _input_times(self, poll: select.poll, now: float) -> list[float]:
        source = self._ends.reading
        if source is None or not self._finish.running:
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
        for sink in self._ends.waiting():
            if sink.fileno() in ready:
                sink.flush()
        now = self._clock()
        self._finish.settle()
        if self._finish.ending is None and not self._ends.held_up:
            self._listen(ready, now)
        # first a new size, then what was typed into the new window
        if self._finish.ending is None:
            self._tend(now)
        if self._finish.running:
            self._input(ready, now)

    def _listen(self, ready: set[int], now: float) -> None:
        if self._link.fileno() in ready or self._link.buffered:
            for happening in self._remote.take(now) or ():
                self._happened(happening)

    def _tend(self, now: float) -> None:
        self._remote.tend(now, reading=not self._ends.held_up)
        if not self._remote.is_open and now >= self._open_limit:
            raise Lost(f"the daemon did not open a terminal within {OPEN_SECONDS:.0f} s. Look at its log.")
        if (size := self._ends.window.news(now)) is not None:
            self._remote.resize(size)

    def _happened(self, happening: Happening) -> None:
        if self._finish.ending is not None:
            return
        match happening:
            case Output(data, error):
                self._ends.write(data, error=error)
            case Opened(terminal):
                self._say.detail(f"terminal {terminal}")
                self._ends.opened(self._clock())
            case Exited(ending):
                self._finish.exited(ending)
            case Refused(failure):
                self._finish.decide(failed(failure.message)._replace(abnormal=False))
            case Greeted(connection, version):
                self._say.detail(f"connection {connection}, daemon {version}")
            case InputDropped():
                self._input_dropped()
            case ResizeRefused():
                self._ends.window.forget(self._clock(), RETRY_SECONDS)

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

    # --- the person

    def _input(self, ready: set[int], now: float) -> None:
        source = self._ends.reading
        if source is not None and source.fileno() in ready:
            self._read(source, now)
        if self._ends.reading is None:
            self._remote.end_input()

    def _read(self, source: Source, now: float) -> None:
        for piece in self._ends.escapes.feed(source.read(self._remote.room(now))):
            if isinstance(piece, bytes):
                self._remote.input(piece)
            elif self._finish.ending is None:
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
        self._ends.suspend(self._signals, self._say, again=self._finish.ending is None)
        self._resumed()

    def _resumed(self) -> None:
        now = self._clock()
        self._remote.slept(now)
        if self._finish.ending is None:
            self._ends.resumed(now)
