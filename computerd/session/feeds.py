"""The sessions that somebody follows now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import define, field

from computerd.contract import limits
from computerd.session import feed as feeding
from computerd.session.feed import Feed
from computerd.session.port import Commit, Record

_ALL_TAILS: Final = 16 * limits.MIB
"""Of newest messages that all feeds together keep, unless there are more than a thousand."""
_LEAST: Final = 16 * limits.KIB


@define(eq=False)
class Feeds:
    """One feed for each.

    Attributes:
        by_session: Them.
    """

    by_session: dict[str, Feed] = field(factory=dict, init=False)

    def of(self, record: Record) -> Feed:
        """The feed of a session, whose record is up to date. Somebody has to join it."""
        feed = self.by_session.get(record.id)
        if feed is None:
            feed = self.by_session[record.id] = Feed(record.id, record.last_seq, self._ended, self._share)
        return feed

    def committed(self, commit: Commit) -> None:
        """Tells those who follow the session."""
        feed = self.by_session.get(commit.session_id)
        if feed is not None:
            feed.committed(commit.events)

    def freeze(self) -> Sequence[Feed]:
        """Every feed there was: none of them gives anything more, and a session that is followed anew gets a new one."""
        feeds = tuple(self.by_session.values())
        self.by_session.clear()
        for feed in feeds:
            feed.freeze()
        return feeds

    def _ended(self, feed: Feed) -> None:
        if self.by_session.get(feed.session_id) is feed:
            del self.by_session[feed.session_id]

    def _share(self) -> int:
        return min(feeding.TAIL_BYTES, max(_LEAST, _ALL_TAILS // max(1, len(self.by_session))))
