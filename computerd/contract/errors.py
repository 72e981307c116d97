"""Every error code of the API, its HTTP status, and the exception that carries one.

Source: the groups of error codes in the API schema; the statuses in section 3 of the Computer API page.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Code(StrEnum):
    """A stable slug that programs branch on. Never renamed."""

    INVALID_REQUEST = "invalid_request"
    UNSUPPORTED_MODEL = "unsupported_model"
    UNSUPPORTED_EFFORT = "unsupported_effort"
    UNSUPPORTED_MODE = "unsupported_mode"
    INVALID_ANSWER = "invalid_answer"
    ANSWER_WITH_SECRET = "answer_with_secret"  # noqa: S105  # a code, no secret
    INVALID_PATH = "invalid_path"
    INVALID_ARCHIVE = "invalid_archive"
    INVALID_CURSOR = "invalid_cursor"
    TOO_LARGE = "too_large"
    UPGRADE_REQUIRED = "upgrade_required"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    ADMIN_REQUIRED = "admin_required"
    INSUFFICIENT_CREDITS = "insufficient_credits"
    NOT_FOUND = "not_found"
    SESSION_NOT_FOUND = "session_not_found"
    TURN_NOT_FOUND = "turn_not_found"
    ASK_NOT_FOUND = "ask_not_found"
    SUBAGENT_NOT_FOUND = "subagent_not_found"
    TERMINAL_NOT_FOUND = "terminal_not_found"
    PATH_NOT_FOUND = "path_not_found"
    SECRET_NOT_FOUND = "secret_not_found"  # noqa: S105  # a code, no secret
    ID_CONFLICT = "id_conflict"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    ASK_CLOSED = "ask_closed"
    SESSION_BUSY = "session_busy"
    TURN_NOT_CANCELLABLE = "turn_not_cancellable"
    QUEUE_FULL = "queue_full"
    CURSOR_AHEAD = "cursor_ahead"
    PATH_EXISTS = "path_exists"
    SUBAGENT_ENDED = "subagent_ended"
    TOO_FAR_BEHIND = "too_far_behind"
    TOO_MANY_ATTACHED = "too_many_attached"
    TOO_MANY_TERMINALS = "too_many_terminals"
    FEATURE_UNAVAILABLE = "feature_unavailable"
    COMPUTER_NOT_SET_UP = "computer_not_set_up"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    COMPUTER_UNAVAILABLE = "computer_unavailable"
    INTERNAL = "internal"


class Reason(StrEnum):
    """Why a caller is `forbidden`."""

    MISSING_SCOPE = "missing_scope"
    READ_ONLY = "read_only"
    TERMINAL_OWNER_ONLY = "terminal_owner_only"


GROUPS: Final[dict[str, tuple[Code, ...]]] = {
    "Request": (
        Code.INVALID_REQUEST,
        Code.UNSUPPORTED_MODEL,
        Code.UNSUPPORTED_EFFORT,
        Code.UNSUPPORTED_MODE,
        Code.INVALID_ANSWER,
        Code.ANSWER_WITH_SECRET,
        Code.INVALID_PATH,
        Code.INVALID_ARCHIVE,
        Code.INVALID_CURSOR,
        Code.TOO_LARGE,
        Code.UPGRADE_REQUIRED,
    ),
    "Credential and access": (
        Code.UNAUTHENTICATED,
        Code.FORBIDDEN,
        Code.ADMIN_REQUIRED,
        Code.INSUFFICIENT_CREDITS,
    ),
    "Not found": (
        Code.NOT_FOUND,
        Code.SESSION_NOT_FOUND,
        Code.TURN_NOT_FOUND,
        Code.ASK_NOT_FOUND,
        Code.SUBAGENT_NOT_FOUND,
        Code.TERMINAL_NOT_FOUND,
        Code.PATH_NOT_FOUND,
        Code.SECRET_NOT_FOUND,
    ),
    "Conflict": (
        Code.ID_CONFLICT,
        Code.IDEMPOTENCY_CONFLICT,
        Code.ASK_CLOSED,
        Code.SESSION_BUSY,
        Code.TURN_NOT_CANCELLABLE,
        Code.QUEUE_FULL,
        Code.CURSOR_AHEAD,
        Code.PATH_EXISTS,
        Code.SUBAGENT_ENDED,
        Code.TOO_FAR_BEHIND,
        Code.TOO_MANY_ATTACHED,
        Code.TOO_MANY_TERMINALS,
        Code.FEATURE_UNAVAILABLE,
        Code.COMPUTER_NOT_SET_UP,
    ),
    "Retry later": (
        Code.RATE_LIMITED,
        Code.UNAVAILABLE,
        Code.COMPUTER_UNAVAILABLE,
        Code.INTERNAL,
    ),
}
"""Every code, in the group that the API schema lists it in."""

_GROUP_STATUS: Final = {"Request": 400, "Not found": 404, "Conflict": 409}
# Where a code's own status differs from its group's.
_STATUS: Final[dict[Code, int]] = {
    Code.UNAUTHENTICATED: 401,
    Code.INSUFFICIENT_CREDITS: 402,
    Code.FORBIDDEN: 403,
    Code.ADMIN_REQUIRED: 403,
    Code.TOO_LARGE: 413,
    Code.UPGRADE_REQUIRED: 426,
    Code.RATE_LIMITED: 429,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.COMPUTER_UNAVAILABLE: 503,
}
_STATUSES: Final = {
    code: _STATUS.get(code) or _GROUP_STATUS[group] for group, codes in GROUPS.items() for code in codes
}
# What time alone can cure.
_RETRYABLE: Final = frozenset(
    {
        Code.RATE_LIMITED,
        Code.UNAVAILABLE,
        Code.COMPUTER_UNAVAILABLE,
        Code.INTERNAL,
        Code.SESSION_BUSY,
        Code.QUEUE_FULL,
        Code.TOO_MANY_TERMINALS,
        Code.TOO_MANY_ATTACHED,
    }
)


def status(code: Code) -> int:
    """The HTTP status that `code` is answered with."""
    return _STATUSES[code]


def retryable(code: Code) -> bool:
    """Whether the same request may succeed later without any change by the caller."""
    return code in _RETRYABLE


class ApiError(Exception):
    """A refusal that the caller is told about.

    Attributes:
        code: What went wrong.
        message: One sentence for a person that says what to do next. No path of the daemon, no traceback.
        field: The request's field at fault, as the caller spelled it.
        reason: For `forbidden`: why.
        retry_after_ms: How long to wait before trying again, in milliseconds.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        field: str | None = None,
        reason: Reason | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.reason = reason
        self.retry_after_ms = retry_after_ms

    @property
    def status(self) -> int:
        """The HTTP status of this error."""
        return status(self.code)

    def body(self, request_id: str | None = None) -> dict[str, object]:
        """The error body: HTTP wraps it as `{"error": …}`, WebSocket sends it as a JSON-RPC error's `data`."""
        body: dict[str, object] = {
            "code": self.code.value,
            "message": self.message,
            "status": self.status,
            "retryable": retryable(self.code),
        }
        if request_id is not None:
            body["requestId"] = request_id
        if self.field is not None:
            body["field"] = self.field
        if self.reason is not None:
            body["reason"] = self.reason.value
        if self.retry_after_ms is not None:
            body["retryAfterMs"] = self.retry_after_ms
        return body


def internal() -> ApiError:
    """What a caller hears of a defect of the server's: where it is told, and nothing about it."""
    return ApiError(Code.INTERNAL, "The server has failed. Its log says more under the request id: tell its operator.")


def invalid(field: str | None, message: str) -> ApiError:
    """An `invalid_request` that names its field."""
    return ApiError(Code.INVALID_REQUEST, message, field=field)
