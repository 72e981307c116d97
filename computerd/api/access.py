"""Asks the contract's table who may do what: the one place that does, for every way in.

The order of the checks is fixed (scope, then `readOnly`, then existence, then ownership), so that a caller without the scope learns nothing
about what exists.
"""

from __future__ import annotations

from computerd.api.caller import Caller
from computerd.contract.access import RULES, Access, Scope
from computerd.contract.errors import ApiError, Code, Reason


def check_scope(access: Access, caller: Caller) -> None:
    """Refuses a caller whose credential lacks the scope that `access` asks for. Being an admin is no scope.

    Raises:
        ApiError: `forbidden`, `missing_scope`.
    """
    scope = RULES[access].scope
    if scope is not None:
        require(scope, caller)


def require(scope: Scope, caller: Caller) -> None:
    """Refuses a caller whose credential lacks `scope`.

    Raises:
        ApiError: `forbidden`, `missing_scope`.
    """
    if scope not in caller.scopes:
        raise ApiError(
            Code.FORBIDDEN,
            f"This needs a credential with the scope {scope.value}.",
            reason=Reason.MISSING_SCOPE,
        )


def check_owner(access: Access, caller: Caller, owner: str) -> None:
    """Refuses who is neither the session's owner nor an admin, where `access` asks for that.

    Raises:
        ApiError: `forbidden`, with the reason of the table, if it has one.
    """
    rule = RULES[access]
    if rule.owner and not caller.admin and caller.member.id != owner:
        raise ApiError(
            Code.FORBIDDEN,
            "Only the session's owner or an admin may do this: use a session of your own.",
            reason=rule.stranger,
        )


def refuse_read_only() -> ApiError:
    """What a write is refused with on a connection that attached the session `readOnly`."""
    return ApiError(
        Code.FORBIDDEN,
        "This connection attached the session with readOnly: attach it again without, or use another connection.",
        reason=Reason.READ_ONLY,
    )
