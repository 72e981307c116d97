"""The opaque cursor of a list of sessions: the place of the last one that was seen."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from computerd.contract.errors import ApiError, Code
from computerd.contract.identifiers import SESSION

_TEXT: Final = re.compile(r"(0|[1-9][0-9]{0,15})\.(.*)")


def encode(created_at: float, session_id: str) -> str:
    """The cursor that continues after that session.

    Args:
        created_at: Seconds since the epoch, exact to the millisecond.
        session_id: The session.
    """
    return urlsafe_b64encode(f"{round(created_at * 1000)}.{session_id}".encode()).decode().rstrip("=")


def decode(cursor: str) -> tuple[float, str]:
    """The place that a cursor means.

    Raises:
        ApiError: `invalid_cursor`: it is not one that `encode` has made.
    """
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        raise _invalid() from None
    match = _TEXT.fullmatch(text)
    # base64 has several spellings of the same bytes; only ours counts
    if (
        match is None
        or not SESSION.matches(match[2])
        or urlsafe_b64encode(text.encode()).decode().rstrip("=") != cursor
    ):
        raise _invalid()
    return int(match[1]) / 1000, match[2]


def _invalid() -> ApiError:
    return ApiError(Code.INVALID_CURSOR, "Pass nextCursor as the last answer gave it, or no cursor.", field="cursor")
