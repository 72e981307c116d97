"""What is new in a session, for those who follow it now: the news, their sizes, and the last few of them.

There is a feed only while somebody follows. The journal keeps the events themselves; a feed keeps what can't be asked of it cheaply: how
many bytes have been committed since which number, once for all who follow, and the newest messages, so that a client that was held back for
a moment costs no look at the disk.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Protocol

from attrs import define, field

from computerd.contract import limits
from computerd.contract.objects import Event
from computerd.wire import rpc

TAIL_BYTES: Final = 256 * limits.KIB
"""Of newest messages that are kept: as many as come while a fast client is held up for a moment."""


def message(event: Event) -> bytes:
    """The notification of an event."""
    return rpc.notification("event", event)


class Subscriber(Protocol):
    """Who is told. Never raises."""

    def news(self, messages: Sequence[bytes]) -> None:
        """The feed has moved on by these messages."""

    def lost(self) -> None:
        """The feed has moved on by what nobody here has seen."""

    def freeze(self) -> None:
        """The history that was followed is gone: nothing more may be given of it."""

    def renewed(self, log_epoch: str, first_seq: int | None) -> None:
        """There is another history, which begins there, if the session is still known."""


@define(eq=False)
class Feed:
    """One session's.

    Attributes:
        session_id: Whose.
        last_seq: The newest event.
        total: Bytes of messages since the feed began.
        ended: Called when nobody follows any more.
        share: How many bytes of newest messages may be kept now.
    """

    session_id: str
    last_seq: int
    ended: Callable[[Feed], object]
    share: Callable[[], int] = lambda: TAIL_BYTES
    total: int = field(default=0, init=False)
    _sums: array[int] = field(factory=lambda: array("Q", [0]), init=False)
    _tail: deque[bytes] = field(factory=deque, init=False)
    _tail_bytes: int = field(default=0, init=False)
    _subscribers: dict[Subscriber, None] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._subscribers)

    def join(self, subscriber: Subscriber) -> None:
        """Tells `subscriber` what comes from now on."""
        self._subscribers[subscriber] = None

    def leave(self, subscriber: Subscriber) -> None:
        """Tells it no more. Leaving twice is no error."""
        if self._subscribers.pop(subscriber, self) is None and not self._subscribers:
            self.ended(self)

    def committed(self, events: Sequence[Event]) -> None:
        """Takes what was just committed."""
        if events[0].seq != self.last_seq + 1:
            self._jump(events)
            return
        messages = [message(event) for event in events]
        self.last_seq = events[-1].seq
        for text in messages:
            self.total += len(text)
            self._sums.append(self.total)
        if len(self._sums) > 2 * limits.MAX_BACKLOG_EVENTS:
            del self._sums[: -limits.MAX_BACKLOG_EVENTS - 1]
        self._keep(messages)
        for subscriber in tuple(self._subscribers):
            subscriber.news(messages)

    def freeze(self) -> None:
        """The history is gone: nothing more is given of it."""
        for subscriber in tuple(self._subscribers):
            subscriber.freeze()

    def renewed(self, log_epoch: str, first_seq: int | None) -> None:
        """There is another history: everybody who followed the one that is gone hears so, and follows no more."""
        for subscriber in tuple(self._subscribers):
            subscriber.renewed(log_epoch, first_seq)

    def total_at(self, seq: int) -> int:
        """What `total` was when `seq` was the newest; for one that is too long ago, what it was first that is still known."""
        back = self.last_seq - seq
        return self._sums[-1 - back] if 0 <= back < len(self._sums) else self._sums[0 if back > 0 else -1]

    def tail(self, after: int, size: int) -> Sequence[bytes] | None:
        """The messages that follow on `after`, about `size` bytes of them and at least one, or None if they are not kept."""
        start = len(self._tail) - (self.last_seq - after)
        if not 0 <= start < len(self._tail):
            return None
        found: list[bytes] = []
        for text in islice(self._tail, start, None):
            found.append(text)
            size -= len(text)
            if size <= 0:
                break
        return found

    def _keep(self, messages: Sequence[bytes]) -> None:
        self._tail.extend(messages)
        self._tail_bytes += sum(map(len, messages))
        allowed = self.share()
        while self._tail_bytes > allowed:
            self._tail_bytes -= len(self._tail.popleft())

    def _jump(self, events: Sequence[Event]) -> None:
        """What was committed does not follow on what is known. It is never seen, and must not be lost if it is."""
        if events[-1].seq <= self.last_seq:
            return
        self.last_seq = events[-1].seq
        self._sums = array("Q", [self.total])
        self._tail.clear()
        self._tail_bytes = 0
        for subscriber in tuple(self._subscribers):
            subscriber.lost()
