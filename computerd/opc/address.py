"""Where a daemon is, as a URL says it, and a connection to there."""

from __future__ import annotations

import socket
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from computerd.opc.failure import Failure

CONNECT_SECONDS: Final = 10.0
"""For a connection to come about, TLS included, to each of a host's addresses."""
USER_TIMEOUT_MS: Final = 45_000
"""TCP_USER_TIMEOUT (tcp(7)): the kernel gives a connection up when what was sent is not acknowledged for so long."""
_SCHEMES: Final = {"ws": (False, 80), "http": (False, 80), "wss": (True, 443), "https": (True, 443)}
EXAMPLES: Final = "ws://127.0.0.1:7390, wss://host.example, unix:/run/computerd/api.sock"


class Address(NamedTuple):
    """A daemon's place.

    Attributes:
        url: In its plain form: what a credential is kept under.
        path: What every route begins with, without a slash at the end; mostly empty.
        unix: The path of a Unix socket; then `host` and `port` mean nothing.
    """

    url: str
    host: str
    port: int
    tls: bool
    path: str
    unix: str | None

    @property
    def host_header(self) -> str:
        """The value of `Host`."""
        if self.unix is not None:
            return "localhost"
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.tls else 80) else f"{name}:{self.port}"

    @property
    def exposed(self) -> bool:
        """Whether a credential would cross a network in clear."""
        return not self.tls and self.unix is None and not _loopback(self.host)


def parse(url: str) -> Address:
    """The address that `url` names. `/connect` at its end may be there or not.

    Raises:
        Failure: It names none, or bears a password or a query.
    """
    if url.startswith("unix:"):
        path = "/" + url.removeprefix("unix:").lstrip("/")
        if not url.removeprefix("unix:").startswith("/") or "\0" in url:
            raise _unusable(url, "the path of a Unix socket begins with /")
        return Address(f"unix:{path}", "localhost", 0, False, "", path)
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise _unusable(url, str(error)) from None
    if parts.scheme not in _SCHEMES or not host or any(c.isspace() or not c.isprintable() for c in url):
        raise _unusable(url, "it has no host or no known scheme")
    if parts.username is not None or parts.query or parts.fragment:
        raise _unusable("…", "a credential is never part of a URL; use --token-file")
    if not parts.path.isascii():
        raise _unusable(url, "what is not ASCII in its path must be written as %XX")
    tls, default = _SCHEMES[parts.scheme]
    path = parts.path.rstrip("/").removesuffix("/connect")
    plain = Address("", host, port or default, tls, path, None)
    return plain._replace(url=f"{'wss' if tls else 'ws'}://{plain.host_header}{path}")


def _unusable(url: str, why: str) -> Failure:
    return Failure("invalid_configuration", f"{url!r} is no URL of a daemon: {why}. Such are {EXAMPLES}.")


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return host == "::1" or (host.startswith("127.") and host.replace(".", "").isdigit())


def connect(address: Address, seconds: float = CONNECT_SECONDS) -> socket.socket:
    """A connection there, with TLS if the address asks for it. Its operations time out after `seconds`.

    Raises:
        Failure: There is none. The message says what to look at.
    """
    try:
        if address.unix is not None:
            return _unix(address.unix, seconds)
        connection = socket.create_connection((address.host, address.port), seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
        return _secured(connection, address.host) if address.tls else connection
    except (OSError, UnicodeError) as error:
        raise unreachable(address, error) from None


def unreachable(address: Address, error: Exception) -> Failure:
    """No connection, or one that broke before it was of use."""
    why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return Failure(
        "unreachable",
        f"can't reach a daemon at {address.url}: {why}. Check that it runs and that the URL is right (`opc config show --origin`).",
    )


def _unix(path: str, seconds: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(seconds)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _secured(connection: socket.socket, host: str) -> socket.socket:
    import ssl  # noqa: PLC0415  a tenth of a plain connection's whole time

    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        connection.close()
        raise Failure(
            "unreachable",
            f"the certificate of {host} is not trusted: {error.verify_message}. "
            "Name your authority's file in SSL_CERT_FILE, or check the host's name.",
        ) from None
    except BaseException:
        connection.close()
        raise
