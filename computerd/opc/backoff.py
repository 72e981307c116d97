"""How long to wait before the next try: longer each time, and not the same for everybody.

Many clients lose a daemon at the same moment. If each came back after the same time, they would all come back at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

FIRST_SECONDS: Final = 0.1
MOST_SECONDS: Final = 5.0

Chance = Callable[[], float]
"""A number from 0 up to 1, a different one each time."""


def chance() -> float:
    """From the system."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


class Backoff:
    """The waits of one row of failures.

    Args:
        chance: See `Chance`.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._next = FIRST_SECONDS

    def seconds(self, retry_after_ms: int | None = None) -> float:
        """How long to wait now: half to all of a time that doubles up to MOST_SECONDS, and what the daemon asked for at least."""
        wait = self._next * (0.5 + self._chance() / 2)
        self._next = min(MOST_SECONDS, 2 * self._next)
        return wait + (retry_after_ms or 0) / 1000

    def reset(self) -> None:
        """It worked."""
        self._next = FIRST_SECONDS
