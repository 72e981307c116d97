"""This process's side of a terminal: its streams, the user's terminal and window, and what the program has switched on there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from computerd.opc.keys import Escapes
from computerd.opc.modes import Modes
from computerd.opc.say import Say
from computerd.opc.signals import Signals
from computerd.opc.streams import Sink, Source
from computerd.opc.tty import Tty
from computerd.opc.window import Window


class Ends(NamedTuple):
    """What a relay joins with the daemon.

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

    @property
    def reading(self) -> Source | None:
        """Standard input, unless it is at its end."""
        return self.source if self.source is not None and self.source.open else None

    @property
    def held_up(self) -> bool:
        """Whether standard output or error does not take more."""
        return bool(self.out.waiting or self.err.waiting)

    def waiting(self) -> Iterator[Sink]:
        """Those that do not."""
        return (sink for sink in (self.out, self.err) if sink.waiting)

    def write(self, data: bytes, *, error: bool) -> None:
        """Writes what the program wrote.

        Raises:
            BrokenPipeError: Nobody reads it.
            OSError: It can't be written.
        """
        if self.modes is not None:
            self.modes.feed(data)
        (self.err if error else self.out).write(data)

    def opened(self, now: float) -> None:
        """The program has the user's terminal from now on.

        Raises:
            termios.error: The terminal has gone.
        """
        if self.local is not None:
            self.local.raw()
        # it may have another size by now than was asked for
        self.window.changed(now)

    def suspend(self, signals: Signals, say: Say, *, again: bool) -> None:
        """Stops this job, with the terminal as the shell knows it, until it is continued.

        Args:
            signals: They are caught by.
            say: Begins a new line for the shell.
            again: Whether the program then gets the terminal back.

        Raises:
            termios.error: The terminal has gone.
        """
        local = self.local
        raw = local is not None and local.is_raw
        if local is not None and raw:
            local.restore()
            say.text("\n")
        signals.stop()
        if local is not None and raw and again:
            local.raw()

    def resumed(self, now: float) -> None:
        """This job goes on, and somebody else may have had the terminal.

        Raises:
            termios.error: The terminal has gone.
        """
        if self.local is not None:
            self.local.again()
            self.window.forget(now)
