"""What following costs, measured: events a second to one client, the delay of one event to 200 clients, and an idle connection's memory.

Run by hand: `python -m tests.benchmarks.following`. The daemon is the whole one, in a process of its own, with a second socket through which
it is told to append events to its journal, as an agent would; the clients are in this process. Each event is committed before it is sent.
"""

from __future__ import annotations

import base64
import os
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec
from attrs import define, field

from tests.endtoend.computer import Account, Computer, program

_CONTROL: Final = "feed.sock"
_SECONDS: Final = 5
_RATES: Final = (5_000, 10_000, 12_500, 15_000, 20_000)
"""Events a second that are asked for."""
_TICK: Final = 0.002
_ACK_EVERY: Final = 500
_CLIENTS: Final = 200
_PER_MEMBER: Final = 50
_ROUNDS: Final = 100
_IDLE: Final = 1000


class _Params(msgspec.Struct):
    seq: int = 0


class _Message(msgspec.Struct):
    method: str = ""
    params: _Params | None = None


_decode: Final = msgspec.json.Decoder(_Message).decode


# the daemon's side


def _serve(folder: str, flags: list[str]) -> None:
    """The daemon, with a socket that takes `SESSION COUNT RATE` and answers with the seconds that it took until all was committed."""
    from twisted.application.service import IService
    from twisted.internet import reactor as the_reactor
    from twisted.internet.protocol import Factory
    from twisted.protocols.basic import LineReceiver

    from computerd.tap.making import makeService
    from computerd.tap.options import Options

    reactor: Any = the_reactor
    options = Options()
    options.parseOptions(flags)
    daemon = makeService(options)

    class Control(LineReceiver):
        delimiter = b"\n"

        def lineReceived(self, line: bytes) -> None:
            session, count, rate = line.decode().split()
            assert daemon.parts is not None
            _Feeding(daemon.parts.journal, session, int(count), int(rate), self.sendLine, reactor).tick()

    factory = Factory.forProtocol(Control)
    reactor.listenUNIX(os.path.join(folder, _CONTROL), factory)
    service = IService(daemon)
    reactor.callWhenRunning(service.startService)
    reactor.addSystemEventTrigger("before", "shutdown", service.stopService)
    reactor.run()


class _Feeding:
    """Appends single events at a rate."""

    def __init__(self, journal: Any, session: str, count: int, rate: int, done: Any, reactor: Any) -> None:
        from computerd.contract.events import TerminalOpened
        from computerd.session.drafts import draft

        self._draft = draft(TerminalOpened(terminal_id="tm_0123456789ab", command="make -j2 all"))
        self._journal = journal
        self._session = session
        self._left = self._missing = count
        self._count = count
        self._rate = rate
        self._done = done
        self._reactor = reactor
        self._refusals = 0
        self._began = time.monotonic()

    def tick(self) -> None:
        due = max(1, int((time.monotonic() - self._began) * self._rate)) - (self._count - self._left)
        for _ in range(min(due, self._left)):
            self._left -= 1
            self._journal.append(self._session, [self._draft]).addCallbacks(self._committed, self._refused)
        if self._left:
            self._reactor.callLater(_TICK, self.tick)

    def _refused(self, _: object) -> None:
        self._refusals += 1
        self._committed(None)

    def _committed(self, _: object) -> None:
        self._missing -= 1
        if not self._missing:
            self._done(f"{time.monotonic() - self._began} {self._refusals}".encode())


@define(eq=False)
class _Fed(Computer):
    """A daemon that can be told to write events."""

    def command(self) -> list[str]:
        flags = super().command()
        at = flags.index("computerd")
        assert flags[0] == program("twistd")
        return [sys.executable, "-m", "tests.benchmarks.following", "--serve", str(self.folder), *flags[at + 1 :]]

    def feed(self, session: str, count: int, rate: int) -> socket.socket:
        """Begins; the answer comes on the socket when all is committed."""
        control = socket.socket(socket.AF_UNIX)
        control.connect(os.path.join(self.folder, _CONTROL))
        control.sendall(f"{session} {count} {rate}\n".encode())
        return control


# the clients' side


