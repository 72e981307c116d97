"""What the network edge has seen since the start: plain numbers, for whoever makes metrics of them.

No key of a table is a client's to choose: methods are those of the contract, codes those that the API or RFC 6455 has, all else is `other`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from attrs import define, field

from computerd.contract.errors import GROUPS, ApiError, Code
from computerd.net.limited import Limited

OTHER: Final = "other"
MISSING: Final = "missing"
FORGED: Final = "forged"
NO_LONGER: Final = "no_longer"
PROTOCOL: Final = "protocol"
"""The outcome of a message that is no request, or names no method."""
_OUTCOMES: Final = {code: group.lower().replace(" ", "_") for group, codes in GROUPS.items() for code in codes}
_CLIENT_CODES: Final = frozenset({1000, 1001, 1002, 1003, 1007, 1009, 1011})
"""Of RFC 6455, section 7.4.1: what clients close with."""
NO_CODE: Final = 1005
"""A close frame without a code (RFC 6455, section 7.1.5)."""
NO_FRAME: Final = 1006
"""The transport ended without a close frame (RFC 6455, section 7.1.5)."""


@define(eq=False)
class Tally:
    """Counts over all listeners.

    Attributes:
        connections: WebSocket connections that were opened.
        closes: How they ended: who ended it (`server`, `client` or `network`), and the close code.
        requests: HTTP answers, by method of the API and status class.
        calls: JSON-RPC answers, by method and outcome: `ok`, the group of the error's code, or `protocol`.
        limited: Answers with `rate_limited`, by what there was too much of.
        transfers: Files and archives that are on their way now.
        moved: Bytes of files and archives that were `sent` to clients and `received` from them.
        unauthenticated: Answers with `unauthenticated`, by why: the credential was `missing`, `forged`, or does not count, mostly
            because it counts `no_longer`.
    """

    connections: int = 0
    closes: Counter[tuple[str, str]] = field(factory=Counter)
    requests: Counter[tuple[str, str]] = field(factory=Counter)
    calls: Counter[tuple[str, str]] = field(factory=Counter)
    limited: Counter[str] = field(factory=Counter)
    transfers: int = 0
    moved: Counter[str] = field(factory=Counter)
    unauthenticated: Counter[str] = field(factory=Counter)

    def closed(self, code: int) -> None:
        """We have ended a connection."""
        self.closes["server", str(int(code))] += 1

    def left(self, code: int | None) -> None:
        """A client has said goodbye."""
        known = NO_CODE if code is None else code if code in _CLIENT_CODES else None
        self.closes["client", OTHER if known is None else str(known)] += 1

    def lost(self) -> None:
        """A connection has ended without a word."""
        self.closes["network", str(NO_FRAME)] += 1

    def answered(self, method: str, status: int) -> None:
        """An HTTP request was answered."""
        self.requests[method, f"{status // 100}xx"] += 1

    def called(self, method: str, error: BaseException | None) -> None:
        """A JSON-RPC request of a method was answered; what is no `ApiError` was told as `internal`."""
        code = error.code if isinstance(error, ApiError) else Code.INTERNAL
        self.calls[method, "ok" if error is None else _OUTCOMES[code]] += 1

    def nonsense(self) -> None:
        """A message was answered that is no request, or names no method."""
        self.calls[OTHER, PROTOCOL] += 1

    def refused(self, error: ApiError) -> None:
        """A request was answered with an error, over HTTP or WebSocket."""
        if isinstance(error, Limited):
            self.limited[error.what] += 1
