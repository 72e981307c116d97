"""A daemon for the client's tests: enough of the Computer API to run /bin/sh, on another WebSocket implementation than the client's.

It enforces what a client must respect: the input limit (with the drop and the `rate_limited` that the API says), masks, subprotocol, token,
the backlog of an attached session. What a client may never do is kept as a violation.
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
import re
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
from urllib.parse import parse_qsl

from attrs import define, field
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from computerd.contract import params as contract
from computerd.contract.decoding import decode
from computerd.contract.errors import ApiError
from tests.opc.fake_files import Files
from tests.opc.fake_journal import Journal, session

MIB = 1024 * 1024
TOKEN = ".".join(
    base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
    for part in ({"alg": "none"}, {"sub": "me"}, 0)
)
"""Whose claim `sub` is `me`."""
FILES = re.compile("/sessions/(cs_[0-9]+)/workspace/(files|file|archive)")


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
    sent: dict[str, int] = field(factory=dict)
    """The last event that each attached session was given."""
    acked: dict[str, int] = field(factory=dict)
    tasks: set[asyncio.Task[None]] = field(factory=set)

    async def serve(self) -> None:
        """Until it ends."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"GET /connect "):
            await self.server.answer(head, self.reader, self.writer)
            return
        if f"Authorization: Bearer {self.server.token}".encode() not in head:
            self.server.refuse(self.writer, 401, "unauthenticated", "The token is not valid.")
            return
        if (fault := self.server.fault("handshake")) is not None:
            self.server.refuse(self.writer, fault["status"], fault["code"], "Not now.", fault.get("retryAfterMs"))
            return
        self.protocol.receive_data(head)
        (request,) = self.protocol.events_received()
        assert isinstance(request, Request)
        self.protocol.send_response(self.protocol.accept(request))
        self.flush()
        ready = {"connectionId": "cn_000000000000", "server": {"version": "9.9", "region": None}}
        self.notify("ready", ready | {"expiresAt": None, "expiresInMs": self.server.expires_in_ms})
        self.server.connected += 1
        if (fault := self.server.fault("greeted")) is not None:
            self.close(fault["code"], fault["reason"])
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
        if "id" not in request:
            self.notified(method, params)
            return
        self.server.requests.append(method)
        if self.dropped:
            self.dropped = False
            body = {"code": "rate_limited", "message": "Input was dropped.", "status": 429, "retryAfterMs": 100}
            self.send(
                {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "limit", "data": body}}
            )
            return
        work: Callable[[dict[str, Any]], Any] = getattr(self, "do_" + method.replace(".", "_"))
        try:
            if (fault := self.server.fault(method)) is not None:
                result: Any = {"error": _rpc_error({"code": fault["code"], "message": "Not now.", **fault["more"]})}
            else:
                result = await work(params)
        except ApiError as error:
            result = {"error": _rpc_error(error.body("rq_1"))}
        if "error" in result:
            self.send({"jsonrpc": "2.0", "id": request["id"], **result})
            return
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})
        if method == "sessions.attach":
            self.deliver(params["sessionId"])
        elif method == "terminals.open":
            terminal = self.terminals[result["terminal"]["id"]]
            task = asyncio.ensure_future(self.relay(terminal))
            self.tasks.add(task)

    # --- sessions

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """The client says something. Acknowledgements of an attachment that has just ended are no fault of its."""
        if method != "sessions.ack":
            self.server.violations.append(f"notification {method}")
            return
        ack = decode(contract.Ack, params)
        self.server.acks.append(ack.seq)
        if ack.session_id in self.sent:
            if not self.acked[ack.session_id] <= ack.seq <= self.sent[ack.session_id]:
                self.server.violations.append(f"ack {ack.seq}")
            self.acked[ack.session_id] = ack.seq
            self.deliver(ack.session_id)

    def deliver(self, session_id: str) -> None:
        """Gives what is new, as far as the client keeps up."""
        if session_id not in self.sent or self.protocol.state is not State.OPEN:
            return
        for event in self.server.journal.after(session_id, self.sent[session_id]):
            if event["seq"] - self.acked[session_id] > self.server.backlog:
                self.detach(session_id, "too_far_behind")
                return
            self.sent[session_id] = event["seq"]
            self.notify("event", event)

    def detach(self, session_id: str, reason: str, **more: Any) -> None:
        if self.sent.pop(session_id, None) is not None:
            self.notify("session.detached", {"sessionId": session_id, "reason": reason, **more})

    async def do_sessions_get(self, params: dict[str, Any]) -> dict[str, Any]:
        return self.server.journal.get(params)

    async def do_sessions_attach(self, params: dict[str, Any]) -> dict[str, Any]:
        answer, after = self.server.journal.attach(params)
        if params["sessionId"] in self.sent:
            self.server.violations.append("attached twice")
        self.sent[params["sessionId"]] = self.acked[params["sessionId"]] = after
        self.server.attaches.append(after)
        return answer

    async def do_sessions_detach(self, params: dict[str, Any]) -> dict[str, Any]:
        self.sent.pop(decode(contract.OfSession, params).session_id, None)
        return {}

    # --- terminals

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