@define(eq=False)
class _Wire:
    """A connection that knows just as much of RFC 6455 as this needs."""

    socket: socket.socket
    _data: bytes = field(default=b"")
    unacked: int = field(default=0)

    @classmethod
    def to(cls, port: int, token: str) -> _Wire:
        raw = socket.create_connection(("127.0.0.1", port))
        key = base64.b64encode(os.urandom(16)).decode()
        raw.sendall(
            f"GET /connect HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: opc.v1\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += raw.recv(4096)
        assert b" 101 " in head.split(b"\r\n", 1)[0], head
        wire = cls(raw, head.split(b"\r\n\r\n", 1)[1])
        assert b'"ready"' in wire.message()
        return wire

    def send(self, message: bytes) -> None:
        size = len(message)
        head = b"\x81" + (bytes([128 + size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big"))
        # a mask of zeros is as good as another to a server that unmasks
        self.socket.sendall(head + b"\0\0\0\0" + message)

    def call(self, method: str, params: str) -> bytes:
        self.send(f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}'.encode())
        return self.message()

    def message(self) -> bytes:
        while True:
            found = self.messages()
            if found:
                assert len(found) == 1, found
                return found[0]
            self._data += self.socket.recv(65536)

    def messages(self) -> list[bytes]:
        """The whole ones of what has come."""
        data, at, found = self._data, 0, []
        end = len(data)
        while end - at >= 2:
            size, start = data[at + 1], at + 2
            if size == 126:
                size, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            elif size == 127:
                size, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
            if start + size > end:
                break
            if data[at] == 0x81:
                found.append(data[start : start + size])
            at = start + size
        self._data = data[at:]
        return found

    def receive(self) -> list[bytes]:
        self._data += self.socket.recv(1 << 18)
        return self.messages()


def _follow(wire: _Wire, session: str) -> int:
    answer = msgspec.json.decode(wire.call("sessions.attach", f'{{"sessionId":"{session}"}}'))
    last: int = answer["result"]["session"]["lastSeq"]
    return last


def _throughput(computer: _Fed, rate: int) -> None:
    session = computer.session()
    wire = _Wire.to(computer.port, computer.token())
    first = last = acked = _follow(wire, session)
    count = rate * _SECONDS
    before, own, began = computer.cpu(), time.process_time(), time.monotonic()
    control = computer.feed(session, count, rate)
    detached = ""
    while last < first + count and not detached:
        if not select.select([wire.socket], [], [], 2)[0]:
            break
        for text in wire.receive():
            message = _decode(text)
            if message.method != "event" or message.params is None:
                detached = f", detached after {last - first}: {text.decode()}"
                break
            assert message.params.seq == last + 1, text
            last = message.params.seq
        if last - acked >= _ACK_EVERY:
            ack = b'{"jsonrpc":"2.0","method":"sessions.ack","params":{"sessionId":"%b","seq":%d}}'
            wire.send(ack % (session.encode(), last))
            acked = last
    seconds = time.monotonic() - began
    committed, refused = map(float, control.recv(100).split())
    print(
        f"{rate} events a second for {_SECONDS} s: {(last - first) / seconds:,.0f} a second delivered, {count / committed:,.0f} committed, "
        f"{refused:.0f} refused; {(computer.cpu() - before) / count * 1e6:.0f} µs of CPU an event, "
        f"client {(time.process_time() - own) / count * 1e6:.0f} µs{detached}"
    )
    wire.socket.close()


def _fan_out(computer: _Fed) -> None:
    session = computer.session()
    wires = [_Wire.to(computer.port, computer.token(f"member{number // _PER_MEMBER}")) for number in range(_CLIENTS)]
    poll = select.epoll()
    by_fd = {}
    for wire in wires:
        _follow(wire, session)
        poll.register(wire.socket, select.EPOLLIN)
        by_fd[wire.socket.fileno()] = wire
    delays: list[float] = []
    for _ in range(_ROUNDS):
        began = time.monotonic()
        control = computer.feed(session, 1, 1)
        waiting = _CLIENTS
        while waiting:
            for fd, _event in poll.poll():
                seen = len(by_fd[fd].receive())
                waiting -= seen
                delays += [time.monotonic() - began] * seen
        control.recv(100)
        control.close()
        time.sleep(0.02)
    delays.sort()
    print(
        f"one event to {_CLIENTS} clients of one session, from the append to each client: p50 {delays[len(delays) // 2] * 1e3:.1f} ms, "
        f"p99 {delays[len(delays) * 99 // 100] * 1e3:.1f} ms, at most {delays[-1] * 1e3:.1f} ms"
    )
    for wire in wires:
        wire.socket.close()


def _idle(computer: _Fed, attached: bool) -> None:
    tokens = [computer.token(f"idle{number}") for number in range(_IDLE // _PER_MEMBER)]
    session = computer.session()
    _warm = [_Wire.to(computer.port, tokens[0]) for _ in range(10)]
    time.sleep(0.5)
    before = _pss(computer.pid)
    wires = []
    for number in range(_IDLE - 10):
        wire = _Wire.to(computer.port, tokens[(number + 10) // _PER_MEMBER])
        if attached:
            _follow(wire, session)
        wires.append(wire)
    time.sleep(1)
    what = "idle connection with an attached session" if attached else "idle connection"
    print(f"an {what}: {(_pss(computer.pid) - before) / len(wires) / 1024:.1f} KiB of {len(wires)}")


def _pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Pss")


def _main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        _serve(sys.argv[2], sys.argv[3:])
        return
    agent = Account.make() if os.geteuid() == 0 else None
    try:
        _measure(sys.argv[1:] or ["throughput", "fan-out", "idle"], agent)
    finally:
        if agent is not None:
            agent.remove()


def _measure(wanted: list[str], agent: Account | None) -> None:
    if "throughput" in wanted:
        with _Fed(agent) as computer:
            for rate in _RATES:
                _throughput(computer, rate)
    if "fan-out" in wanted:
        with _Fed(agent) as computer:
            _fan_out(computer)
    if "idle" in wanted:
        for attached in (False, True):
            with _Fed(agent) as computer:
                _idle(computer, attached)


if __name__ == "__main__":
    _main()
