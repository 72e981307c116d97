"""A client of the Computer API that shares no code with the daemon: the `websockets` library, and a few lines."""

from __future__ import annotations

import itertools
import json
import time
import urllib.error
import urllib.request
from collections import defaultdict
from typing import Any, Self

from attrs import define, field
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

WAIT = 20.0
"""Seconds that anything may take before a test gives up."""


class RefusedError(Exception):
    """A JSON-RPC error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(json.dumps(error))
        self.code: int = error["code"]
        self.data: dict[str, Any] = error.get("data") or {}
        self.slug: str | None = self.data.get("code")


@define(eq=False)
class Client:
    """One connection. Everything that arrives is sorted: answers by id, output by channel, events by session, other notifications in order."""

    socket: ClientConnection
    answers: dict[Any, dict[str, Any]] = field(factory=dict)
    output: dict[int, bytearray] = field(factory=lambda: defaultdict(bytearray))
    notifications: list[dict[str, Any]] = field(factory=list)
    exits: dict[str, dict[str, Any]] = field(factory=dict)
    events: dict[str, list[dict[str, Any]]] = field(factory=lambda: defaultdict(list))
    after_exit: int = 0
    frames: int = 0
    largest: int = 0
    _ids: itertools.count[int] = field(factory=lambda: itertools.count(1))
    _ended: set[int] = field(factory=set)
    _channels: dict[str, list[int]] = field(factory=dict)

    @classmethod
    def to(cls, url: str, token: str, **options: Any) -> Self:
        """Connects and reads `ready`."""
        headers = {"Authorization": f"Bearer {token}", **options.pop("headers", {})}
        options.setdefault("subprotocols", ["opc.v1"])
        # with output that nobody has read the library would wait ten seconds for the other side's goodbye
        options.setdefault("close_timeout", 1.0)
        options = {"compression": None, "max_size": None, "open_timeout": WAIT, "ping_interval": None, **options}
        socket = raw(url, additional_headers=headers, **options)
        client = cls(socket)
        client.until(lambda: any(n["method"] == "ready" for n in client.notifications))
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def take(self, timeout: float = WAIT) -> None:
        """Receives one message.

        Raises:
            TimeoutError: None came.
            ConnectionClosed: The server closed.
        """
        message = self.socket.recv(timeout)
        if isinstance(message, bytes):
            self._frame(message)
            return
        body = json.loads(message)
        if "method" not in body:
            self.answers[body["id"]] = body
            return
        if body["method"] == "event":
            self.events[body["params"]["sessionId"]].append(body["params"])
            return
        self.notifications.append(body)
        if body["method"] == "terminal.exited":
            self.exits[body["params"]["terminalId"]] = body["params"]
            self._ended.update(self._channels.get(body["params"]["terminalId"], []))

    def _frame(self, message: bytes) -> None:
        channel = int.from_bytes(message[:4], "big")
        self.frames += 1
        self.largest = max(self.largest, len(message))
        if channel in self._ended:
            self.after_exit += 1
        self.output[channel] += message[4:]

    def until(self, condition: Any, timeout: float = WAIT) -> None:
        """Receives until `condition()` holds."""
        limit = time.monotonic() + timeout
        while not condition():
            left = limit - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"not within {timeout} s; output so far: {_tails(self.output)}")
            try:
                self.take(left)
            except TimeoutError as error:
                raise TimeoutError(f"nothing more within {timeout} s; output: {_tails(self.output)}") from error

    def ask(self, method: str, **params: Any) -> Any:
        """Sends a request and returns its result.

        Raises:
            RefusedError: It was answered with an error.
        """
        return self.answer(self.send(method, **params))

    def notify(self, method: str, **params: Any) -> None:
        """Sends a notification."""
        self.socket.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    def notices(self, method: str) -> list[dict[str, Any]]:
        """The params of the notifications of that method, so far."""
        return [body["params"] for body in self.notifications if body["method"] == method]

    def attach(self, session: str, **params: Any) -> Any:
        """`sessions.attach`."""
        return self.ask("sessions.attach", sessionId=session, **params)

    def ack(self, session: str, seq: int) -> None:
        """`sessions.ack`."""
        self.notify("sessions.ack", sessionId=session, seq=seq)

    def reach(self, session: str, seq: int, timeout: float = WAIT) -> list[dict[str, Any]]:
        """Waits for the event with that number; returns and forgets all that came of the session."""
        self.until(lambda: self.events[session] and self.events[session][-1]["seq"] >= seq, timeout)
        return self.events.pop(session)

    def send(self, method: str, **params: Any) -> int:
        """Sends a request and returns its id."""
        number = next(self._ids)
        self.socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        return number

    def answer(self, number: Any) -> Any:
        """The result of request `number`."""
        self.until(lambda: number in self.answers)
        body = self.answers.pop(number)
        if "error" in body:
            raise RefusedError(body["error"])
        return body["result"]

    def open(self, session: str, command: str | None = None, *, tty: bool = True, **params: Any) -> Shell:
        """Opens a terminal."""
        if tty:
            params = {"cols": 80, "rows": 24, **params}
        else:
            params["tty"] = False
        if command is not None:
            params["command"] = command
        terminal = self.ask("terminals.open", sessionId=session, **params)["terminal"]
        self._channels[terminal["id"]] = [c for c in (terminal["channel"], terminal["stderrChannel"]) if c]
        return Shell(self, terminal["id"], terminal["channel"], terminal["stderrChannel"])

    def run(self, session: str, command: str, **params: Any) -> tuple[bytes, int | None, str | None]:
        """Runs a command to its end: output, exit code, signal."""
        shell = self.open(session, command, **params)
        code, signal = shell.wait()
        return bytes(shell.out), code, signal

    def closed(self, timeout: float = WAIT) -> tuple[int, str]:
        """The code and the reason that the server closes with."""
        try:
            while True:
                self.take(timeout)
        except ConnectionClosed as closed:
            return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")


def raw(url: str, **options: Any) -> ClientConnection:
    """A WebSocket that has read nothing yet. `options` as for `websockets.sync.client.connect`; compression is off."""
    made: ClientConnection = connect(url, **{"compression": None, "ping_interval": None, **options})
    return made


@define(eq=False)
class Shell:
    """A terminal of a `Client`."""

    client: Client
    id: str
    channel: int
    error_channel: int | None

    @property
    def out(self) -> bytearray:
        """Its output so far."""
        return self.client.output[self.channel]

    @property
    def err(self) -> bytearray:
        """Its standard error so far."""
        return self.client.output[self.error_channel or 0]

    def type(self, data: bytes) -> None:
        """Sends input in frames of at most 64 KiB."""
        head = self.channel.to_bytes(4, "big")
        for at in range(0, len(data), 65532):
            self.client.socket.send(head + data[at : at + 65532])

    def expect(self, text: bytes, timeout: float = WAIT) -> bytes:
        """Waits for `text` in the output, and returns and forgets all up to its end."""
        self.client.until(lambda: text in self.out, timeout)
        end = self.out.index(text) + len(text)
        seen = bytes(self.out[:end])
        del self.out[:end]
        return seen

    def wait(self, timeout: float = WAIT) -> tuple[int | None, str | None]:
        """Waits for the exit: code and signal."""
        self.client.until(lambda: self.id in self.client.exits, timeout)
        exited = self.client.exits[self.id]
        return exited["exitCode"], exited["signal"]

    def close(self) -> None:
        """`terminals.close`."""
        self.client.ask("terminals.close", terminalId=self.id)

    def eof(self) -> None:
        """`terminals.eof`."""
        self.client.ask("terminals.eof", terminalId=self.id)

    def resize(self, cols: int, rows: int) -> None:
        """`terminals.resize`."""
        self.client.ask("terminals.resize", terminalId=self.id, cols=cols, rows=rows)


@define
class Reply:
    """An HTTP answer."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's code."""
        code: str = self.json["error"]["code"]
        return code


def http(url: str, method: str = "GET", *, token: str | None = None, body: Any = None, **headers: str) -> Reply:
    """One HTTP request."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        sent.setdefault("Content-Type", "application/json")
    request = urllib.request.Request(url, data=data, method=method, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            return Reply(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.headers, error.read())


def _tails(output: dict[int, bytearray]) -> dict[int, bytes]:
    return {channel: bytes(data[-300:]) for channel, data in output.items()}


__all__ = ["Client", "ConnectionClosed", "RefusedError", "Reply", "Shell", "http", "raw"]
