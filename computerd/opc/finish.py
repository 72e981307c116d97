"""How a terminal ends at this side, and how long that may take.

States: running; in doubt; decided.

In doubt: the program died of a hang-up that nobody asked for here. It may have got it from anybody; but a daemon that stops hangs its
terminals up too, tells how they ended, and then ends the connection (1012). Then it is the connection that ended, and the hang-up came of
that: 255 and a message, as ssh(1) has it, and not 129, which would be the program's. So such an end is believed
only when the link has outlived it by DOUBT_SECONDS.

Decided: what the program wrote before is still written, within the ending's time for it. Only what can't wait takes the place of an
ending that is decided.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from computerd.opc.failure import BY_SIGNAL
from computerd.opc.link import Lost
from computerd.opc.plan import Ending, failed

DOUBT_SECONDS: Final = 2.0
"""A daemon that stops ends the connection when its last terminal has ended, mostly within milliseconds."""
LAST_OUTPUT_SECONDS: Final = 15.0
"""For standard output to take what came before the link was lost."""


class Finish:
    """The end of one terminal.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._doubtful: Ending | None = None
        self._limit: float | None = None
        self.ending: Ending | None = None
        """What was decided, or None."""

    @property
    def running(self) -> bool:
        """Whether the program still runs, as far as we know."""
        return self.ending is None and self._doubtful is None

    def left(self) -> float | None:
        """Seconds until something changes by itself; None: nothing does."""
        return None if self._limit is None else max(0.0, self._limit - self._clock())

    def exited(self, ending: Ending) -> None:
        """The program ended so."""
        if ending.status == BY_SIGNAL + signal.SIGHUP and ending.abnormal and self.running:
            self._doubtful, self._limit = ending, self._clock() + DOUBT_SECONDS
        elif self.running:
            self.decide(ending)

    def lost(self, lost: Lost) -> None:
        """The link has ended."""
        self.decide(failed(str(lost), LAST_OUTPUT_SECONDS))

    def decide(self, ending: Ending) -> None:
        """It ends so, unless it is decided already and this can wait."""
        if self.ending is None or (ending.drain == 0.0 and self.ending.drain != 0.0):
            self.ending = ending
            self._limit = None if ending.drain is None else self._clock() + ending.drain

    def settle(self) -> None:
        """Ends a doubt that has lasted long enough."""
        if self.ending is None and self._doubtful is not None and self.left() == 0.0:
            self.decide(self._doubtful)

    def over(self, *, held_up: bool) -> bool:
        """Whether there is nothing left to do. `held_up`: output waits."""
        return self.ending is not None and not (held_up and self.left() != 0.0)
