"""The HTTP connections that have presented a credential: how many each member has, and what they make the server hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from attrs import define, field

from computerd.contract import limits
from computerd.net.limited import Limited

if TYPE_CHECKING:
    from computerd.net.httpchannel import Channel

MAX_PER_MEMBER: Final = 128
"""The 100 waits that a member may have at a time, and some. One more, and the one that asked least lately goes, if it is idle."""
HELD_BYTES: Final = 8 * limits.MIB
"""Bodies that have not come whole and answers that were not taken, of all of a member's connections together."""
FREE_BYTES: Final = 64 * limits.KIB
"""What one connection may hold without a look at the others."""


@define(eq=False)
class Members:
    """Who is connected. A member's connections are in the order in which they last asked."""

    _names: dict[Channel, str] = field(factory=dict, init=False)
    _channels: dict[str, dict[Channel, None]] = field(factory=dict, init=False)

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, channel: Channel) -> bool:
        return channel in self._names

    def keep(self, channel: Channel, member: str) -> None:
        """`member` asks for something on `channel`.

        Raises:
            ApiError: `rate_limited`: there are too many, and none that could be closed.
        """
        self.release(channel)
        same = self._channels.get(member, {})
        if len(same) >= MAX_PER_MEMBER:
            idle = next((other for other in same if other.idle), None)
            if idle is None:
                raise _too_much(
                    "connections", f"You have {MAX_PER_MEMBER} requests on their way: let some of them end."
                )
            idle.abort()
            self.release(idle)
        self._names[channel] = member
        self._channels.setdefault(member, same)[channel] = None

    def release(self, channel: Channel) -> None:
        """The connection has ended, or is no longer HTTP."""
        member = self._names.pop(channel, None)
        if member is None:
            return
        same = self._channels[member]
        del same[channel]
        if not same:
            del self._channels[member]

    def make_room(self, channel: Channel, size: int) -> None:
        """Refuses what would be too much for all of a member's connections together.

        Args:
            channel: On which a part of a body has come, or an answer is to be sent.
            size: Its bytes.

        Raises:
            ApiError: `rate_limited`.
        """
        if channel.body_bytes + size <= FREE_BYTES:
            return
        same = self._channels.get(self._names.get(channel, ""), {})
        if size + sum(other.body_bytes + other.unsent for other in same) > HELD_BYTES:
            raise _too_much(
                "bytes", "Other requests of yours are still on their way: let them end, and take their answers."
            )


def _too_much(what: str, message: str) -> Limited:
    return Limited(what, message, retry_after_ms=1000)
