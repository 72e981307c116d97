"""Who may do what: the one place that says so, for every way in.

Source: "Access" of the terminals page, section 6 of the Computer API page. The order of the checks is fixed (scope, then
existence, then ownership), so that a caller without the scope learns nothing about what exists.
"""

from __future__ import annotations

from typing import Final

from computerd.api.caller import Caller
from computerd.contract.errors import ApiError, Code, Reason
from computerd.contract.methods import Access, Scope

_SCOPE: Final[dict[Access, Scope]] = {
    Access.READ: Scope.SESSIONS_READ,
    Access.WRITE: Scope.SESSIONS_WRITE,
    Access.TERMINALS: Scope.TERMINALS,
    Access.OWN_TERMINAL: Scope.TERMINALS,
}


def check_scope(access: Access, caller: Caller) -> None:
    """Refuses a caller whose credential lacks the scope that `access` asks for. Being an admin is no scope.

    Raises:
        ApiError: `forbidden`, `missing_scope`.
    """
    scope = _SCOPE.get(access)
    if scope is not None and scope not in caller.scopes:
        raise ApiError(
            Code.FORBIDDEN,
            f"This needs a credential with the scope {scope.value}.",
            reason=Reason.MISSING_SCOPE,
        )


def check_terminal_owner(caller: Caller, owner: str) -> None:
    """Refuses who is neither the session's owner nor an admin.

    Raises:
        ApiError: `forbidden`, `terminal_owner_only`.
    """
    if not caller.admin and caller.member.id != owner:
        raise ApiError(
            Code.FORBIDDEN,
            "Only the session's owner or an admin may open terminals on it: open one on a session of your own.",
            reason=Reason.TERMINAL_OWNER_ONLY,
        )
