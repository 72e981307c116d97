"""A worker without a process: the daemon's side on a socketpair, the other end played by a test, and time that stands still."""

from __future__ import annotations

import json
import select
from socket import socket, socketpair
from typing import Any

from attrs import Factory, define
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReadDescriptor, IWriteDescriptor
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError
from computerd.host.accounts import Account
from computerd.host.asking import Request
from computerd.host.descriptor import Descriptor
from computerd.host.files import HostFiles
from computerd.host.hired import Hired
from computerd.host.line import Line
from computerd.host.opening import Reaped
from computerd.host.program import Program
from computerd.host.reading import Source
from computerd.host.worker.frames import BOOT, HEAD, encode
from computerd.host.workers import Workers
from computerd.host.writing import PipeInput
from computerd.terminal.port import Start, Stream
from computerd.workspace.port import Place

PLACE = Place("cs_0123456789abcdef", "mb_owner")
ACCOUNT = Account("agent", 1000, 1000, (1000,), "/home/agent", "/bin/sh")
ROW: list[object] = ["a", "a", "file", 1, 0o644, 10**18, None, False]
PAGE: dict[str, object] = {"path": "", "entries": [ROW], "cursor": None}
FILE = {"name": "a", "size": 100 << 20, "mtime_ns": 1, "ctime_ns": 1, "inode": 2, "stream": True}
ARCHIVE = {"name": "", "folder": True, "stream": True}
PACKED = {"entries": 3, "bytes": 4, "skipped": 1, "unreadable": 0}
READY = {"ready": True, "stream": True}
LANDED = {"path": "a", "files": 1, "bytes": 2, "replaced": False}


@define(eq=False)
class Bench(Clock):
    """A reactor that does what is due when it is told to."""

    def __attrs_pre_init__(self) -> None:
        Clock.__init__(self)

    _readers: set[IReadDescriptor] = Factory(set)
    _writers: set[IWriteDescriptor] = Factory(set)

    def addReader(self, one: IReadDescriptor) -> None:
        self._readers.add(one)

    def removeReader(self, one: IReadDescriptor) -> None:
        self._readers.discard(one)

    def addWriter(self, one: IWriteDescriptor) -> None:
        self._writers.add(one)

    def removeWriter(self, one: IWriteDescriptor) -> None:
        self._writers.discard(one)

    def turn(self) -> bool:
        """One turn. False: nothing was due."""
        due = any(call.getTime() <= self.seconds() for call in self.getDelayedCalls())
        self.advance(0)
        readable, writable, _ = select.select(list(self._readers), list(self._writers), [], 0)
        for reader in readable:
            if reader in self._readers:
                reader.doRead()
        for writer in writable:
            if writer in self._writers:
                writer.doWrite()
        return bool(due or readable or writable)

    def settle(self) -> None:
        """Turns until nothing is due."""
        for _ in range(100_000):
            if not self.turn():
                return
        raise AssertionError("it never comes to rest")


