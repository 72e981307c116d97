"""Those on both sides of a follower: a connection that is full when a test says so, and a journal whose pages come when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import Deferred

from computerd.contract.objects import Event
from computerd.contract.results import SessionDetached
from computerd.session.port import Excerpt
from computerd.terminal.outbox import Waiting
from tests.session.fake_journal import FakeJournal


@define(eq=False)
class Reader:
    """An `Outbox` and the client behind it.

    Attributes:
        room: How often something is taken before it is full.
        events: What was sent, as (session, seq).
        detached: What was said of sessions that are not followed any more.
        order: Both, in the order in which they were sent: a session for an event, a notification as it is.
        sizes: Bytes of each call of `messages` that was taken.
        forced: How often something was taken although it was full.
        waiting: Who is to be told that there is room.
    """

    room: int = 1_000_000
    events: list[tuple[str, int]] = field(factory=list)
    detached: list[SessionDetached] = field(factory=list)
    order: list[object] = field(factory=list)
    sizes: list[int] = field(factory=list)
    forced: int = 0
    waiting: dict[Waiting, None] = field(factory=dict)
    forgotten: list[Waiting] = field(factory=list)

    def frame(self, channel: int, data: bytes, source: Waiting) -> bool:
        """Nobody here has terminals."""
        raise NotImplementedError

    def messages(self, texts: Sequence[bytes], source: Waiting, *, all_the_same: bool = False) -> bool:
        """See `Outbox`."""
        assert texts, "nothing is sent for nothing"
        assert source not in self.waiting, "who was told to wait gives no more"
        full = self.room <= 0
        if full:
            self.waiting[source] = None
            if not all_the_same:
                return False
        self.forced += self.room <= 0
        self.sizes.append(sum(map(len, texts)))
        for text in texts:
            notification = msgspec.json.decode(text)
            assert notification["method"] == "event"
            event: dict[str, Any] = notification["params"]
            self.events.append((event["sessionId"], event["seq"]))
            self.order.append(event["sessionId"])
        self.room -= 1
        return not full

    def forget(self, source: Waiting) -> None:
        """See `Outbox`."""
        self.waiting.pop(source, None)
        self.forgotten.append(source)

    def notify(self, method: str, params: Struct) -> None:
        """See `Outbox`."""
        assert method == "session.detached"
        assert isinstance(params, SessionDetached)
        self.detached.append(params)
        self.order.append(params)

    def make_room(self, room: int = 1_000_000) -> None:
        """The client has read: so much can be sent. Takes turns among those who wait, as the sender of a connection does."""
        self.room = room
        for _ in range(len(self.waiting)):
            if self.room <= 0 or not self.waiting:
                return
            source = next(iter(self.waiting))
            del self.waiting[source]
            source.resume()

    def seqs(self, session_id: str) -> list[int]:
        """The numbers of a session's events, as they were sent."""
        return [seq for session, seq in self.events if session == session_id]


@define(eq=False)
class SlowJournal(FakeJournal):
    """A journal whose pages wait until a test lets them go, when `slow` is set.

    Attributes:
        slow: Whether pages wait.
        pages: Those that wait, oldest first.
        cancelled: How many were given up.
    """

    slow: bool = False
    pages: list[Page] = field(factory=list)
    cancelled: int = 0

    def events(
        self, session_id: str, *, after: int, limit: int, types: Collection[str] | None
    ) -> Deferred[Excerpt[Event]]:
        """See `Journal`."""
        if not self.slow:
            return super().events(session_id, after=after, limit=limit, types=types)
        read = super().events

        def find() -> Excerpt[Event]:
            found: list[Excerpt[Event]] = []
            read(session_id, after=after, limit=limit, types=types).addCallback(found.append)
            return found[0]

        page = Page(find, self._give_up)
        self.pages.append(page)
        return page.done

    def look(self) -> None:
        """The oldest page that waits is read now. It may be told later."""
        self.pages[0].look()

    def turn(self) -> None:
        """The oldest page that waits is there."""
        self.pages.pop(0).tell()

    def fail(self, error: Exception) -> None:
        """The oldest page that waits can't be read."""
        self.pages.pop(0).done.errback(error)

    def _give_up(self, page: Page) -> None:
        self.cancelled += 1
        if page in self.pages:
            self.pages.remove(page)


@define(eq=False)
class Page:
    """One that waits."""

    find: Callable[[], Excerpt[Event]]
    given_up: Callable[[Page], None]
    found: Excerpt[Event] | None = None
    done: Deferred[Excerpt[Event]] = field(init=False)

    @done.default
    def _new_deferred(self) -> Deferred[Excerpt[Event]]:
        return Deferred(lambda _: self.given_up(self))

    def look(self) -> None:
        """Reads it, once."""
        if self.found is None:
            self.found = self.find()

    def tell(self) -> None:
        """Hands it over."""
        self.look()
        assert self.found is not None
        self.done.callback(self.found)
