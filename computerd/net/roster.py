"""Every connection there is: how many a member has, and whose credential has ended."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from attrs import define, field
from twisted.internet.defer import Deferred

from computerd.contract.closing import CloseCode

if TYPE_CHECKING:
    from computerd.net.connection import Socket


@define(eq=False)
class Roster:
    """The connections.

    Attributes:
        closing: No new ones are let in.
    """

    closing: bool = False
    _members: dict[Socket, str] = field(factory=dict, init=False)
    _counts: Counter[str] = field(factory=Counter, init=False)
    _present: set[Socket] = field(factory=set, init=False)
    _empty: list[Deferred[None]] = field(factory=list, init=False)

    def __len__(self) -> int:
        return len(self._present)

    def count(self, member: str) -> int:
        """Open connections of a member."""
        return self._counts[member]

    @property
    def open(self) -> int:
        """Open connections."""
        return len(self._members)

    def arrived(self, socket: Socket) -> None:
        """A transport was taken over."""
        self._present.add(socket)

    def opened(self, socket: Socket, member: str) -> None:
        """It is open, and counts."""
        self._members[socket] = member
        self._counts[member] += 1

    def finished(self, socket: Socket) -> None:
        """It is closing, and no longer counts."""
        member = self._members.pop(socket, None)
        if member is not None:
            self._counts[member] -= 1
            if not self._counts[member]:
                del self._counts[member]

    def lost(self, socket: Socket) -> None:
        """Its transport is gone."""
        self._present.discard(socket)
        if not self._present:
            waiting, self._empty = self._empty, []
            for deferred in waiting:
                deferred.callback(None)

    def unsent(self, member: str) -> int:
        """Bytes that wait for a member's clients on all connections."""
        return sum(socket.unsent for socket, name in self._members.items() if name == member)

    def arriving(self, member: str) -> int:
        """Bytes of a member's messages that have not come whole, on all connections."""
        return sum(socket.arriving for socket, name in self._members.items() if name == member)

    def check(self) -> None:
        """Closes each connection whose credential no longer counts."""
        for socket in list(self._members):
            socket.check()

    def close_all(self, code: CloseCode) -> Deferred[None]:
        """Closes all. Fires when the last transport is gone."""
        done: Deferred[None] = Deferred()
        self._empty.append(done)
        for socket in list(self._present):
            socket.close(code)
        if not self._present:
            self._empty.remove(done)
            done.callback(None)
        return done

    def abort_all(self) -> None:
        """Ends all without a word."""
        for socket in list(self._present):
            socket.transport.abortConnection()