@define(eq=False)
class End:
    """The worker's end of one socket."""

    bench: Bench
    line: socket
    errors: socket
    hired: Hired
    killed: int = 0
    closed: bool = False
    _seen: bytearray = Factory(bytearray)

    def say(self, number: int, kind: bytes, payload: object = b"") -> None:
        """Sends a frame, and lets the daemon handle it."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.put(encode(number, kind, data))

    def put(self, data: bytes) -> None:
        """Sends bytes, as far as the daemon takes them."""
        while data:
            try:
                data = data[self.line.send(data) :]
            except BlockingIOError:
                if not self.bench.turn():
                    break
            except (BrokenPipeError, ConnectionResetError):
                break
        self.bench.settle()

    def heard(self) -> list[tuple[int, bytes, Any]]:
        """The frames that have come since: request, kind, and the payload, as an object if it is one."""
        while True:
            self.bench.settle()
            try:
                data = self.line.recv(1 << 20)
            except BlockingIOError:
                break
            if not data:
                self.closed = True
                break
            self._seen += data
        found = []
        while len(self._seen) >= 9:
            length, number, kind = HEAD.unpack_from(self._seen)
            if len(self._seen) < 4 + length:
                break
            payload = bytes(self._seen[9 : 4 + length])
            del self._seen[: 4 + length]
            found.append((number, kind, json.loads(payload) if payload[:1] == b"{" else payload))
        return found

    def exit(self) -> None:
        """The process ends, and is reaped."""
        self.line.close()
        self.errors.close()
        self.bench.settle()
        self.hired.child.processExited(_Reason())  # type: ignore[arg-type]
        self.bench.settle()


class _Reason:
    def __init__(self) -> None:
        from twisted.internet.error import ProcessDone

        self.value = ProcessDone(None)


@define(eq=False)
class Employer:
    """Hires sockets.

    Attributes:
        ends: Of all that was hired, oldest first.
        error: What the next hire fails with.
        held: A list: then hires wait in it.
    """

    bench: Bench
    ends: list[End] = Factory(list)
    error: ApiError | None = None
    held: list[Deferred[None]] | None = None
    who: Account = ACCOUNT
    starts: list[Start] = Factory(list)
    gone: list[Hired] = Factory(list)

    def account(self, owner: str) -> Account:
        return self.who

    def hire(self, start: Start) -> Deferred[Hired]:
        self.starts.append(start)
        before: Deferred[None] = succeed(None)
        if self.held is not None:
            before = Deferred()
            self.held.append(before)
        return before.addCallback(lambda _: self._hire())

    def _hire(self) -> Hired:
        if self.error is not None:
            raise self.error
        ours, theirs = socketpair()
        errors, their_errors = socketpair()
        for one in (theirs, their_errors):
            one.setblocking(False)
        sources = [
            Source(stream, Descriptor(self.bench, one.detach()), 65536)  # type: ignore[arg-type]
            for stream, one in ((Stream.OUTPUT, ours), (Stream.ERROR, errors))
        ]
        line = Line(sources, PipeInput(sources[0].descriptor), False)
        hired = Hired(Reaped(), line, b"", lambda: self._kill(end), self.gone.append)
        end = End(self.bench, theirs, their_errors, hired)
        self.ends.append(end)
        return hired

    def _kill(self, end: End) -> None:
        end.killed += 1


@define(eq=False)
class _Recording(Workers):
    asked: list[Request[Any]]

    def ask(self, place: Place, request: Request[Any]) -> None:
        self.asked.append(request)
        Workers.ask(self, place, request)


class BenchCase(SynchronousTestCase):
    """Files by workers that a test plays."""

    def setUp(self) -> None:
        self.bench = Bench()
        self.employer = Employer(self.bench)
        program = Program("exec worker", encode(0, BOOT, b"the program"))
        self.asked: list[Request[Any]] = []
        self.workers = _Recording(self.bench, self.employer, lambda size: bytes(size), lambda: program, self.asked)
        self.files = HostFiles(self.bench, self.workers)
        self.addCleanup(self._clear)

    def _clear(self) -> None:
        for worker in list(self.workers._current.values()):
            worker.leave()
        for end in self.employer.ends:
            if end.hired.child.status is None:
                end.exit()
        self.bench.settle()
        for request in self.asked:
            request.answer.addErrback(lambda _: None)
        self.assertEqual([], self.bench.getDelayedCalls(), "a timer is left")
        self.assertEqual((set(), set()), (self.bench._readers, self.bench._writers))
        self.assertEqual(len(self.employer.ends), len(self.employer.gone))

    @property
    def end(self) -> End:
        """The newest worker's end."""
        return self.employer.ends[-1]

    def list_it(self, path: str = "") -> Deferred[Any]:
        return self.files.list(PLACE, path, depth=1, limit=100, cursor=None)

    def called(self) -> list[tuple[int, str]]:
        """The calls that came since, by number and verb."""
        return [(number, body["verb"]) for number, kind, body in self.end.heard() if kind == b"C"]

    def refused(self, answer: Deferred[Any]) -> ApiError:
        """What it has failed with."""
        error = self.failureResultOf(answer, ApiError).value
        assert isinstance(error, ApiError)
        return error

    def opened(self) -> tuple[int, Any]:
        """A file that was opened, and its request's number."""
        asked = self.files.open(PLACE, "a")
        number = self.called()[-1][0]
        self.end.say(number, b"R", FILE)
        return number, self.successResultOf(asked)

    def packed(self) -> tuple[int, Any]:
        """An archive that has begun."""
        asked = self.files.pack(PLACE, "", "identity")
        number = self.called()[-1][0]
        self.end.say(number, b"R", ARCHIVE)
        return number, self.successResultOf(asked)

    def ready(self) -> tuple[int, Any]:
        """An upload that may begin."""
        asked = self.files.unpack(PLACE, "a", replace=False, coding="identity")
        number = self.called()[-1][0]
        self.end.say(number, b"R", READY)
        return number, self.successResultOf(asked)
