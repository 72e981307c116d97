"""The local credential: on a Unix socket, root and the daemon's own user are given a token and the address to use it at.

Who connects is asked of the kernel (SO_PEERCRED, unix(7)), so the socket may be open to all: what others hear is why they get nothing. A
connection is answered with one line of JSON and closed; nothing is read from it.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from struct import Struct
from typing import Any, Final

from attrs import define
from twisted.internet.interfaces import IAddress, IDelayedCall, IListeningPort
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from computerd.api.trail import NOWHERE, Trail
from computerd.contract.access import Scope
from computerd.contract.errors import ApiError, Code
from computerd.contract.shapes import timestamp
from computerd.net.attempts import Attempts
from computerd.net.credentials import Credentials
from computerd.net.refusal import ListenError
from computerd.net.signer import Signer
from computerd.wire import strictjson

KID: Final = "local"
TTL_SECONDS: Final = 12 * 3600.0
DEADLINE_SECONDS: Final = 5.0
_UCRED: Final = Struct("=iII")


@define(eq=False)
class LocalSocket:
    """Hands out local credentials.

    Attributes:
        path: Of the socket; its folder is made, mode 0755, if it is missing.
        signer: Its key lives in this process only.
        credentials: Learns of each token, so that it passes wherever others are slowed down.
        names: Unix user names by uid, of those who may have one.
        clock: Seconds since the epoch.
        random: n bytes of a cryptographic source.
        trail: Is told which credentials were handed out.
        url: Where the daemon listens; known once it does.
        attempts: Is told who was given none. Set by `NetService`.
    """

    path: Path
    signer: Signer
    credentials: Credentials
    names: Mapping[int, str]
    clock: Callable[[], float]
    random: Callable[[int], bytes]
    trail: Trail = NOWHERE
    url: str = ""
    attempts: Attempts | None = None

    def listen(self, reactor: Any, url: str) -> IListeningPort:
        """Makes the socket. One that a dead daemon has left is replaced.

        Raises:
            ListenError: Somebody listens there, or the folder can't be used.
        """
        _prepare(self.path)
        try:
            port: IListeningPort = reactor.listenUNIX(str(self.path), _Factory(self, reactor), mode=0o666)
        except Exception as error:
            raise ListenError(f"{self.path}: can't be listened on: {error}") from error
        self.url = url
        self.credentials.own[KID] = self.signer.key.public_key()
        return port

    def answer(self, uid: int) -> bytes:
        """The line for whoever runs as `uid`."""
        name = self.names.get(uid)
        if name is None:
            if self.attempts is not None:
                self.attempts.failed(f"uid {uid}", Code.FORBIDDEN.value)
            refusal = ApiError(
                Code.FORBIDDEN,
                "Only root and the daemon's user are given a credential here: ask the host's administrator for a token.",
            )
            return strictjson.dumps({"error": refusal.body()}) + b"\n"
        minted = self.signer.mint(
            name, name=name, email=None, admin=True, scopes=Scope, ttl=TTL_SECONDS, now=self.clock(), random=self.random
        )
        caller = self.credentials.trust(minted, KID).caller
        self.trail.note("token.created", caller=caller, subject=f"local socket, uid {uid}")
        assert minted.expires_at is not None
        line = {"url": self.url, "token": minted.token, "expiresAt": timestamp(minted.expires_at)}
        return strictjson.dumps(line) + b"\n"


def _prepare(path: Path) -> None:
    folder = path.parent
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        info = folder.stat()
        if info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o022:
            raise ListenError(
                f"{folder}: others may put a socket of theirs there: chown it to the daemon's user, chmod 755"
            )
        if path.is_symlink() or path.exists():
            _remove_stale(path)
    except OSError as error:
        raise ListenError(f"{path}: {error.strerror}: choose another path for the local socket") from error


def _remove_stale(path: Path) -> None:
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise ListenError(f"{path}: is there and is no socket: move it away")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        except FileNotFoundError:
            pass
        except BlockingIOError:
            raise ListenError(f"{path}: another daemon listens there: stop it, or choose another path") from None
        else:
            raise ListenError(f"{path}: another daemon listens there: stop it, or choose another path")


class _Answerer(Protocol):
    """One client."""

    factory: _Factory
    transport: Any
    _deadline: IDelayedCall | None = None

    def connectionMade(self) -> None:
        self._deadline = self.factory.reactor.callLater(DEADLINE_SECONDS, self.transport.abortConnection)
        raw = self.transport.getHandle().getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        self.transport.write(self.factory.local.answer(_UCRED.unpack(raw)[1]))
        self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()


class _Factory(Factory[_Answerer]):
    noisy = False

    def __init__(self, local: LocalSocket, reactor: Any) -> None:
        self.local = local
        self.reactor = reactor

    def buildProtocol(self, addr: IAddress | None) -> _Answerer:
        protocol = _Answerer()
        protocol.factory = self
        return protocol
