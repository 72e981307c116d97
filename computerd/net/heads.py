"""The head of a request, and what is refused about it before anybody looks at who sends it: framing, host, origin."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote_to_bytes

from attrs import define, frozen
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.interfaces import IAddress
from twisted.web.http_headers import Headers

from computerd.contract.errors import ApiError, Code, invalid

_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_TOKEN_NAMES: Final = frozenset({"token", "access_token", "authorization", "bearer", "jwt"})
SUBPROTOCOL: Final = "opc.v1"
BEARER_SUBPROTOCOL: Final = "opc.bearer."
"""How a browser, which can set no header on a WebSocket, presents its token."""


class MethodNotAllowed(ApiError):
    """A verb that a path does not have.

    Attributes:
        allow: The verbs that it has.
    """

    def __init__(self, allow: tuple[str, ...]) -> None:
        super().__init__(Code.INVALID_REQUEST, f"This path answers {', '.join(allow)} only.")
        self.allow = allow

    @property
    def status(self) -> int:
        """405, which no error code of the API has."""
        return 405


class RangeNotSatisfiable(ApiError):
    """A range that a file does not have.

    Attributes:
        size: Of the file, in bytes.
    """

    def __init__(self, size: int) -> None:
        super().__init__(
            Code.INVALID_REQUEST, f"The file has {size} bytes, and none of those that Range asks for.", field="Range"
        )
        self.size = size

    @property
    def status(self) -> int:
        """416, which no error code of the API has."""
        return 416


class PreconditionFailed(ApiError):
    """What a client said of a file is not so."""

    def __init__(self, field: str) -> None:
        super().__init__(Code.INVALID_REQUEST, f"The file is not, or not any more, what {field} says.", field=field)

    @property
    def status(self) -> int:
        """412, which no error code of the API has."""
        return 412


@frozen
class Head:
    """A request's first line and headers.

    Attributes:
        verb: As sent; verbs are case-sensitive.
        target: As sent, not decoded.
        headers: Every header.
        secure: Whether it came over TLS.
        local: The address that the client called.
        body: Whether a body follows.
    """

    verb: str
    target: str
    headers: Headers
    secure: bool
    local: IAddress
    body: bool

    @property
    def path(self) -> str:
        """The path, not decoded."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> list[tuple[str, str]]:
        """Names and values, decoded.

        Raises:
            ApiError: `invalid_request`: a part without `=`, or one that is not UTF-8.
        """
        text = self.target.partition("?")[2]
        return [_pair(part) for part in text.split("&") if part]

    def one(self, name: str) -> str | None:
        """A header that may come once; None without it, or when it is not ASCII.

        Raises:
            ApiError: `invalid_request`: it came twice.
        """
        values = self.headers.getRawHeaders(name.encode()) or []
        if len(values) > 1:
            raise invalid(name, f"{name} may be sent once only.")
        return values[0].decode("ascii", "replace") if values else None

    def words(self, name: str) -> list[str]:
        """The parts of a header that is a list, in order."""
        values = self.headers.getRawHeaders(name.encode()) or []
        return [
            word.strip() for value in values for word in value.decode("ascii", "replace").split(",") if word.strip()
        ]

    @property
    def upgrades(self) -> bool:
        """Whether it asks for a WebSocket."""
        return "websocket" in map(str.lower, self.words("Upgrade")) and "upgrade" in map(
            str.lower, self.words("Connection")
        )


def _pair(part: str) -> tuple[str, str]:
    name, sign, value = part.partition("=")
    try:
        name, value = (unquote_to_bytes(text.replace("+", " ")).decode() for text in (name, value))
    except UnicodeDecodeError:
        raise invalid("query", "The query must be UTF-8, percent-encoded.") from None
    if not sign:
        raise invalid(name[:100], "A part of the query needs a value: name=value.")
    return name, value


@define
class Rules:
    """Which hosts and origins may call.

    Attributes:
        origins: Of browsers, beside the server's own; exact strings.
        hosts: Names of the server, beside those of the loopback, in lower case; empty: any when it is not called on the loopback.
    """

    origins: frozenset[str]
    hosts: frozenset[str]

    def check(self, head: Head) -> None:
        """Refuses what no client of ours sends.

        Raises:
            ApiError: `invalid_request` or `forbidden`.
        """
        if not head.target.startswith("/"):
            raise invalid(None, "The request's target must be a path.")
        host = self._check_host(head)
        self._check_origin(head, host)
        if not _TOKEN_NAMES.isdisjoint(
            part.partition("=")[0].lower() for part in head.target.partition("?")[2].split("&")
        ):
            raise invalid("query", "Never put a credential in a URL: send it as `Authorization: Bearer …`.")

    def _check_host(self, head: Head) -> str:
        host = head.one("Host")
        match = None if host is None else _HOST.fullmatch(host)
        if host is None or match is None:
            raise invalid("Host", "Send one Host header with the server's name.")
        if isinstance(head.local, UNIXAddress):
            return host
        name = match[1].lower()
        any_name = not self.hosts and not is_loopback(head.local)
        if not any_name and name not in self.hosts and not _names_loopback(name):
            raise invalid("Host", "The server is not called that: use localhost, or a name in allowed_hosts.")
        return host

    def _check_origin(self, head: Head, host: str) -> None:
        origins = head.headers.getRawHeaders(b"Origin") or []
        own = f"{'https' if head.secure else 'http'}://{host}"
        for origin in origins:
            text = origin.decode("ascii", "replace")
            if len(origins) > 1 or text == "null" or (text != own and text not in self.origins):
                raise ApiError(Code.FORBIDDEN, "This origin may not call the server: list it in allowed_origins.")


def _names_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def is_loopback(address: IAddress) -> bool:
    """Whether an address is one of the loopback's, and not that of all interfaces."""
    return isinstance(address, IPv4Address | IPv6Address) and _names_loopback(address.host.removeprefix("::ffff:"))


def bearer(head: Head) -> str | None:
    """The token that a request presents, in its header or, for a browser's WebSocket, among its subprotocols.

    None: there is none, or more than one, of which neither is to be preferred.
    """
    tokens = [
        word.removeprefix(BEARER_SUBPROTOCOL)
        for word in (head.words("Sec-WebSocket-Protocol") if head.upgrades else [])
        if word.startswith(BEARER_SUBPROTOCOL)
    ]
    for value in head.headers.getRawHeaders(b"Authorization") or []:
        scheme, _, token = value.partition(b" ")
        # latin-1 maps every byte to a character: what is not ASCII fails later, as any malformed token does
        tokens.append(token.decode("latin-1") if scheme.lower() == b"bearer" else "")
    return tokens[0] if len(tokens) == 1 and tokens[0] else None


def check_upgrade(head: Head) -> str:
    """Whether a WebSocket handshake is one (RFC 6455, section 4.2.1).

    Returns:
        The Sec-WebSocket-Key.

    Raises:
        ApiError: `upgrade_required` or `invalid_request`.
    """
    if head.body:
        raise invalid("body", "A WebSocket handshake has no body.")
    if not head.upgrades or head.one("Sec-WebSocket-Version") != "13":
        raise ApiError(
            Code.UPGRADE_REQUIRED,
            f"Connect with a WebSocket client, version 13, that offers the subprotocol {SUBPROTOCOL}.",
        )
    key = head.one("Sec-WebSocket-Key") or ""
    try:
        good = len(b64decode(key, validate=True)) == 16
    except (Base64Error, ValueError):
        good = False
    if not good:
        raise invalid("Sec-WebSocket-Key", "Sec-WebSocket-Key must be 16 bytes in base64.")
    return key
