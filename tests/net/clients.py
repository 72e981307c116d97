"""Clients for tests: WebSocket frames by hand, a transport in memory driven by a clock, a raw TCP client on the real reactor."""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet import reactor as global_reactor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from computerd.net.factory import ConnectionFactory
from computerd.net.heads import Rules
from computerd.net.roster import Roster
from computerd.net.site import Site
from computerd.net.throttle import Throttle
from tests.net.fakes import FakeFront, Issuer

WAIT = 20.0
reactor: Any = global_reactor


def frame(payload: bytes, opcode: int = 2, *, fin: bool = True, mask: bytes | None = None, rsv: int = 0) -> bytes:
    """A client's frame, masked."""
    key = os.urandom(4) if mask is None else mask
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    size = len(payload)
    if size < 126:
        head = bytes([first, 0x80 | size])
    elif size < 65536:
        head = bytes([first, 0xFE]) + struct.pack(">H", size)
    else:
        head = bytes([first, 0xFF]) + struct.pack(">Q", size)
    whole = (key * (size // 4 + 1))[:size]
    return head + key + (int.from_bytes(payload, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")


def text(message: object) -> bytes:
    """A client's frame with JSON."""
    return frame(json.dumps(message).encode(), 1)


def call(method: str, request_id: Any = 1, **params: object) -> bytes:
    """A client's frame with a request."""
    return text({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def handshake(token: str | None, *lines: str, path: str = "/connect", protocol: str | None = "opc.v1") -> bytes:
    """The head of an upgrade."""
    head = [
        f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: keep-alive, Upgrade",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode(),
    ]  # fmt: skip
    if token is not None:
        head.append(f"Authorization: Bearer {token}")
    if protocol is not None:
        head.append(f"Sec-WebSocket-Protocol: {protocol}")
    return "\r\n".join([*head, *lines, "", ""]).encode("latin-1")


def request(verb: str, path: str, *lines: str, token: str | None = None, host: str = "127.0.0.1") -> bytes:
    """A request's head."""
    head = [f"{verb} {path} HTTP/1.1", f"Host: {host}"]
    if token is not None:
        head.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*head, *lines, "", ""]).encode("latin-1")


@define
class Reply:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    trailers: dict[str, str] = field(factory=dict)

    @property
    def error(self) -> dict[str, Any]:
        """The error body."""
        error: dict[str, Any] = json.loads(self.body)["error"]
        return error


def _fields(lines: list[str]) -> dict[str, str]:
    return {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}


def _body(headers: dict[str, str], rest: bytes) -> tuple[bytes | None, dict[str, str], bytes]:
    """The body of an answer to anything but HEAD, if it is whole, its trailers, and what follows."""
    if headers.get("transfer-encoding") != "chunked":
        size = int(headers.get("content-length", 0))
        return (rest[:size] if len(rest) >= size else None), {}, rest[size:]
    pieces: list[bytes] = []
    at = 0
    while (end := rest.find(b"\r\n", at)) >= 0:
        size = int(rest[at:end], 16)
        if not size:
            last = rest.find(b"\r\n\r\n", end)
            if last < 0:
                break
            lines = bytes(rest[end + 2 : last]).decode().split("\r\n") if last > end else []
            return b"".join(pieces), _fields(lines), rest[last + 4 :]
        start, at = end + 2, end + 2 + size + 2
        if len(rest) < at:
            break
        pieces.append(rest[start : start + size])
    return None, {}, rest


@define
class Inbox:
    """What a server has sent, taken apart."""

    data: bytes = b""

    def replies(self) -> list[Reply]:
        """Every whole HTTP answer, up to and including a 101."""
        found = []
        while b"\r\n\r\n" in self.data:
            head, rest = self.data.split(b"\r\n\r\n", 1)
            first, *lines = head.decode().split("\r\n")
            headers = _fields(lines)
            body, trailers, left = _body(headers, rest)
            if body is None:
                break
            found.append(Reply(int(first.split()[1]), headers, body, trailers))
            self.data = left
            if found[-1].status == 101:
                break
        return found

    def frames(self) -> list[tuple[int, bytes]]:
        """Every whole frame, as opcode and payload."""
        found = []
        while len(self.data) >= 2:
            opcode, size, start = self.data[0] & 15, self.data[1], 2
            if size == 126:
                size, start = int.from_bytes(self.data[2:4], "big"), 4
            elif size == 127:
                size, start = int.from_bytes(self.data[2:10], "big"), 10
            if len(self.data) < start + size:
                break
            found.append((opcode, self.data[start : start + size]))
            self.data = self.data[start + size :]
        return found


def close_code(frames: list[tuple[int, bytes]]) -> int | None:
    """The code of the close frame, which has to be the last."""
    if not frames or frames[-1][0] != 8:
        return None
    payload = frames[-1][1]
    # a frame without a code answers one without (RFC 6455, section 7.1.5)
    return int.from_bytes(payload[:2], "big") if payload else None


def messages(frames: list[tuple[int, bytes]]) -> list[dict[str, Any]]:
    """The JSON of every text."""
    return [json.loads(payload) for opcode, payload in frames if opcode == 1]


class MemoryTransport(StringTransport):
    """A transport that ends in a later turn, as real ones do."""

    protocol: Any = None
    paused = 0
    half_closed = False

    def __init__(self, clock: Clock, host: str = "127.0.0.1", peer: str = "127.0.0.1") -> None:
        super().__init__(IPv4Address("TCP", host, 7390), IPv4Address("TCP", peer, 50000))
        self.clock = clock
        self.over: Failure | None = None

    def _end(self, reason: Exception) -> None:
        if self.over is None:
            self.over = Failure(reason)
            self.clock.callLater(0, lambda: self.protocol.connectionLost(self.over))

    def loseConnection(self) -> None:
        """Closes."""
        super().loseConnection()
        self._end(ConnectionDone())

    def loseWriteConnection(self) -> None:
        """Closes one direction."""
        self.half_closed = True

    def abortConnection(self) -> None:
        """Aborts."""
        self._end(ConnectionAborted())

    def pauseProducing(self) -> None:
        """Counted."""
        self.paused += 1
        super().pauseProducing()

    def resumeProducing(self) -> None:
        """Also when it is not paused, like a TCP transport."""
        if self.producerState == "paused":
            super().resumeProducing()

    def take(self) -> bytes:
        """What was written since the last time."""
        data: bytes = self.value()
        self.clear()
        return data


@define(eq=False)
class Memory:
    """A site whose connections are in memory, and whose time stands still."""

    clock: Clock = field(factory=Clock)
    front: FakeFront = field(factory=FakeFront)
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    roster: Roster = field(factory=Roster)
    issuer: Issuer = field(init=False)
    site: Site = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.issuer = Issuer(self.clock.seconds)
        self.issuer.keys.open()
        credentials, wall = self.issuer.credentials, self.issuer.wall
        sockets = ConnectionFactory(self.clock, self.front, credentials, self.roster, wall, os.urandom)
        rules = Rules(frozenset(self.origins), frozenset(self.hosts))
        throttle = Throttle(self.clock.seconds)
        self.site = Site(self.clock, self.front, credentials, throttle, rules, sockets, wall, os.urandom)

    def connect(self, host: str = "127.0.0.1", peer: str = "127.0.0.1") -> Peer:
        """A client that has just connected."""
        transport = MemoryTransport(self.clock, host, peer)
        transport.protocol = self.site.buildProtocol(transport.getPeer())
        transport.protocol.makeConnection(transport)
        return Peer(self, transport)

    def open(self, token: str | None = None, **options: Any) -> Peer:
        """A WebSocket that has had `ready`, unless it was closed."""
        peer = self.connect()
        peer.send(handshake(token or self.issuer.mint().token, **options))
        replies = peer.replies()
        assert [reply.status for reply in replies] == [101], replies
        return peer

    def advance(self, seconds: float, step: float = 1.0) -> None:
        """Moves both clocks, and lets what is due happen."""
        while seconds > 0:
            moved = min(step, seconds)
            self.issuer.wall.now += moved
            self.clock.advance(moved)
            seconds -= moved


@define(eq=False)
class Peer:
    """The client's end of a `MemoryTransport`."""

    memory: Memory
    transport: MemoryTransport
    inbox: Inbox = field(factory=Inbox)

    def send(self, data: bytes) -> None:
        """Arrives in one piece."""
        if self.transport.over is None:
            self.transport.protocol.dataReceived(data)

    def lose(self) -> None:
        """The client goes without a word."""
        self.transport._end(ConnectionDone())
        self.memory.clock.advance(0)

    def replies(self) -> list[Reply]:
        """HTTP answers since the last time."""
        self.inbox.data += self.transport.take()
        return self.inbox.replies()

    def frames(self) -> list[tuple[int, bytes]]:
        """Frames since the last time."""
        self.inbox.data += self.transport.take()
        return self.inbox.frames()

    def messages(self) -> list[dict[str, Any]]:
        """Texts since the last time."""
        return messages(self.frames())

    def close_code(self) -> int | None:
        """The code of the close frame, if one came."""
        return close_code(self.frames())


class TcpClient(Protocol):
    """A client on the real reactor that keeps what it gets, and does with it what a test says."""

    def __init__(self, reading: bool = True) -> None:
        self.inbox = Inbox()
        self.lost: Failure | None = None
        self._reading = reading
        self._waiting: list[tuple[Callable[[], bool], Deferred[None]]] = []

    def connectionMade(self) -> None:
        """Connected."""
        if not self._reading:
            self.stop_reading()

    def stop_reading(self) -> None:
        """A client that does not read."""
        assert self.transport is not None
        self.transport.pauseProducing()  # type: ignore[attr-defined]

    def start_reading(self) -> None:
        """It reads on."""
        assert self.transport is not None
        self.transport.resumeProducing()  # type: ignore[attr-defined]

    def dataReceived(self, data: bytes) -> None:
        """Kept."""
        self.inbox.data += data
        self._look()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Over."""
        self.lost = reason
        self._look()

    def _look(self) -> None:
        for entry in list(self._waiting):
            condition, done = entry
            if condition():
                self._waiting.remove(entry)
                done.callback(None)

    def until(self, condition: Callable[[], bool]) -> Deferred[None]:
        """Fires when something has come that makes `condition` true."""
        done: Deferred[None] = Deferred()
        self._waiting.append((condition, done))
        self._look()
        return done.addTimeout(WAIT, reactor)

    def ended(self) -> Deferred[None]:
        """Fires when the server has closed."""
        return self.until(lambda: self.lost is not None)

    def send(self, data: bytes) -> None:
        """Sends."""
        assert self.transport is not None
        self.transport.write(data)

    def close(self) -> None:
        """Goes."""
        assert self.transport is not None
        # a TLS transport can't be aborted twice
        if self.lost is None:
            self.transport.abortConnection()  # type: ignore[attr-defined]
