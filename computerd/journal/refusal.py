"""Why a journal can't be opened at all. Each is one line for the administrator; the daemon ends with status 78 on it."""

from __future__ import annotations


class JournalError(Exception):
    """The journal's file can't be used as it is. The text says which file, and what to do."""


class NewerSchemaError(JournalError):
    """A later release has written the file."""


class UnsafeFileError(JournalError):
    """The file or its folder belongs to somebody else, or is reached through a link."""


class UnusableError(JournalError):
    """The file can't be opened, made or written."""


class DamagedError(Exception):
    """The file is not a database, or a broken one. The daemon moves it aside; other programs say so and leave it."""


class DamagedRowError(Exception):
    """A row that is not what was written. `PRAGMA quick_check` does not see flipped bits in a text.

    Attributes:
        session_id: Whose, or None when there is no telling.
        seq: Of the event. None: the session's own row.
    """

    def __init__(self, session_id: str | None, seq: int | None) -> None:
        what = "a session" if session_id is None else session_id if seq is None else f"event {seq} of {session_id}"
        super().__init__(f"{what} is not what was written")
        self.session_id = session_id
        self.seq = seq
