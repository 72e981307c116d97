"""When the journal's file is given up for a new one (see `damage`), and how often. Lives on the journal's thread.

*Sound*, until something is found out: then the file is not used any more, and a renewal is due. It is carried out at once, or
`PAUSE_SECONDS` after the one before it: a disk that breaks everything must not keep the daemon busy with new files. A damaged event is
no reason to give up the file: a new epoch begins in it, under the same limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, field

from computerd.contract.errors import ApiError
from computerd.journal.backlog import unavailable
from computerd.journal.refusal import DamagedRowError
from computerd.journal.store import Store

PAUSE_SECONDS: Final = 10.0
"""Between two renewals at least."""
SUSPECT_SECONDS: Final = 60.0
"""Within which a second renewal says that the disk itself is to be suspected."""


def lost() -> ApiError:
    """The refusal of work that the damaged file can't do and the new one does not know."""
    return unavailable("The server's journal is damaged; a new one begins, so try again.")


@define(eq=False)
class Renewals:
    """What was found out, and what is done about it.

    Attributes:
        store: The file.
        monotonic: Seconds of a clock that never jumps.
        renewed: Told the log epoch that has begun.
        finding: Why the file is not used any more. None: it is sound.
    """

    store: Store
    monotonic: Callable[[], float]
    renewed: Callable[[str], None]
    finding: str | None = field(default=None, init=False)
    _last: float = field(default=float("-inf"), init=False)

    @property
    def ever(self) -> bool:
        """Whether there was one: then sessions may be gone that somebody still works in."""
        return self._last > float("-inf")

    def look(self) -> None:
        """Finds out whether the file is still there."""
        if self.finding is None:
            self.finding = self.store.displaced()

    def found(self, finding: str) -> None:
        """The file is damaged."""
        self.finding = self.finding or finding

    def row(self, error: DamagedRowError) -> ApiError:
        """A row is damaged. Returns the refusal of whoever has asked for it.

        Raises:
            sqlite3.Error: The new epoch can't be written.
        """
        if error.seq is None:
            self.found(str(error))
        elif self._may():
            self.store.skip(error)
            self._done()
        return unavailable("The server's journal is damaged here; try again.")

    def renew(self) -> bool:
        """Puts a new file in the place of the damaged one, if that is due. Says whether it has.

        Raises:
            JournalError: No new file can be made.
            sqlite3.Error: It can't be written.
        """
        if self.finding is None or not self._may():
            return False
        self.store.renew(self.finding)
        self.finding = None
        self._done()
        return True

    def _may(self) -> bool:
        return self.monotonic() - self._last >= PAUSE_SECONDS

    def _done(self) -> None:
        before, self._last = self._last, self.monotonic()
        if self._last - before < SUSPECT_SECONDS:
            self.store.report("that is the second time within a minute: the disk may be failing; look at it now")
        self.renewed(self.store.log_epoch)
