"""A daemon for the client's tests: enough of the Computer API to run /bin/sh, on another WebSocket implementation than the client's.

It enforces what a client must respect: the input limit (with the drop and the `rate_limited` that the API says), masks, subprotocol, token.
Run as a program it prints its port, serves until it is killed, and never isolates anything.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ctypes
import fcntl
import json
import os
import pty
import secrets
import signal
import ssl
import struct
import sys
import termios
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from typing import Any

from attrs import define, field
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

MIB = 1024 * 1024
TOKEN = ".".join(
    base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
    for part in ({"alg": "none"}, {"sub": "me"}, 0)
)
"""Whose claim `sub` is `me`."""


def session(number: int, owner: str = "me", *, archived: bool = False) -> dict[str, Any]:
    """A session as lists show it."""
    return {
        "id": f"cs_{number:016d}",
        "title": f"session {number}",
        "status": "idle",
        "archived": archived,
        "owner": {"id": owner, "name": owner.title(), "email": None},
        "createdAt": f"2026-11-13T09:30:{number:02d}.000Z",
        "lastActiveAt": "2026-11-13T10:00:00.000Z",
    }


@define(eq=False)
class Terminal:
    """A program on a pty or on pipes."""

    id: str
    channel: int
    error_channel: int | None
    process: asyncio.subprocess.Process
    stdin: int
    outputs: list[int]
    tty: bool
    level: float = float(MIB)
    filled: float = field(factory=time.monotonic)
    waiting: bytearray = field(factory=bytearray)
    eof: bool = False

    def spend(self, count: int) -> bool:
        """Whether `count` bytes of input are within the limit."""
        now = time.monotonic()
        self.level = min(float(MIB), self.level + (now - self.filled) * MIB)
        self.filled = now
        if self.level < count:
            return False
        self.level -= count
        return True


@define(eq=False)
class Connection:
    """One client."""

    server: Server
    reader: StreamReader
    writer: StreamWriter
    protocol: ServerProtocol = field(
        factory=lambda: ServerProtocol(subprotocols=[Subprotocol("opc.v1")], max_size=2 * MIB)
    )
    terminals: dict[str, Terminal] = field(factory=dict)
    dropped: bool = False
    tasks: set[asyncio.Task[None]] = field(factory=set)

    async def serve(self) -> None:
        """Until it ends."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"GET /connect "):
            await self.server.answer(head, self.reader, self.writer)
            return
        if f"Authorization: Bearer {TOKEN}".encode() not in head:
            self.server.refuse(self.writer, 401, "unauthenticated", "The token is not valid.")
            return
        self.protocol.receive_data(head)
        (request,) = self.protocol.events_received()
        assert isinstance(request, Request)
        self.protocol.send_response(self.protocol.accept(request))
        self.flush()
        self.notify("ready", {"connectionId": "cn_000000000000", "server": {"version": "9.9", "region": None}})
        try:
            while not self.writer.is_closing() and (data := await self.reader.read(65536)):
                self.protocol.receive_data(data)
                for event in self.protocol.events_received():
                    if isinstance(event, Frame):
                        await self.frame(event)
                self.flush()
        finally:
            for terminal in self.terminals.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(terminal.process.pid, signal.SIGHUP)

    def flush(self) -> None:
        for data in self.protocol.data_to_send():
            if data:
                self.writer.write(data)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: dict[str, Any]) -> None:
        if self.protocol.state is not State.OPEN:
            return
        self.protocol.send_text(json.dumps(message).encode())
        self.flush()

    async def frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.BINARY:
            self.input(bytes(frame.data))
        elif frame.opcode is Opcode.TEXT:
            await self.request(json.loads(bytes(frame.data)))
        elif frame.opcode is Opcode.PONG:
            self.server.pongs += 1

    def input(self, data: bytes) -> None:
        channel = int.from_bytes(data[:4], "big")
        for terminal in self.terminals.values():
            if terminal.channel == channel:
                if not terminal.spend(len(data) - 4) or len(terminal.waiting) > 2 * MIB:
                    self.dropped = True
                    return
                terminal.waiting += data[4:]
                self.feed(terminal)

    def feed(self, terminal: Terminal) -> None:
        """Gives the program what it takes."""
        loop = asyncio.get_running_loop()
        try:
            while terminal.waiting:
                del terminal.waiting[: os.write(terminal.stdin, terminal.waiting[:65536])]
        except BlockingIOError:
            loop.add_writer(terminal.stdin, self.feed, terminal)
            return
        except OSError:
            terminal.waiting.clear()
        loop.remove_writer(terminal.stdin)
        if terminal.eof and not terminal.tty:
            terminal.eof = False
            os.close(terminal.stdin)

    async def request(self, request: dict[str, Any]) -> None:
        method, params = request["method"], request.get("params", {})
        self.server.requests.append(method)
        if self.dropped:
            self.dropped = False
            body = {"code": "rate_limited", "message": "Input was dropped.", "status": 429, "retryAfterMs": 100}
            self.send(
                {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "limit", "data": body}}
            )
            return
        work: Callable[[dict[str, Any]], Any] = getattr(self, "do_" + method.replace(".", "_"))
        result = await work(params)
        if "error" in result:
            self.send({"jsonrpc": "2.0", "id": request["id"], **result})
            return
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})
        if method == "terminals.open":
            terminal = self.terminals[result["terminal"]["id"]]
            task = asyncio.ensure_future(self.relay(terminal))
            self.tasks.add(task)

    async def do_ping(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"timing": {"serverUs": 1}}

    async def do_terminals_resize(self, params: dict[str, Any]) -> dict[str, Any]:
        terminal = self.terminals[params["terminalId"]]
        fcntl.ioctl(terminal.stdin, termios.TIOCSWINSZ, struct.pack("HHHH", params["rows"], params["cols"], 0, 0))
        return {}

    async def do_terminals_eof(self, params: dict[str, Any]) -> dict[str, Any]:
        terminal = self.terminals[params["terminalId"]]
        if terminal.tty:
            terminal.waiting += b"\x04"
        terminal.eof = True
        self.feed(terminal)
        return {}

    async def do_terminals_close(self, params: dict[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.terminals[params["terminalId"]].process.pid, signal.SIGHUP)
        return {}

    async def do_terminals_open(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["sessionId"] == "cs_full000000000000":
            body = {"code": "too_many_terminals", "message": "The session holds 8 terminals. Close one.", "status": 409}
            return {"error": {"code": -32000, "message": "refused", "data": body}}
        shell = "/bin/sh"
        argv = [shell, "-c", params["command"]] if "command" in params else [shell]
        env = {"PATH": os.environ["PATH"], "TERM": params.get("term", "dumb"), "PS1": "$ ", "HOME": "/tmp"}
        number = len(self.terminals) * 2 + 1
        if params["tty"]:
            terminal = await self.on_tty(argv, env, number, params)
        else:
            assert not {"cols", "rows", "term"} & params.keys()
            terminal = await self.on_pipes(argv, env, number)
        os.set_blocking(terminal.stdin, False)
        self.terminals[terminal.id] = terminal
        ids = {"id": terminal.id, "channel": terminal.channel, "stderrChannel": terminal.error_channel}
        return {"terminal": ids}

    async def on_tty(self, argv: list[str], env: dict[str, str], number: int, params: dict[str, Any]) -> Terminal:
        master, slave = pty.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", params["rows"], params["cols"], 0, 0))

        def controlling() -> None:
            _die_with_server()
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        process = await asyncio.create_subprocess_exec(
            *argv, env=env, stdin=slave, stdout=slave, stderr=slave, preexec_fn=controlling
        )
        os.close(slave)
        return Terminal(f"tm_{secrets.token_hex(6)}", number, None, process, master, [master], True)

    async def on_pipes(self, argv: list[str], env: dict[str, str], number: int) -> Terminal:
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe(), os.pipe()
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=env,
            stdin=in_read,
            stdout=out_write,
            stderr=err_write,
            start_new_session=True,
            preexec_fn=_die_with_server,
        )
        for fd in (in_read, out_write, err_write):
            os.close(fd)
        return Terminal(
            f"tm_{secrets.token_hex(6)}", number, number + 1, process, in_write, [out_read, err_read], False
        )

    async def relay(self, terminal: Terminal) -> None:
        """Output, then the exit."""
        channels = [terminal.channel, terminal.error_channel]
        await asyncio.gather(
            *(self.output(fd, channel) for fd, channel in zip(terminal.outputs, channels, strict=False) if channel)
        )
        status = await terminal.process.wait()
        name = signal.Signals(-status).name if status < 0 else None
        self.notify(
            "terminal.exited",
            {"terminalId": terminal.id, "exitCode": None if name else status, "signal": name},
        )

    async def output(self, fd: int, channel: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.run_in_executor(None, _read, fd)
            except OSError:
                return
            if not data:
                return
            if self.protocol.state is not State.OPEN:
                return
            self.protocol.send_binary(struct.pack(">I", channel) + data)
            self.flush()
            self.server.sent += len(data)
            await self.writer.drain()

    def close(self, code: int, reason: str) -> None:
        self.protocol.send_close(code, reason)
        self.flush()

    async def restart(self) -> None:
        """What a daemon does that is told to end: hangs up, tells how it ended, and says goodbye."""
        for terminal in self.terminals.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(terminal.process.pid, signal.SIGHUP)
        await asyncio.gather(*self.tasks)
        self.close(1012, "the server is restarting")


def _die_with_server() -> None:
    """A test may kill the server; then its programs have to go too. PR_SET_PDEATHSIG of prctl(2) is 1."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, 32768)
        except BlockingIOError:
            import select

            select.select([fd], [], [], 1)


@define(eq=False)
class Server:
    """The daemon."""

    sessions: list[dict[str, Any]] = field(factory=list)
    requests: list[str] = field(factory=list)
    connections: list[Connection] = field(factory=list)
    restarting: set[asyncio.Task[None]] = field(factory=set)
    sent: int = 0
    pongs: int = 0

    async def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        self.connections.append(connection)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await connection.serve()
        self.connections.remove(connection)
        with contextlib.suppress(ConnectionError):
            writer.close()

    def refuse(self, writer: StreamWriter, status: int, code: str, message: str) -> None:
        body = {"error": {"code": code, "message": message, "status": status, "retryable": False, "requestId": "rq_1"}}
        self.reply(writer, status, body)

    def reply(self, writer: StreamWriter, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)

    async def answer(self, head: bytes, reader: StreamReader, writer: StreamWriter) -> None:
        """HTTP."""
        verb, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        headers = {
            k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head.decode().split("\r\n")[1:])
        }
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        path, _, query = target.partition("?")
        self.requests.append(f"{verb} {path}")
        if headers.get("authorization") != f"Bearer {TOKEN}":
            self.refuse(writer, 401, "unauthenticated", "The token is not valid.")
        elif (verb, path) == ("POST", "/sessions"):
            made = session(len(self.sessions) + 1) | {"title": body["title"]}
            self.sessions.insert(0, made)
            self.reply(writer, 201, {"session": made, "turn": None, "seq": 1})
        elif (verb, path) == ("GET", "/sessions"):
            self.list(writer, dict(pair.split("=") for pair in query.split("&")))
        else:
            self.reply(writer, 200, self.told(path, body))
        await writer.drain()

    def told(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What a test wants to know, or to have done."""
        for connection in tuple(self.connections):
            if connection.terminals and path == "/_/close":
                connection.close(body["code"], body["reason"])
            elif connection.terminals and path == "/_/restart":
                self.restarting.add(asyncio.ensure_future(connection.restart()))
            elif connection.terminals and path == "/_/abort":
                connection.writer.transport.abort()
        return {"requests": self.requests, "sent": self.sent, "pongs": self.pongs}

    def list(self, writer: StreamWriter, query: dict[str, str]) -> None:
        found = [s for s in self.sessions if s["archived"] == (query.get("archived") == "true")]
        start, limit = int(query.get("cursor", 0)), int(query["limit"])
        more = str(start + limit) if len(found) > start + limit else None
        self.reply(writer, 200, {"sessions": found[start : start + limit], "nextCursor": more})

    async def local(self, url: str, reader: StreamReader, writer: StreamWriter) -> None:
        """The local socket."""
        writer.write(json.dumps({"url": url, "token": TOKEN, "expiresAt": None}).encode() + b"\n")
        writer.close()


async def main(folder: str, sessions: list[dict[str, Any]], *, certified: bool) -> None:
    """Listens on TCP and on `folder`/api.sock, and as the local socket on `folder`/local.sock."""
    server = Server(sessions)
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0, limit=2 * MIB)
    port = listening.sockets[0].getsockname()[1]
    url = f"ws://127.0.0.1:{port}"
    await asyncio.start_unix_server(server.accept, f"{folder}/api.sock")
    await asyncio.start_unix_server(lambda r, w: server.local(url, r, w), f"{folder}/local.sock")
    secure = None
    if certified:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/cert.pem")
        tls = await asyncio.start_server(server.accept, "127.0.0.1", 0, limit=2 * MIB, ssl=context)
        secure = f"wss://localhost:{tls.sockets[0].getsockname()[1]}"
    print(json.dumps({"url": url, "secure": secure}), flush=True)
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    certificate = os.path.exists(f"{sys.argv[1]}/cert.pem")
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else [], certified=certificate))
