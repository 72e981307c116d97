"""The daemon's HTTP routes, as far as the client needs them: one request, one answer, in JSON."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlencode

import computerd
from computerd.contract import limits
from computerd.contract.errors import Code
from computerd.opc import address
from computerd.opc.failure import LINK_LOST, Failure
from computerd.opc.locate import Place

MAX_ANSWER: Final = 32 * limits.MIB
"""Bytes of an answer that are put up with."""
USER_AGENT: Final = f"opc/{computerd.__version__}"
"""The daemon takes a session's origin from it."""

_PROXY_STATUSES: Final = (502, 503, 504)
"""What a proxy says for a daemon that does not answer it (RFC 9110, section 15.6)."""


class _Connection(HTTPConnection):
    """One to any kind of address."""

    def __init__(self, place: Place, seconds: float) -> None:
        super().__init__(place.address.host, place.address.port or None)
        self._place = place
        self._seconds = seconds

    def connect(self) -> None:
        self.sock: socket.socket = address.connect(self._place.address, self._seconds)


def ask(
    place: Place,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, object] | None = None,
    seconds: float = address.CONNECT_SECONDS,
) -> dict[str, Any]:
    """The answer to one request.

    Args:
        place: Which daemon.
        method: `GET`, `POST` or `PATCH`.
        path: Such as `/sessions`.
        query: What follows the question mark.
        body: Sent as JSON.
        seconds: For a connection to come about, and then for each piece of the answer.

    Raises:
        Failure: The daemon can't be reached, refused, or answered something that it should not. With the code `link_lost` it is not
            known whether the request was carried out.
    """
    route = place.address.path + path + (f"?{urlencode(query)}" if query else "")
    headers = {"Host": place.address.host_header, "User-Agent": USER_AGENT, "Accept": "application/json"}
    if place.token is not None:
        headers["Authorization"] = f"Bearer {place.token}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection = _Connection(place, seconds)
    try:
        connection.request(method, route, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        data = response.read(MAX_ANSWER + 1)
    except (OSError, HTTPException) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        raise Failure(
            LINK_LOST, f"the connection to {place.address.url} broke before it answered: {why}. Try again."
        ) from None
    finally:
        connection.close()
    return answer(place, response.status, data)


def answer(place: Place, status: int, data: bytes) -> dict[str, Any]:
    """What an answer says.

    Raises:
        Failure: It says no, or nothing that is understood.
    """
    try:
        body = json.loads(data) if len(data) <= MAX_ANSWER else None
    except (ValueError, RecursionError):  # the latter: more brackets in each other than Python takes
        body = None
    if 200 <= status < 300 and isinstance(body, dict):
        return body
    refusal = body.get("error") if isinstance(body, dict) else None
    strange = (
        f"{place.address.url} answered {status}, and not as a daemon does. Check the URL (`opc config show --origin`)."
    )
    failure = Failure.of_body(refusal, strange)
    if refusal is None and status in _PROXY_STATUSES:
        failure.code = Code.UNAVAILABLE
    if failure.code == "unauthenticated":
        failure.message += _credential_hint(place, failure.message)
    raise failure


def _credential_hint(place: Place, told: str) -> str:
    if place.token is None:
        return " No token was found: give one with --token-file or OPC_TOKEN."
    return "" if "token create" in told else " `computerctl token create` makes a new token."
