"""What the file does to the work of the journal's thread, and what is said of it. Lives on that thread.

A damaged file is given up (see `renewals`). Everything else, such as a full disk, passes: it is said once when it begins and once when
it is over, however many requests are refused meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from attrs import define, field

from computerd.contract.errors import ApiError
from computerd.journal.backlog import unavailable
from computerd.journal.database import damaged
from computerd.journal.refusal import DamagedRowError
from computerd.journal.renewals import Renewals, lost

_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})


@define(eq=False)
class Trouble:
    """Whether there is any.

    Attributes:
        renewals: Told of damage.
        report: Told, in one line each, what the administrator should know.
    """

    renewals: Renewals
    report: Callable[[str], None]
    _now: bool = field(default=False, init=False)

    def met(self, error: sqlite3.Error) -> None:
        """A statement has failed."""
        if damaged(error):
            self.renewals.found(str(error))
        elif not self._now:
            self._now = True
            self.report(f"the journal is in trouble: {error}; new work is refused until that is over")

    def over(self) -> None:
        """A commit has worked."""
        if self._now:
            self._now = False
            self.report("the journal takes new work again")

    def forget(self) -> None:
        """There is another file."""
        self._now = False

    def guard(self, work: Callable[[], None]) -> None:
        """Does what is not for any caller: when it fails, the next time will do."""
        try:
            work()
        except sqlite3.Error as error:
            self.met(error)

    def row(self, error: DamagedRowError) -> ApiError:
        """A row is damaged. Returns the refusal of whoever has asked for it."""
        try:
            return self.renewals.row(error)
        except sqlite3.Error as problem:
            self.met(problem)
            return lost()


def refusal(error: sqlite3.Error) -> ApiError:
    """Of work that could not be written."""
    if damaged(error):
        return lost()
    if _code(error) == sqlite3.SQLITE_FULL:
        return unavailable("The server's disk is full; try again later.")
    return unavailable("The server's disk does not take new events now; try again later.")


def no_room(error: sqlite3.Error) -> bool:
    """Whether it may help to give the reserve away."""
    return _code(error) in _NO_ROOM


def _code(error: sqlite3.Error) -> int:
    # errors of Python's own module, such as one about text that is not UTF-8, have none
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
