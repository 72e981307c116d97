"""The opening handshake of RFC 6455, section 4.1, from the client's side: the request's text, and what the answer says."""

from __future__ import annotations

from typing import Final, NamedTuple

from computerd.opc import websocket
from computerd.opc.locate import Place
from computerd.opc.requests import USER_AGENT

SUBPROTOCOL: Final = "opc.v1"
MAX_HEAD: Final = 16 * 1024
"""Bytes of an answer's head."""
HEAD_END: Final = b"\r\n\r\n"


class Head(NamedTuple):
    """Status and headers of an answer; the names are in lower case."""

    status: int
    headers: dict[str, str]

    def accepts(self, key: str) -> bool:
        """Whether the connection is a WebSocket that speaks the Computer API now."""
        return (
            self.status == 101
            and self.headers.get("upgrade", "").lower() == "websocket"
            and "upgrade" in self.headers.get("connection", "").lower()
            and self.headers.get("sec-websocket-accept") == websocket.accept(key)
            and "sec-websocket-extensions" not in self.headers
        )


def request(place: Place, key: str) -> bytes:
    """The bytes that ask for the upgrade. `key` is 16 random bytes in base64."""
    lines = [
        f"GET {place.address.path}/connect HTTP/1.1",
        f"Host: {place.address.host_header}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}",
        f"User-Agent: {USER_AGENT}",
    ]
    if place.token is not None:
        lines.append(f"Authorization: Bearer {place.token}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def parse(head: bytes) -> Head | None:
    """An answer's head, without its last empty line; None when it is no HTTP/1.1."""
    status_line, *lines = head.decode("latin-1").split("\r\n")
    words = status_line.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Head(int(words[1][:3]), headers)
