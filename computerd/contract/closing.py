"""The WebSocket close codes of the API, with the short reason that goes with each."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from computerd.contract import limits


class CloseCode(IntEnum):
    """Why the server ends a connection."""

    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    INVALID_TEXT = 1007
    POLICY_VIOLATION = 1008
    MESSAGE_TOO_BIG = 1009
    RESTARTING = 1012
    CREDENTIAL_ENDED = 4001
    TOO_MUCH_UNSENT = 4008
    TOO_MANY_CONNECTIONS = 4029
    NO_SUBPROTOCOL = 4400
    NO_KEY = 4503


REASONS: Final[dict[CloseCode, str]] = {
    CloseCode.GOING_AWAY: "two pings were missed",
    CloseCode.PROTOCOL_ERROR: "malformed frame",
    CloseCode.INVALID_TEXT: "text that is not UTF-8",
    CloseCode.POLICY_VIOLATION: "too many pings",
    CloseCode.MESSAGE_TOO_BIG: "a message over 1 MiB",
    CloseCode.RESTARTING: "the server is restarting",
    CloseCode.CREDENTIAL_ENDED: "the credential expired or was revoked",
    CloseCode.TOO_MUCH_UNSENT: "more than 16 MiB unsent",
    CloseCode.TOO_MANY_CONNECTIONS: "more than 50 connections for one member",
    CloseCode.NO_SUBPROTOCOL: "offer the subprotocol opc.v1",
    CloseCode.NO_KEY: f'{{"retryAfterMs":{limits.NO_KEY_RETRY_MS}}}',
}
"""At most 123 bytes each (RFC 6455, section 5.5)."""
