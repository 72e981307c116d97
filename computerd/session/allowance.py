"""How much one client may leave unacknowledged of one session: `limits.MAX_BACKLOG_EVENTS` events and `limits.MAX_BACKLOG_BYTES` bytes.

Theory. What counts against it is what was committed since the client attached, which the feed measures for everybody, and the history
that it was given before, which is measured here. History does not count while it is sent, because its pace is the client's own: at the limit
the follower waits for an acknowledgement. Nor does it count at once when the client has been given all of it: up to the limits of it may
be on its way then, so it counts from the moment when half of that is acknowledged, and `ACK_SECONDS` later in any case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from computerd.contract import limits
from computerd.session.feed import Feed

ACK_SECONDS: Final = 30.0
"""That a client has to acknowledge something of what it was given, when that is all that it may be given."""


@define(eq=False)
class Allowance:
    """One follower's.

    Attributes:
        feed: Of the session, which has just been joined.
        clock: Monotonic.
        acked: The last event that the client has acknowledged, or had before.
    """

    feed: Feed
    clock: IReactorTime
    acked: int
    _floor: int = field(init=False)
    _limit_seq: int = field(default=0, init=False)
    _limit_total: int = field(default=0, init=False)
    _pages: deque[tuple[int, int]] = field(factory=deque, init=False)
    _page_bytes: int = field(default=0, init=False)
    _live_since: float | None = field(default=None, init=False)
    _counts: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        """Counts from here on."""
        self._floor = self.feed.last_seq
        self._measure()

    def exceeded(self) -> bool:
        """Whether, after what was just committed, the client is too far behind."""
        if not self._counts:
            self._measure()
        return self.feed.last_seq > self._limit_seq or self.feed.total > self._limit_total

    def full(self, sent: int) -> bool:
        """Whether as much as may be unacknowledged has been given, when `sent` is the last event that was."""
        return sent - self.acked >= limits.MAX_BACKLOG_EVENTS or self._page_bytes >= limits.MAX_BACKLOG_BYTES

    def given(self, sent: int, messages: Sequence[bytes]) -> None:
        """The client was given what follows on `sent`. What of it is history is counted here."""
        history = messages[: max(0, self._floor - sent)]
        if history:
            size = sum(map(len, history))
            self._pages.append((sent + 1, size))
            self._page_bytes += size

    def acknowledge(self, seq: int) -> None:
        """The client has every event up to `seq`."""
        self.acked = seq
        while self._pages and self._pages[0][0] <= seq:
            # a piece of which some is acknowledged counts no more: never is more counted than there is
            self._page_bytes -= self._pages.popleft()[1]
        self._measure()

    def begin_at(self, seq: int) -> None:
        """The history that can be given begins after `seq`, and nothing was given yet."""
        self.acked = seq
        self._measure()

    def live(self) -> None:
        """The client was given all there is."""
        if self._live_since is None:
            self._live_since = self.clock.seconds()
        self._measure()

    def clear(self) -> None:
        """Nothing is given any more."""
        self._pages.clear()

    def _measure(self) -> None:
        """Works out at which number, and at which total of the feed, the client is too far behind."""
        since = max(self.acked, self._floor)
        if not self._counts:
            self._counts = self._history_counts()
        base, given = (self.acked, self._page_bytes) if self._counts else (since, 0)
        self._limit_seq = base + limits.MAX_BACKLOG_EVENTS
        self._limit_total = self.feed.total_at(since) + limits.MAX_BACKLOG_BYTES - given

    def _history_counts(self) -> bool:
        """Whether the client has had the time to acknowledge the history that it was given."""
        if self._live_since is None:
            return False
        return (
            self._floor - self.acked <= limits.MAX_BACKLOG_EVENTS // 2
            and self._page_bytes <= limits.MAX_BACKLOG_BYTES // 2
        ) or self.clock.seconds() - self._live_since >= ACK_SECONDS
