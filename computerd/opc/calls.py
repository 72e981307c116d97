"""JSON-RPC from the client's side: requests as text, and which answer belongs to which."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Answered = Callable[[dict[str, Any] | None, dict[str, Any] | None], None]
"""Called with the result, or with the error's body (`{}` when it has none)."""


class Calls:
    """The requests of one connection that are not answered yet."""

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[int, Answered] = {}

    def request(self, method: str, params: Mapping[str, object], answered: Answered) -> str:
        """The text of a request. `answered` is called when its answer is given to `take`."""
        self._last += 1
        self._open[self._last] = answered
        return json.dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})

    @staticmethod
    def notification(method: str, params: Mapping[str, object]) -> str:
        """The text of a message that nobody answers."""
        return json.dumps({"jsonrpc": "2.0", "method": method, "params": params})

    def take(self, text: bytes) -> tuple[str, dict[str, Any]] | None:
        """Takes a message from the server: a notification is returned, as method and params; an answer goes where it belongs.

        A message that is neither is passed over: servers may come to say more than we know.
        """
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):  # the latter: more brackets in each other than Python takes
            return None
        if not isinstance(message, dict):
            return None
        if "id" not in message:
            method, params = message.get("method"), message.get("params")
            return (method, params) if isinstance(method, str) and isinstance(params, dict) else None
        number = message["id"]
        answered = self._open.pop(number, None) if isinstance(number, int) else None
        if answered is not None:
            self._answer(message, answered)
        return None

    def _answer(self, message: dict[str, Any], answered: Answered) -> None:
        if "error" not in message:
            result = message.get("result")
            return answered(result if isinstance(result, dict) else {}, None)
        error = message["error"] if isinstance(message["error"], dict) else {}
        data = error.get("data")
        return answered(
            None, data if isinstance(data, dict) else {"code": "refused", "message": str(error.get("message"))}
        )