def _rpc_error(data: dict[str, Any]) -> dict[str, Any]:
    return {"code": -32000, "message": "refused", "data": data}


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
    journal: Journal = field(init=False)
    files: Files = field(init=False)
    requests: list[str] = field(factory=list)
    connections: list[Connection] = field(factory=list)
    restarting: set[asyncio.Task[None]] = field(factory=set)
    faults: dict[str, list[dict[str, Any]]] = field(factory=dict)
    """What is to go wrong next, by what it is that goes wrong."""
    violations: list[str] = field(factory=list)
    acks: list[int] = field(factory=list)
    attaches: list[int] = field(factory=list)
    backlog: int = 10_000
    token: str = TOKEN
    expires_in_ms: int | None = None
    connected: int = 0
    sent: int = 0
    pongs: int = 0
    listening: asyncio.Server | None = None
    port: int = 0

    def __attrs_post_init__(self) -> None:
        self.journal = Journal(self.sessions)
        self.files = Files(self)

    def fault(self, what: str) -> dict[str, Any] | None:
        """What is to go wrong with this one."""
        waiting = self.faults.get(what, [])
        return waiting.pop(0) if waiting else None

    async def listen(self) -> None:
        """On TCP, each time on the same port."""
        self.listening = await asyncio.start_server(self.accept, "127.0.0.1", self.port, limit=2 * MIB)
        self.port = self.listening.sockets[0].getsockname()[1]

    async def away(self, code: int | None, seconds: float, append: int = 0, forget: int = 0, token: str = "") -> None:
        """Ends every connection, is away for a while, and comes back with more events and maybe another token.

        Without a code, the connections are reset.
        """
        assert self.listening is not None
        # nobody may come back before all have been told
        self.listening.close()
        for connection in tuple(self.connections):
            if connection.protocol.state is State.OPEN and code is not None:
                connection.close(code, "the server is restarting")
            elif connection.protocol.state is State.OPEN:
                connection.writer.transport.abort()
        self.token = token or self.token
        await asyncio.sleep(seconds)
        for _ in range(append):
            self.journal.append(self.sessions[0]["id"], "terminal.opened", {"terminalId": "tm_1", "command": "away"})
        if forget:
            self.journal.forget(self.sessions[0]["id"], forget)
        await self.listen()

    async def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        self.connections.append(connection)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await connection.serve()
        self.connections.remove(connection)
        with contextlib.suppress(ConnectionError):
            writer.close()

    def refuse(
        self, writer: StreamWriter, status: int, code: str, message: str, retry_after_ms: int | None = None
    ) -> None:
        body = {"code": code, "message": message, "status": status, "retryable": False, "requestId": "rq_1"}
        if retry_after_ms is not None:
            body["retryAfterMs"] = retry_after_ms
        self.reply(writer, status, {"error": body})

    def reply(self, writer: StreamWriter, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)

    async def answer(self, head: bytes, reader: StreamReader, writer: StreamWriter) -> None:
        """HTTP."""
        verb, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        headers = {
            k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head.decode().split("\r\n")[1:])
        }
        path, _, query = target.partition("?")
        if (place := FILES.fullmatch(path)) is not None:
            self.requests.append(f"{verb} {path}")
            if headers.get("authorization") != f"Bearer {self.token}":
                self.refuse(writer, 401, "unauthenticated", "The token is not valid.")
            else:
                await self.files.serve(
                    verb, place[1], place[2], dict(parse_qsl(query, keep_blank_values=True)), headers, reader, writer
                )
            await writer.drain()
            return
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        self.requests.append(f"{verb} {path}")
        if path.startswith("/_/"):
            self.reply(writer, 200, self.told(path, body))
        elif headers.get("authorization") != f"Bearer {self.token}":
            self.refuse(writer, 401, "unauthenticated", "The token is not valid.")
        elif (verb, path) == ("POST", "/sessions"):
            made = session(len(self.sessions) + 1) | {"title": body["title"]}
            self.sessions.insert(0, made)
            self.reply(writer, 201, {"session": made, "turn": None, "seq": 1})
        elif (verb, path) == ("GET", "/sessions"):
            self.list(writer, dict(parse_qsl(query)))
        else:
            self.of_one(writer, verb, path, parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)), body)
        await writer.drain()

    def of_one(self, writer: StreamWriter, verb: str, path: str, query: list[tuple[str, str]], body: Any) -> None:
        """A request that concerns one session."""
        if (fault := self.fault(verb)) is not None and "code" in fault:
            self.refuse(writer, fault["status"], fault["code"], "Not now.", fault.get("retryAfterMs"))
            return
        try:
            answer = self.journal.http(verb, path, query, body)
        except ApiError as error:
            self.reply(writer, error.status, {"error": error.body("rq_1")})
            return
        if fault is not None:  # it is done, and nobody hears of it
            writer.transport.abort()
            if "away" in fault:
                self.had_away("", fault["away"])
        elif answer is None:
            self.refuse(writer, 404, "not_found", "There is no such route.")
        else:
            self.reply(writer, 200, answer)

    def told(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What a test wants to know, or to have done."""
        for connection in tuple(self.connections):
            if connection.terminals and path == "/_/close":
                connection.close(body["code"], body["reason"])
            elif connection.terminals and path == "/_/restart":
                self.restarting.add(asyncio.ensure_future(connection.restart()))
            elif connection.terminals and path == "/_/abort":
                connection.writer.transport.abort()
            elif path == "/_/emit" and connection.sent:
                connection.notify("event", body)
            elif path == "/_/detach" and connection.sent:
                connection.detach(self.sessions[0]["id"], body["reason"])
            elif path == "/_/end" and connection.sent:
                connection.close(body["code"], body["reason"])
        if (had := getattr(self, path.replace("/_/", "had_"), None)) is not None:
            had(self.sessions[0]["id"], body)
        return {
            "requests": self.requests,
            "sent": self.sent,
            "pongs": self.pongs,
            "acks": self.acks,
            "attaches": self.attaches,
            "connected": self.connected,
            "following": sum(bool(connection.sent) for connection in self.connections),
            "violations": self.violations,
            "changes": self.journal.changes,
            "keys": self.journal.keys,
            "sessions": self.sessions,
            "pushed": self.files.pushed,
            "fetched": self.files.fetched,
            "lists": self.files.lists,
        }

    # --- what a test wants to have happened to the first session

    def had_events(self, session_id: str, body: dict[str, Any]) -> None:
        for number in range(body["count"]):
            told = body.get("data", {"terminalId": "tm_1", "command": f"echo {number}"})
            self.journal.append(session_id, body.get("type", "terminal.opened"), told, **body.get("more", {}))
        for connection in self.connections:
            connection.deliver(session_id)

    def had_forget(self, session_id: str, body: dict[str, Any]) -> None:
        self.journal.forget(session_id, body["last"])

    def had_hole(self, session_id: str, body: dict[str, Any]) -> None:
        self.journal.holes.add(body["seq"])

    def had_renew(self, session_id: str, body: dict[str, Any]) -> None:
        self.journal.renew(session_id, body["keep"])
        found = self.journal.find(session_id)
        more = {"logEpoch": found["logEpoch"], "epochStartSeq": found["epochStartSeq"]}
        for connection in self.connections:
            if told := body.get("told"):
                connection.detach(session_id, "epoch_changed", **(more if told == "all" else {}))

    def had_away(self, session_id: str, body: dict[str, Any]) -> None:
        self.restarting.add(asyncio.ensure_future(self.away(**body)))

    def had_fault(self, session_id: str, body: dict[str, Any]) -> None:
        self.faults.setdefault(body["what"], []).extend(body["faults"])

    def had_set(self, session_id: str, body: dict[str, Any]) -> None:
        for name, value in body.items():
            setattr(self, name, value)

    def list(self, writer: StreamWriter, query: dict[str, str]) -> None:
        found = [s for s in self.sessions if s["archived"] == (query.get("archived") == "true")]
        start, limit = int(query.get("cursor", 0)), int(query["limit"])
        more = str(start + limit) if len(found) > start + limit else None
        self.reply(writer, 200, {"sessions": found[start : start + limit], "nextCursor": more})

    async def local(self, url: str, reader: StreamReader, writer: StreamWriter) -> None:
        """The local socket."""
        writer.write(json.dumps({"url": url, "token": self.token, "expiresAt": None}).encode() + b"\n")
        writer.close()


async def main(folder: str, sessions: list[dict[str, Any]], *, certified: bool) -> None:
    """Listens on TCP and on `folder`/api.sock, and as the local socket on `folder`/local.sock."""
    server = Server(sessions)
    await server.listen()
    url = f"ws://127.0.0.1:{server.port}"
    await asyncio.start_unix_server(server.accept, f"{folder}/api.sock")
    await asyncio.start_unix_server(lambda r, w: server.local(url, r, w), f"{folder}/local.sock")
    secure = None
    if certified:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/cert.pem")
        tls = await asyncio.start_server(server.accept, "127.0.0.1", 0, limit=2 * MIB, ssl=context)
        secure = f"wss://localhost:{tls.sockets[0].getsockname()[1]}"
    print(json.dumps({"url": url, "secure": secure}), flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    certificate = os.path.exists(f"{sys.argv[1]}/cert.pem")
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else [], certified=certificate))
