"""One client that follows one session: every event after a number, once, in order.

Theory. A follower gives messages to its connection's outbox and knows two numbers: `sent`, the last one given, and the feed's newest.
It is in one of these states:

    READY     attached; its attach is not answered yet
    REPLAY    a page of the journal is being read
    LIVE      `sent` is the newest: what is committed goes out at once
    HELD      the outbox was full: nothing is given until it has room
    FULL      as much history as may be unacknowledged has been given: the next acknowledgement goes on
    FROZEN    the history is gone; the client is about to be told
    ENDED     detached

    READY → REPLAY or LIVE on `start`;  REPLAY → LIVE, HELD or FULL with the page;  LIVE → HELD, or REPLAY when the feed has jumped;
    HELD → LIVE, REPLAY or FULL;  FULL → REPLAY, LIVE or HELD;  any → ENDED

Next to nothing is kept for a client that does not read: the journal has it all, and a follower that was HELD reads on from there. Only the next
piece of a page is kept, so that a busy connection, which is never free when a page comes, gets on all the same. A follower is detached as
`too_far_behind` when it leaves more unacknowledged than its allowance (see `allowance`), and when it acknowledges nothing for `ACK_SECONDS`
while FULL.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, Literal, TypeAlias

from attrs import define, field
from msgspec import UNSET
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from computerd.contract import limits
from computerd.contract.errors import ApiError
from computerd.contract.objects import Event
from computerd.contract.results import SessionDetached
from computerd.session.allowance import ACK_SECONDS, Allowance
from computerd.session.feed import Feed, message
from computerd.session.lanes import History
from computerd.session.tally import Tally
from computerd.terminal.outbox import Outbox

PAGE_EVENTS: Final = 500
"""Read from the journal at a time."""
GIVE_BYTES: Final = 32 * limits.KIB
"""Given to the outbox at a time: what one session holds up others by, and what is kept of a page for a client that does not read."""

Reason: TypeAlias = Literal["too_far_behind", "access_lost", "epoch_changed", "unavailable"]


class State(Enum):
    """Where a follower is in its life."""

    READY = auto()
    REPLAY = auto()
    LIVE = auto()
    HELD = auto()
    FULL = auto()
    FROZEN = auto()
    ENDED = auto()


@define(eq=False)
class Follower:
    """An attached session of one connection. The `Waiting` that the outbox holds back, and the feed's `Subscriber`.

    Attributes:
        feed: Of the session.
        journal: Where the past is.
        outbox: Of the connection.
        clock: For the wait for acknowledgements.
        tally: Counts.
        sent: The last event that was given to the outbox; at first the one after which the client wants all.
        on_end: Called once when it ends by itself, after the client was told.
        state: Where it is.
    """

    feed: Feed
    journal: History
    outbox: Outbox
    clock: IReactorTime
    tally: Tally
    sent: int
    on_end: Callable[[], object]
    state: State = field(default=State.READY, init=False)
    _allowance: Allowance = field(init=False)
    _page: deque[Event] = field(factory=deque, init=False)
    _piece: Sequence[bytes] = field(default=(), init=False)
    _reading: Deferred[None] | None = field(default=None, init=False)
    _timer: IDelayedCall | None = field(default=None, init=False)
    _begun: bool = field(default=False, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        """Joins the feed: from here on nothing is missed."""
        self._allowance = Allowance(self.feed, self.clock, self.sent)
        self.feed.join(self)
        self.tally.attached += 1

    @property
    def acked(self) -> int:
        """The last event that the client has acknowledged, or had before."""
        return self._allowance.acked

    @property
    def session_id(self) -> str:
        """Which session."""
        return self.feed.session_id

    def start(self) -> None:
        """The attach has been answered: events may go out."""
        if self.state is State.READY:
            self._go_on()

    def ack(self, seq: int) -> None:
        """The client has every event up to `seq`. A number that it can't have, or had before, is passed over."""
        if not self.acked < seq <= self.sent:
            return
        self._allowance.acknowledge(seq)
        if self.state is not State.FULL or self._timer is None:
            return
        if self._allowance.full(self.sent):
            # too little, but the client is there
            self._timer.reset(ACK_SECONDS)
        else:
            self._stop_waiting()
            self._go_on()

    def detach(self) -> None:
        """The client does not want it any longer, or has gone."""
        if self.state is State.ENDED:
            return
        self.state = State.ENDED
        self.tally.attached -= 1
        self.outbox.forget(self)
        self.feed.leave(self)
        self._stop()
        self._allowance.clear()

    # what the feed says

    def news(self, messages: Sequence[bytes]) -> None:
        """See `Subscriber`."""
        if self._allowance.exceeded():
            self._end("too_far_behind")
        elif self.state is not State.LIVE:
            return
        elif self.sent + len(messages) == self.feed.last_seq and _is_small(messages):
            self._give(messages)
        else:
            self._go_on()

    def lost(self) -> None:
        """See `Subscriber`."""
        if self.state is State.LIVE:
            self._go_on()

    def freeze(self) -> None:
        """See `Subscriber`."""
        if self.state is not State.ENDED:
            self.state = State.FROZEN
            self.outbox.forget(self)
            self._stop()

    def renewed(self, log_epoch: str, first_seq: int | None) -> None:
        """See `Subscriber`."""
        self._end("epoch_changed", log_epoch, first_seq)

    # what the outbox says

    def resume(self) -> None:
        """There is room again."""
        if self.state is State.HELD:
            self._go_on()

    # going on

    def _go_on(self) -> None:
        """Gives what is at hand, and gets more."""
        while True:
            if self.sent >= self.feed.last_seq:
                self.state = State.LIVE
                self._allowance.live()
                return
            if self._allowance.full(self.sent):
                self.state = State.FULL
                self._timer = self.clock.callLater(ACK_SECONDS, self._end, "too_far_behind")
                return
            messages = self._at_hand()
            if messages is None:
                self._replay()
                return
            if not self._give(messages):
                return

    def _at_hand(self) -> Sequence[bytes] | None:
        """What comes next, about `GIVE_BYTES` of it; None when it has to be read."""
        if not self._piece and self._page:
            self._piece = self._from_page()
        return self._piece or self.feed.tail(self.sent, GIVE_BYTES)

    def _from_page(self) -> Sequence[bytes]:
        messages: list[bytes] = []
        size = 0
        while self._page and size < GIVE_BYTES:
            messages.append(message(self._page.popleft()))
            size += len(messages[-1])
        return messages

    def _give(self, messages: Sequence[bytes]) -> bool:
        """Gives what follows on `sent`. False: the outbox has no room, and nothing more is to be given now."""
        # what is too large to be kept for a client that does not read counts as what it leaves unread: one such piece at a time
        large = bool(self._piece) and not _is_small(messages)
        room = self.outbox.messages(messages, self, all_the_same=large)
        if self.state is State.ENDED:
            return False
        if room or large:
            self._piece = ()
            self._begun = True
            self._allowance.given(self.sent, messages)
            self.sent += len(messages)
            self.tally.delivered += len(messages)
        if not room:
            self.state = State.HELD
            self._page.clear()
        return room

    def _replay(self) -> None:
        """Gets a page of what comes after `sent`."""
        self.state = State.REPLAY
        reading = ensureDeferred(self._read(self.feed.last_seq))
        reading.addErrback(self._not_read)
        if not reading.called:
            self._reading = reading

    async def _read(self, newest: int) -> None:
        page = await self.journal.events(self.session_id, after=self.sent, limit=PAGE_EVENTS, types=None)
        self._reading = None
        first = page.found[0].seq if page.found else newest + 1
        if not self._begun:
            # the history begins later than the client asked for, which `epochStartSeq` tells it, or has all been removed
            self.sent = max(self.sent, first - 1)
            self._allowance.begin_at(self.sent)
        elif not page.found or first != self.sent + 1:
            # what it was about to read has been removed for being old
            self._end("too_far_behind")
            return
        self._page.extend(page.found)
        self._go_on()

    def _not_read(self, failure: Failure) -> None:
        if self.state is not State.REPLAY:
            # nobody wants it any more
            return
        if not isinstance(failure.value, (ApiError, CancelledError)):
            self._log.failure("following {session_id} has failed", failure, session_id=self.session_id)
        self._end("unavailable")

    # the end

    def _stop(self) -> None:
        """Reads nothing more, and keeps nothing."""
        self._stop_waiting()
        self._page.clear()
        self._piece = ()
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()

    def _stop_waiting(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _end(self, reason: Reason, log_epoch: str | None = None, first_seq: int | None = None) -> None:
        if self.state is State.ENDED:
            return
        self.detach()
        self.tally.detached[reason] = self.tally.detached.get(reason, 0) + 1
        self.outbox.notify(
            "session.detached",
            SessionDetached(
                session_id=self.session_id,
                reason=reason,
                log_epoch=UNSET if log_epoch is None else log_epoch,
                epoch_start_seq=UNSET if first_seq is None else first_seq,
            ),
        )
        self.on_end()


def _is_small(messages: Sequence[bytes]) -> bool:
    """Whether they can be given at once, and kept for a client that does not read."""
    return sum(map(len, messages)) <= 2 * GIVE_BYTES
