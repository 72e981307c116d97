"""How fast input may be sent so that the server drops none of it.

The server gives each terminal 1 MiB/s of input with a burst of 1 MiB and drops a frame that is over, so a client that
forwards a file has to stay under it, however unevenly the network delivers. Two rules together are enough:

* a token bucket of RATE and BURST on what is sent, and
* at most WINDOW bytes that the server has not confirmed. A confirmation is the answer to any request that was sent
  after them, because a connection keeps its order.

Proof. What arrives in any t seconds was either sent in those seconds, at most BURST + RATE·t, or was on its way at their start and so
unconfirmed, at most WINDOW. BURST + WINDOW is the server's burst, and RATE is below its rate.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from computerd.contract import limits

BURST: Final = limits.INPUT_BYTES_PER_SECOND // 2
"""Bytes."""
WINDOW: Final = limits.INPUT_BYTES_PER_SECOND - BURST
"""Bytes."""
RATE: Final = 0.98 * limits.INPUT_BYTES_PER_SECOND
"""Bytes per second: 2 % for clocks that differ."""
MARK_EVERY: Final = WINDOW // 4
"""Bytes between two requests for a confirmation: the window moves on before it is full, and at 8 requests a second."""


class Pace:
    """The budget of one terminal's input. Times are seconds of one monotonic clock."""

    def __init__(self, now: float) -> None:
        self._tokens = float(BURST)
        self._filled = now
        self._sent = 0
        self._confirmed = 0
        self._marked = 0
        self._marks: deque[int] = deque()

    @property
    def unmarked(self) -> int:
        """Bytes that were sent since the last mark."""
        return self._sent - self._marked

    def room(self, now: float) -> int:
        """How many bytes may be sent now."""
        self._fill(now)
        return max(0, min(int(self._tokens), WINDOW - (self._sent - self._confirmed)))

    def wait(self, now: float, want: int) -> float | None:
        """Seconds until `want` bytes fit. None: only a confirmation can make room."""
        self._fill(now)
        if WINDOW - (self._sent - self._confirmed) < want:
            return None
        return max(0.0, (want - self._tokens) / RATE)

    def sent(self, count: int) -> None:
        """`count` bytes were sent, at most what `room` said."""
        self._tokens -= count
        self._sent += count

    def mark(self) -> None:
        """A request was sent whose answer confirms everything before it. Answers come in the order of the marks."""
        self._marks.append(self._sent)
        self._marked = self._sent

    def confirmed(self) -> None:
        """The answer to the oldest mark has come."""
        self._confirmed = self._marks.popleft()

    def _fill(self, now: float) -> None:
        self._tokens = min(float(BURST), self._tokens + (now - self._filled) * RATE)
        self._filled = now
