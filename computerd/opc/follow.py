"""Follows a session for ever: over one link after the other, whatever becomes of them.

A failure that time may cure is said once, and waited out. The others end it: a credential that is no longer good, a session that is gone or
closed to us, a rule of the protocol that we seem to break. So does a daemon that can't be reached at the very first try, because then
the URL may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from computerd.contract.closing import CloseCode
from computerd.opc import link as links
from computerd.opc.attachment import Attachment
from computerd.opc.backoff import Backoff
from computerd.opc.bookmark import Bookmark
from computerd.opc.failure import UNREACHABLE, Failure
from computerd.opc.lines import Lines
from computerd.opc.link import Lost
from computerd.opc.locate import Place
from computerd.opc.say import Say

STEADY_SECONDS: Final = 5.0
"""An attachment that lasted so long was a good one, although nothing happened in it."""
_PASSING: Final = frozenset({"too_far_behind", "too_many_attached", "internal"})
_FINAL_CLOSES: Final = frozenset(
    {
        CloseCode.CREDENTIAL_ENDED,
        CloseCode.NO_SUBPROTOCOL,
        CloseCode.PROTOCOL_ERROR,
        CloseCode.INVALID_TEXT,
        CloseCode.POLICY_VIOLATION,
        CloseCode.MESSAGE_TOO_BIG,
    }
)
_RENEWALS: Final = 2
"""Fresh credentials of the local socket that may be refused one after the other: a daemon may restart between giving one and seeing it."""


class Follow:
    """One session.

    Args:
        find: Where the daemon is. Called before each connection.
        renewable: Whether `find` gives a fresh credential each time.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        find: Callable[[], Place],
        session: str,
        bookmark: Bookmark,
        lines: Lines,
        speaker: Say,
        clock: Callable[[], float],
        backoff: Backoff,
        *,
        renewable: bool,
    ) -> None:
        self._find = find
        self._session = session
        self._bookmark = bookmark
        self._lines = lines
        self._speaker = speaker
        self._clock = clock
        self._backoff = backoff
        self._renewable = renewable
        self._ever = False
        self._told = False
        self._refusals = 0
        self._since: float | None = None

    def run(self) -> None:
        """Follows until it can't any more.

        Raises:
            Failure: What is not to be waited out.
            BrokenPipeError: Nobody reads the lines.
            OSError: They can't be written.
        """
        while True:
            before, self._since = self._bookmark.after, None
            failure = self._once()
            if self._bookmark.after != before or self._steady():
                self._backoff.reset()
            if not self._told:
                self._told = True
                what = failure.message.partition(". ")[0].rstrip(".")
                self._speaker.warn(f"{what}; connecting again until it works.")
            else:
                self._speaker.detail(failure.message)
            self._lines.rest(self._backoff.seconds(failure.retry_after_ms))

    def _steady(self) -> bool:
        return self._since is not None and self._clock() - self._since >= STEADY_SECONDS

    def _once(self) -> Failure:
        """Follows over one link. Returns why it ended, if that may pass."""
        attachment: Attachment | None = None
        try:
            with links.dial(self._find()) as link:
                attachment = Attachment(
                    link, self._session, self._bookmark, self._lines, self._speaker, self._attached, self._clock
                )
                attachment.run()
        except Lost as lost:
            if lost.code in _FINAL_CLOSES and not self._expired(lost, attachment):
                raise Failure("link_lost", str(lost)) from None
            return Failure("link_lost", lost.what, None, lost.retry_after_ms)
        except Failure as failure:
            if not self._passes(failure):
                raise
            return failure
        raise AssertionError("an attachment does not end by itself")

    def _attached(self) -> None:
        self._ever, self._since, self._refusals = True, self._clock(), 0
        if self._told:
            self._told = False
            self._speaker.note(f"following again, after event {self._bookmark.after}.")

    def _passes(self, failure: Failure) -> bool:
        if failure.code == UNREACHABLE:
            return self._ever
        if failure.code == "unauthenticated" and self._renewable and self._ever:
            self._refusals += 1
            return self._refusals <= _RENEWALS
        return failure.passing or failure.code in _PASSING

    def _expired(self, lost: Lost, attachment: Attachment | None) -> bool:
        """Whether our credential came to its own end, and there are others where it came from."""
        expires = attachment.expires if attachment is not None else None
        return (
            lost.code == CloseCode.CREDENTIAL_ENDED
            and self._renewable
            and expires is not None
            and self._clock() >= expires - 1
        )
