"""Finds the daemon and a credential for it: the settings say where, or else the daemon on this host does.

The local socket: whoever connects is told one line of JSON, `{"url", "token", "expiresAt"}` or `{"error": {…}}`. The daemon
knows by SO_PEERCRED (unix(7)) who asks.
"""

from __future__ import annotations

import json
import os
import socket
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from computerd.opc import address, credentials, settings
from computerd.opc.address import Address
from computerd.opc.failure import Failure
from computerd.opc.settings import Settings

DEFAULT_URL: Final = "ws://127.0.0.1:7390"
"""Where a daemon listens unless it is told otherwise; used with a token that was given without a URL."""
LOCAL_SECONDS: Final = 5.0
"""For the local socket to answer."""
LOCAL_BYTES: Final = 64 * 1024
SYSTEM_SOCKET: Final = "/run/computerd/local.sock"


class Place(NamedTuple):
    """A daemon and how to be let in.

    Attributes:
        token: None: nothing was found; the daemon will refuse.
        origin: Where this was learned, for people.
    """

    address: Address
    token: str | None
    origin: str


def configured(options: Namespace, env: Mapping[str, str]) -> Settings:
    """The settings for this command line. To be called once: a token's file may be a pipe, such as the shell's `<(…)`.

    Raises:
        Failure: They can't be settled.
    """
    flags = {key: getattr(options, key, None) for key in ("url", "token_file", "host", "escape", "color")}
    files = [file for path in settings.paths(env) if (file := settings.read(path)) is not None]
    return settings.resolve(flags, env, files, credentials.read_private)


def locate(found: Settings, env: Mapping[str, str]) -> Place:
    """The daemon to speak to, as the settings or the local socket say.

    Raises:
        Failure: None was named and none answers on this host, or what was named is unusable.
    """
    if found.url is not None:
        where = address.parse(found.url.value)
        token = found.token.value if found.token is not None else _kept(where, env)
        return Place(where, token, found.url.origin)
    if found.token is not None:
        return _beside(found.token.value, env)
    path, answer = _first(env)
    return Place(address.parse(answer["url"]), credentials.token(answer["token"], path), path)


def _kept(where: Address, env: Mapping[str, str]) -> str | None:
    """The token that the user keeps for this daemon, in `["URL"] token = …` of the credentials file."""
    path = settings.credentials_path(env)
    if not os.path.exists(path):
        return None
    for url, entry in settings.parse(credentials.read_private(path), path).items():
        if isinstance(entry, dict) and address.parse(url).url == where.url and isinstance(entry.get("token"), str):
            return credentials.token(entry["token"], path)
    return None


def _beside(token: str, env: Mapping[str, str]) -> Place:
    """The daemon for a token that came without a URL: the one on this host."""
    try:
        path, answer = _first(env)
    except Failure:
        return Place(address.parse(DEFAULT_URL), token, "built in")
    return Place(address.parse(answer["url"]), token, path)


def sockets(env: Mapping[str, str]) -> list[str]:
    """Where a local daemon's socket may be, the nearest first."""
    if "OPC_LOCAL_SOCKET" in env:
        return [env["OPC_LOCAL_SOCKET"]]
    # A daemon that was started without $XDG_RUNTIME_DIR, as by su(1) or cron(8), has it in its state folder.
    bases = [base for base in (settings.xdg(env, "XDG_RUNTIME_DIR"), settings.state_home(env)) if base]
    return [*(os.path.join(base, "computerd", "local.sock") for base in bases), SYSTEM_SOCKET]


def _first(env: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The first local socket that somebody answers on, and the answer."""
    tried: list[tuple[str, OSError]] = []
    for path in sockets(env):
        try:
            return path, ask(path)
        except OSError as error:
            tried.append((path, error))
    raise Failure(
        "unreachable",
        f"found no daemon: {_silence(tried)}. "
        "Start one (`twistd -n computerd`), or say where it is with --url and --token-file.",
    )


def _silence(tried: Sequence[tuple[str, OSError]]) -> str:
    """What was found at the places where no daemon answers. A place that is not there is not worth a word if another one is."""
    there = [
        f"{path} does not answer ({error.strerror or error})"
        for path, error in tried
        if not isinstance(error, FileNotFoundError)
    ]
    return "; ".join(there) or f"there is no socket at {' or '.join(path for path, _ in tried)}"


def ask(path: str) -> dict[str, str]:
    """What the daemon behind the local socket `path` says.

    Raises:
        OSError: Nobody is there.
        Failure: It refused, or answered something else.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(LOCAL_SECONDS)
        connection.connect(path)
        line = b""
        while b"\n" not in line and len(line) < LOCAL_BYTES and (more := connection.recv(LOCAL_BYTES)):
            line += more
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and "error" in answer:
        raise Failure.of_body(answer["error"], f"the daemon at {path} refused without saying why.")
    if not isinstance(answer, dict) or not all(isinstance(answer.get(key), str) for key in ("url", "token")):
        raise Failure("invalid_answer", f"what answers at {path} is no daemon that this client knows.")
    return answer
