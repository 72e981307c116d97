"""How far a session's journal has been read, over any number of connections: which event may come next, and what to say when it is not the next.

Theory. `after` is the last event that was printed, and `epoch` names the history that its number is from. An attachment begins
with the epoch and the number that the epoch's part of the history starts at; then come events.

    the first event of an attachment    after + 1, or a later one up to the start: what is between is not kept any longer (a gap)
    every later one                     after + 1

Anything else is told by a server that is broken, and nothing of it may be printed: the reader goes back to `after` by a new connection. A hole
that is still there after MAX_TRIES connections is taken for a gap, because there is no other way on.

Another epoch means that events which were printed may be gone and their numbers given out again. The new history is read from its start; what
lies before its start is what is left of the old one, and is still owed to a reader who was not there yet.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from computerd.opc.plain import visible

MAX_TRIES: Final = 3


class Gap(NamedTuple):
    """Events that can't be had any more."""

    first: int
    last: int

    def words(self) -> str:
        """For a person."""
        if self.first == self.last:
            return f"event {self.first} is not kept any longer."
        return f"events {self.first} to {self.last} are not kept any longer."


class Replaced(NamedTuple):
    """The history is another one.

    Attributes:
        old: Its epoch.
        new: That of the new one.
        after: The last event that was printed.
        on: The first that is printed next.
    """

    old: str
    new: str
    after: int
    on: int

    def words(self) -> str:
        """For a person."""
        text = f"the session's history was replaced: its epoch was {visible(self.old)} and is {visible(self.new)} now."
        if self.old == self.new:
            text = f"the session's history was cut back, in its epoch {visible(self.old)}."
        if self.on > self.after:
            return text
        return f"{text} Events {self.on} to {self.after} are not what was printed; going on from event {self.on}."


class AstrayError(Exception):
    """The events that come are not the ones that are wanted: connect again, and attach after `after`."""


class Bookmark:
    """One reader's place.

    Args:
        after: The last event that is not wanted.
        epoch: The history that the number is from, if that is known.
    """

    def __init__(self, after: int, epoch: str | None = None) -> None:
        self.after = after
        self.epoch = epoch
        self._start = 0
        self._fresh = True
        self._hole: tuple[int, int] | None = None
        self._tries = 0

    def attached(self, epoch: str, start: int) -> Replaced | None:
        """An attachment after `after` has begun. What it returns has been seen to; whether `after` has moved is for the caller to look at."""
        self._start, self._fresh = start, True
        return self.renewed(epoch, start)

    def renewed(self, epoch: str, start: int, last: int | None = None) -> Replaced | None:
        """The history is `epoch`, whose own part starts with the event `start`.

        Args:
            epoch: Its name.
            start: From 1.
            last: Its last event, if the daemon said that `after` is beyond it.

        Returns:
            What to say; None when it is the one that is known, or none was known yet.
        """
        old, self.epoch = self.epoch, epoch
        if old is None or (old == epoch and last is None):
            return None
        before = self.after
        self.after = min(before, max(0, start - 1) if old != epoch else before, before if last is None else last)
        return Replaced(old, epoch, before, self.after + 1)

    def take(self, seq: int) -> Gap | None:
        """The event `seq` has come and is to be printed now.

        Returns:
            What is missing before it.

        Raises:
            AstrayError: It is not to be printed.
        """
        wanted = self.after + 1
        if seq != wanted and not self._excused(seq, wanted):
            raise AstrayError
        self.after, self._fresh, self._tries = seq, False, 0
        return Gap(wanted, seq - 1) if seq > wanted else None

    def _excused(self, seq: int, wanted: int) -> bool:
        if seq < wanted or not self._fresh:
            return False
        if seq <= self._start:
            return True
        self._tries = self._tries + 1 if self._hole == (wanted, seq) else 1
        self._hole = wanted, seq
        return self._tries >= MAX_TRIES
