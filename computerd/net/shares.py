"""How much of the reactor's time one member's requests may take, on all connections together, so that the rest is for the others.

A connection may send 100 requests a second and a member may have 50 connections, which together ask for more than a processor can do. Who has
used up his share is not refused: his connections are not read for a while, and his HTTP requests wait. A share in debt delays each
connection by as much as all before it have used, so that the waits of many connections spread by themselves.

What a request costs is measured where the reactor does it, and estimated where the journal's thread does: that thread commits for everybody in
one line, and a member who can fill the line holds up all others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from attrs import define, field

from computerd.contract.access import RULES, Access
from computerd.contract.methods import Method

RATE: Final = 0.4
"""Seconds of work that a member is given in a second: two who ask for all they can get leave the others a part."""
BURST_SECONDS: Final = 0.1
"""Of work after a rest: what an echo may wait for it, at most."""
MAX_WAIT_SECONDS: Final = 1.0
"""That anything is held up at a time; then the share is looked at again."""
MAX_MEMBERS: Final = 1000
"""Who has asked longest ago is forgotten beyond that, and begins with a full share again."""
REQUEST_SECONDS: Final = 0.0005
"""Of the reactor for a request over HTTP, head and answer included, measured."""
METRICS_SECONDS: Final = 0.004
"""Of the reactor for a look at the metrics, measured."""
_WRITE_SECONDS: Final = 0.0004
"""Of the journal's thread for a small change, measured."""
_WRITE_BYTE_SECONDS: Final = 60e-9
"""And for each byte that is asked to be written: 200 KB of metadata take 13 ms, measured."""
_READ_SECONDS: Final = 0.0001


def journal_seconds(method: Method, size: int) -> float:
    """What the journal's thread does for a request of `size` bytes, roughly."""
    if RULES[method.access].writes:
        return _WRITE_SECONDS + size * _WRITE_BYTE_SECONDS
    return _READ_SECONDS if method.access is Access.READ else 0.0


@define
class _Share:
    """One member's.

    Attributes:
        left: Seconds of work; less than nothing is a debt.
        since: When that was so.
    """

    left: float
    since: float


@define(eq=False)
class Shares:
    """Everybody's.

    Attributes:
        seconds: A monotonic clock.
        worked: Seconds of processor time that this thread has used: what is measured must not grow because others keep the processor busy.
    """

    seconds: Callable[[], float]
    worked: Callable[[], float]
    _shares: OrderedDict[str, _Share] = field(factory=OrderedDict, init=False)

    def spend(self, member: str, seconds: float) -> float:
        """So much was done for a member. Returns for how many seconds nothing more should be: 0 mostly."""
        share = self._of(member)
        share.left -= seconds
        return _wait(share)

    def wait(self, member: str) -> float:
        """For how many seconds nothing should be done for a member."""
        return _wait(self._of(member))

    def _of(self, member: str) -> _Share:
        now = self.seconds()
        share = self._shares.get(member)
        if share is None:
            share = self._shares[member] = _Share(BURST_SECONDS, now)
            if len(self._shares) > MAX_MEMBERS:
                self._shares.popitem(last=False)
            return share
        self._shares.move_to_end(member)
        # a clock that steps back gives nothing and takes nothing
        share.left = min(BURST_SECONDS, share.left + max(0.0, now - share.since) * RATE)
        share.since = now
        return share


def _wait(share: _Share) -> float:
    return min(MAX_WAIT_SECONDS, -share.left / RATE) if share.left < 0 else 0.0
