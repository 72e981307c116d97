"""Whether the link still lives: when to ping, and when silence means that it is lost.

A link that is half open (the other host is gone, or a NAT box forgot us) says nothing for ever. We ping every PING_SECONDS
and give up when nothing at all came for SILENCE_SECONDS: within 60 s of the loss. While we do not read,
because our own output is held up, silence proves nothing; then the kernel's TCP_USER_TIMEOUT watches over the pings.
"""

from __future__ import annotations

from typing import Final

PING_SECONDS: Final = 15.0
SILENCE_SECONDS: Final = 40.0
"""Two pings unanswered, and some."""


class Pulse:
    """Times are seconds of one monotonic clock."""

    def __init__(self, now: float) -> None:
        self._heard = now
        self._pinged = now
        self._answered = True
        self.round_trip: float | None = None
        """Seconds of the last ping that was answered."""

    def heard(self, now: float) -> None:
        """Something came, or nothing could have come."""
        self._heard = now

    def due(self, now: float) -> bool:
        """Whether to ping now. If so, the ping counts as sent."""
        if now - self._pinged < PING_SECONDS:
            return False
        self._pinged = now
        self._answered = False
        return True

    def pong(self, now: float) -> None:
        """An answer to the last ping came."""
        if not self._answered:
            self._answered = True
            self.round_trip = now - self._pinged

    def lost(self, now: float) -> bool:
        """Whether silence has lasted too long."""
        return now - self._heard > SILENCE_SECONDS

    def wait(self, now: float) -> float:
        """Seconds until there is something to do."""
        return max(0.0, min(self._pinged + PING_SECONDS, self._heard + SILENCE_SECONDS + 0.1) - now)
