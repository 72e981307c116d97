"""One session, followed over one link, until the link or the session is lost.

States: attaching (the attach is not answered), looking (the session is looked up, because what is wanted is beyond its end), leaving (a detach is not
answered, because the attachment is one to another history, and begins at the wrong place), attached. An event that comes in another state
than attached belongs to an attachment that has ended, and is passed over.

Nothing is read from the link while standard output does not take more. The daemon may then give the session up as too far behind; what
it had sent before is still read, and the rest is asked for again.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any, Final, TypeGuard

from computerd.opc.acks import Acks
from computerd.opc.bookmark import AstrayError, Bookmark, Replaced
from computerd.opc.calls import Calls
from computerd.opc.failure import Failure
from computerd.opc.lines import Lines
from computerd.opc.link import Link, Lost
from computerd.opc.pulse import Pulse
from computerd.opc.say import Say
from computerd.opc.websocket import Message, Ponged, Text

ANSWER_SECONDS: Final = 30.0
"""For the daemon to answer an attach."""
_STRANGE: Final = "the daemon told the session's events in another order than theirs. Look at its log."


class Attachment:
    """Follows. Every end is an exception.

    Args:
        bookmark: Where to go on; it moves with each line.
        attached: Called at each attach that worked, before its events.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        link: Link,
        session: str,
        bookmark: Bookmark,
        lines: Lines,
        speaker: Say,
        attached: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._link = link
        self._session = session
        self._bookmark = bookmark
        self._lines = lines
        self._speaker = speaker
        self._on_attached = attached
        self._clock = clock
        self._calls = Calls()
        self._pulse = Pulse(clock())
        self._acks = Acks()
        self._limit: float | None = None
        self._wanted = 0
        self._attached = False
        self._printed = True
        self.expires: float | None = None
        """When the credential ends, by the clock; None: never, or the daemon did not say."""

    def run(self) -> None:
        """Attaches, and prints what comes.

        Raises:
            Lost: The link has ended, or what comes over it can't be right.
            Failure: The daemon does not let us follow, now or ever.
            BrokenPipeError: Nobody reads the lines.
            OSError: They can't be written.
        """
        self._attach()
        while True:
            self._wait()
            now = self._clock()
            if not self._lines.held_up:
                self._listen(now)
            self._tend(now)

    def _wait(self) -> None:
        poll = select.poll()
        self._lines.register(poll)
        held_up = self._lines.held_up
        events = (0 if held_up else select.POLLIN) | (select.POLLOUT if self._link.unsent else 0)
        if events:
            poll.register(self._link, events)
        now = self._clock()
        times = [self._pulse.wait(now)]
        if self._limit is not None:
            times.append(self._limit - now)
        if not held_up:
            times += [0.0] if self._link.buffered else []
            times += [wait] if (wait := self._acks.wait(now)) is not None else []
        # up to the next millisecond, or the loop would spin through the last one
        self._lines.ready(dict(poll.poll(int(max(0.0, min(times)) * 1000 + 0.999))))

    def _tend(self, now: float) -> None:
        """What is to be done from time to time."""
        held_up = self._lines.held_up
        self._link.flush()
        if held_up:
            # what is not listened to proves nothing by its silence; and the daemon hears no answer to its pings
            self._pulse.heard(now)
        if self._pulse.due(now):
            self._link.ping()
            if held_up:
                self._link.pong()
        if self._pulse.lost(now):
            raise Lost("the daemon does not answer any more. Check the network.")
        if self._limit is not None and now >= self._limit and not held_up:
            raise Lost(f"the daemon did not answer within {ANSWER_SECONDS:.0f} s. Look at its log.")
        if self._attached and not held_up and self._acks.due(now):
            ack = {"sessionId": self._session, "seq": self._bookmark.after}
            self._link.text(Calls.notification("sessions.ack", ack))

    # --- what to ask

    def _ask(self, method: str, params: dict[str, object], answered: Callable[[dict[str, Any]], None]) -> None:
        def take(result: dict[str, Any] | None, error: dict[str, Any] | None) -> None:
            self._limit = None
            if result is None:
                self._refused(method, error)
            else:
                answered(result)

        self._attached = False
        self._limit = self._clock() + ANSWER_SECONDS
        self._link.text(self._calls.request(method, {"sessionId": self._session, **params}, take))

    def _attach(self) -> None:
        if not self._printed:
            raise Failure("unavailable", "the daemon detaches the session again and again. Look at its log.")
        self._wanted, self._printed, self._acks = self._bookmark.after, False, Acks()
        self._ask("sessions.attach", {"after": self._wanted}, self._answered)

    def _refused(self, method: str, error: dict[str, Any] | None) -> None:
        failure = Failure.of_body(error, f"the daemon refused {method} without saying why. Look at its log.")
        if failure.code != "cursor_ahead" or self._bookmark.epoch is None:
            raise failure
        self._ask("sessions.get", {}, self._found)

    def _answered(self, result: dict[str, Any]) -> None:
        epoch, start = result.get("logEpoch"), result.get("epochStartSeq")
        if not isinstance(epoch, str) or not _is_number(start):
            raise Failure("invalid_answer", "the daemon did not say where the session's events begin. Look at its log.")
        self._replaced(self._bookmark.attached(epoch, start))
        if self._bookmark.after != self._wanted:
            # this attachment would leave out what the new history begins with
            self._printed = True
            self._ask("sessions.detach", {}, lambda _: self._attach())
            return
        self._attached = True
        self._on_attached()

    def _found(self, result: dict[str, Any]) -> None:
        """The session, after what is wanted turned out to be beyond its end."""
        session = result.get("session")
        told = session if isinstance(session, dict) else {}
        epoch, start, last = told.get("logEpoch"), told.get("epochStartSeq"), told.get("lastSeq")
        if not isinstance(epoch, str) or not _is_number(start) or not _is_number(last):
            raise Failure("invalid_answer", "the daemon did not say where the session's events begin. Look at its log.")
        replaced = self._bookmark.renewed(epoch, start, last)
        self._replaced(replaced)
        self._printed = self._bookmark.after != self._wanted
        self._attach()

    # --- what comes

    def _listen(self, now: float) -> None:
        messages = self._link.receive()
        if messages is None:
            return
        self._pulse.heard(now)
        for message in messages:
            self._message(message, now)

    def _message(self, message: Message, now: float) -> None:
        if isinstance(message, Ponged):
            self._pulse.pong(now)
        elif isinstance(message, Text) and (said := self._calls.take(message.data)) is not None:
            method, params = said
            if method == "ready":
                ends = params.get("expiresInMs")
                self.expires = now + ends / 1000 if _is_number(ends) else None
            elif params.get("sessionId") != self._session:
                return
            elif method == "event" and self._attached:
                self._event(params, len(message.data), now)
            elif method == "session.detached":
                self._detached(params)

    def _event(self, event: dict[str, Any], size: int, now: float) -> None:
        seq = event.get("seq")
        try:
            if not _is_number(seq):
                raise AstrayError
            gap = self._bookmark.take(seq)
        except AstrayError:
            raise Lost(_STRANGE) from None
        if gap is not None:
            self._speaker.error(gap.words())
        self._printed = True
        self._lines.event(event)
        self._acks.taken(size, now)

    def _detached(self, params: dict[str, Any]) -> None:
        reason = params.get("reason")
        self._attached = False
        if reason == "access_lost":
            raise Failure("access_lost", f"you may not follow {self._session} any longer. Ask its owner.")
        if reason == "epoch_changed":
            self._epoch_changed(params.get("logEpoch"), params.get("epochStartSeq"))
        elif reason == "too_far_behind":
            self._speaker.detail(f"too far behind; going on after event {self._bookmark.after}")
            self._attach()
        else:
            raise Failure("unavailable", "the daemon can't read the session's events at the moment.")

    def _epoch_changed(self, epoch: object, start: Any) -> None:
        if not isinstance(epoch, str) or not _is_number(start):
            self._ask("sessions.get", {}, self._found)
            return
        replaced = self._bookmark.renewed(epoch, start)
        self._replaced(replaced)
        self._printed = self._printed or replaced is not None
        self._attach()

    def _replaced(self, replaced: Replaced | None) -> None:
        if replaced is not None:
            self._speaker.error(replaced.words())


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
