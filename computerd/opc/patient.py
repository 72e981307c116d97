"""Requests that outlast a daemon's restart: asked again while the failure is one that passes, for a bounded time.

A request that changes something carries an idempotency key, the same at each try, so the daemon does it once and answers each try
alike. A daemon that can't be reached at the very first try is told at once: then nothing has been done, and the URL may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from computerd.opc import requests
from computerd.opc.address import CONNECT_SECONDS
from computerd.opc.backoff import Backoff, Chance
from computerd.opc.failure import LINK_LOST, UNREACHABLE, Failure
from computerd.opc.locate import Place

TOTAL_SECONDS: Final = 30.0
"""For a request with all its tries."""
_LEAST_SECONDS: Final = 0.5
"""For the last try."""


class Patient:
    """Asks one daemon.

    Args:
        find: Where it is. Called before each try: a daemon that comes back may have another port, and know none of its old local credentials.
        sleep: Seconds.
        clock: Seconds, monotonic.
        chance: For the waits.
    """

    def __init__(
        self, find: Callable[[], Place], sleep: Callable[[float], None], clock: Callable[[], float], chance: Chance
    ) -> None:
        self._find = find
        self._sleep = sleep
        self._clock = clock
        self._chance = chance

    def ask(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        """The answer, as `requests.ask` gives it.

        Raises:
            Failure: It was refused, or there was no answer in TOTAL_SECONDS; then the message says if it may have been done nevertheless.
        """
        limit, backoff = self._clock() + TOTAL_SECONDS, Backoff(self._chance)
        tried, lost = False, False
        while True:
            left = max(_LEAST_SECONDS, limit - self._clock())
            try:
                return requests.ask(self._find(), method, path, query, body, min(CONNECT_SECONDS, left))
            except Failure as failure:
                lost = lost or failure.code == LINK_LOST
                wait = backoff.seconds(failure.retry_after_ms)
                passing = failure.passing or (tried and failure.code == UNREACHABLE)
                if not passing or self._clock() + wait > limit:
                    raise _told(failure, unsure=lost and body is not None) from None
            tried = True
            self._sleep(wait)


def _told(failure: Failure, *, unsure: bool) -> Failure:
    if unsure:
        failure.message += " It may have been done nevertheless: `opc sessions show` tells."
    return failure
