"""Who may call what: one table. The front door asks it, the reference pages print it, and a test walks through its every cell.

Source: "Access" of the terminals page, section 6 of the Computer API page, and the reasons of `forbidden` in the API schema.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from attrs import frozen

from computerd.contract.errors import Reason


class Scope(StrEnum):
    """What a credential may be good for."""

    SESSIONS_READ = "sessions:read"
    SESSIONS_WRITE = "sessions:write"
    FILES_READ = "files:read"
    FILES_WRITE = "files:write"
    TERMINALS = "terminals"


class Access(StrEnum):
    """Who may call a method, in words for the reference pages. `RULES` says what each means."""

    ANYONE = "any credential"
    READ = "sessions:read"
    WRITE = "sessions:write"
    TERMINALS = "terminals, as the owner or an admin"
    OWN_TERMINAL = "terminals, on the connection that opened it"
    FILES_READ = "files:read, as the owner or an admin"
    FILES_WRITE = "files:write, as the owner or an admin"


@frozen
class Rule:
    """What an `Access` asks of a caller, in the order in which it is asked.

    Attributes:
        scope: That the credential must have; being an admin is no scope. None: any credential will do.
        writes: Whether a connection that attached the session `readOnly` is refused.
        owner: Whether only the session's owner or an admin may.
        stranger: The reason that somebody else is refused with then. None: without one, because none that the API has says it.
    """

    scope: Scope | None
    writes: bool = False
    owner: bool = False
    stranger: Reason | None = None


RULES: Final[dict[Access, Rule]] = {
    Access.ANYONE: Rule(None),
    Access.READ: Rule(Scope.SESSIONS_READ),
    Access.WRITE: Rule(Scope.SESSIONS_WRITE, writes=True),
    Access.TERMINALS: Rule(Scope.TERMINALS, writes=True, owner=True, stranger=Reason.TERMINAL_OWNER_ONLY),
    # whose terminal it is goes by the connection: nobody else's can be named
    Access.OWN_TERMINAL: Rule(Scope.TERMINALS),
    # a client that is told `terminal_owner_only` speaks of terminals to its user
    Access.FILES_READ: Rule(Scope.FILES_READ, owner=True),
    Access.FILES_WRITE: Rule(Scope.FILES_WRITE, writes=True, owner=True),
}
PARAM_SCOPES: Final[dict[str, dict[str, Scope]]] = {"sessions.attach": {"resume": Scope.SESSIONS_WRITE}}
"""The scope that a param asks for beside its method's, by method and param: resuming a session changes it, whatever it is asked with."""
