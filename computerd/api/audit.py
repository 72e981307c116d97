"""The port to the audit trail: who did what, kept through power cuts. `journal` implements it."""

from __future__ import annotations

from typing import Protocol

from attrs import frozen


@frozen
class Entry:
    """One row of the trail (requirement G4 of the threat model). It holds no secret, no command line and no content.

    Attributes:
        at: Seconds since the epoch.
        action: What was done: a method's name, or `credential.refused`, `connection.opened`, `connection.closed`, `terminal.closed`, `token.created`,
            `token.revoked`, `key.created`, `key.loaded`, `key.changed`, `config.loaded`, `daemon.started`, `daemon.stopped`.
        result: `ok`, or the code of the refusal; of `credential.refused` why it was, of `connection.closed` the close code that it was ended with.
        member: Who; None: nobody known.
        token_id: The credential's `jti`, or None.
        session_id: On which session, or None.
        subject: On what else: a terminal's or connection's id, a member, a file's name, a path in the workspace, an address. At most 200 characters.
        count: How often, for what is told in sums.
    """

    at: float
    action: str
    result: str = "ok"
    member: str | None = None
    token_id: str | None = None
    session_id: str | None = None
    subject: str | None = None
    count: int = 1


class Audit(Protocol):
    """Takes rows."""

    def note(self, entry: Entry) -> None:
        """Writes a row down soon: it is on the disk within a second, while the disk works.

        Never waits and never fails: rows that a broken disk does not take are counted and said in the log.
        """


class Nowhere:
    """An `Audit` that keeps nothing: for parts that stand alone."""

    def note(self, entry: Entry) -> None:
        """Forgets it."""
