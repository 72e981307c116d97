"""Makes the rows of the audit trail: who did what, on which session, and how it went (requirement G4 of the threat model).

A row says that something was done and to what, never what it was about: no command line, title, metadata or content. Ids come from clients,
who may write anything there; what has not the shape of an id is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen
from msgspec import Struct

from computerd.api.audit import Audit, Entry, Nowhere
from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.contract import results
from computerd.contract.access import RULES
from computerd.contract.errors import ApiError, Code
from computerd.contract.identifiers import SESSION, TERMINAL
from computerd.contract.methods import Method
from computerd.contract.params import Attach, UploadArchive

SUBJECT_CHARACTERS: Final = 200
"""What is longer is cut."""
_CLOSE: Final = "terminals.close"
"""It changes something, on whatever connection; `resize` and `eof` are input like keys, and are not told."""


@frozen
class Trail:
    """Writes rows down, with the time.

    Attributes:
        audit: Keeps them.
        wall: Seconds since the epoch.
    """

    audit: Audit
    wall: Callable[[], float]

    def note(
        self,
        action: str,
        result: str = "ok",
        *,
        caller: Caller | None = None,
        session_id: str | None = None,
        subject: str | None = None,
        count: int = 1,
    ) -> None:
        """One row. `Entry` says what is in it. Never waits and never fails."""
        self.audit.note(
            Entry(
                at=self.wall(),
                action=action,
                result=result,
                member=None if caller is None else caller.member.id,
                token_id=None if caller is None else caller.token_id,
                session_id=session_id,
                subject=None if subject is None else subject[:SUBJECT_CHARACTERS],
                count=count,
            )
        )

    def note_call(
        self,
        method: Method,
        params: Struct,
        caller: Caller,
        connection: Connection | None,
        outcome: Struct | Exception,
    ) -> None:
        """The row of a call, if it is of those that change something.

        Args:
            method: What was called.
            params: With what.
            caller: By whom.
            connection: On which; None over HTTP.
            outcome: The result, or what it failed with.
        """
        if not _changes(method, params):
            return
        terminal_id = _terminal(params, outcome)
        self.note(
            method.name,
            _code(outcome),
            caller=caller,
            session_id=_session(params, outcome, terminal_id, connection),
            subject=_subject(params, terminal_id, connection),
        )


NOWHERE: Final = Trail(Nowhere(), lambda: 0.0)
"""For parts that stand alone."""


def _subject(params: Struct, terminal_id: str | None, connection: Connection | None) -> str | None:
    if isinstance(params, UploadArchive):
        return params.path
    return terminal_id or (None if connection is None else connection.id)


def _changes(method: Method, params: Struct) -> bool:
    resumes = isinstance(params, Attach) and params.resume is True
    return RULES[method.access].writes or method.name == _CLOSE or resumes


def _code(outcome: Struct | Exception) -> str:
    if isinstance(outcome, ApiError):
        return outcome.code.value
    return Code.INTERNAL.value if isinstance(outcome, Exception) else "ok"


def _terminal(params: Struct, outcome: Struct | Exception) -> str | None:
    if isinstance(outcome, results.TerminalOpened):
        return outcome.terminal.id
    named = getattr(params, "terminal_id", None)
    return named if isinstance(named, str) and TERMINAL.matches(named) else None


def _session(
    params: Struct, outcome: Struct | Exception, terminal_id: str | None, connection: Connection | None
) -> str | None:
    if isinstance(outcome, results.SessionCreated):
        return outcome.session.id
    if terminal_id is not None and connection is not None:
        of_terminal = connection.channels.session_of(terminal_id)
        if of_terminal is not None:
            return of_terminal
    # `sessions.create` has its own name for it
    named = getattr(params, "session_id", None) or getattr(params, "id", None)
    return named if isinstance(named, str) and SESSION.matches(named) else None
