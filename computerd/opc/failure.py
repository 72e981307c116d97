"""What `opc` could not do, said once: a slug for programs, a sentence for people."""

from __future__ import annotations

from typing import Final

OWN_FAILURE: Final = 255
"""The exit code of `opc shell` and `opc exec` when not the program but the way to it failed, as with ssh(1); and of `opc events`."""
FAILURE: Final = 1
USAGE: Final = 2
BY_SIGNAL: Final = 128
"""Added to a signal's number, as shells do."""
LINK_LOST: Final = "link_lost"
UNREACHABLE: Final = "unreachable"
_PASSING: Final = frozenset({LINK_LOST, "unavailable", "computer_unavailable", "rate_limited"})
MAX_RETRY_AFTER_MS: Final = 60_000
"""Of a server's `retryAfterMs`, that is believed."""


class Failure(Exception):
    """Ends the command with one line on standard error.

    Attributes:
        code: A slug: one of the API's error codes, or one of the client's own: `unreachable` (no connection came about),
            `link_lost` (it broke before the answer), `invalid_configuration`, `invalid_answer`, `input_lost`, `output_lost`.
        message: One line for a person, which says what to do next.
        request_id: What the daemon's log calls the request, if it was refused there.
        retry_after_ms: How long the daemon wants us to wait, or None.
    """

    def __init__(
        self, code: str, message: str, request_id: str | None = None, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id
        self.retry_after_ms = retry_after_ms

    @classmethod
    def of_body(cls, body: object, otherwise: str) -> Failure:
        """The failure that an error body of the API describes. `otherwise` is the message when it is none."""
        if not isinstance(body, dict) or not isinstance(body.get("message"), str):
            return cls("invalid_answer", otherwise)
        request_id = body.get("requestId")
        return cls(
            one_line(str(body.get("code"))),
            one_line(body["message"]),
            one_line(request_id) if isinstance(request_id, str) else None,
            milliseconds(body.get("retryAfterMs")),
        )

    @property
    def passing(self) -> bool:
        """Whether the same may well work a moment later."""
        return self.code in _PASSING

    def body(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {"error": {"code": self.code, "message": self.message, "requestId": self.request_id}}


def milliseconds(value: object) -> int | None:
    """A `retryAfterMs` within reason; None if `value` is none."""
    return max(0, min(value, MAX_RETRY_AFTER_MS)) if isinstance(value, int) and not isinstance(value, bool) else None


def one_line(text: str) -> str:
    """`text` without what could steer a terminal or begin another line: it may come from a stranger."""
    return "".join(character if character.isprintable() else " " for character in text)[:2000]
