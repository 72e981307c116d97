"""Workers that tests play: a child that runs as the user and does what a test wrote, and what takes the files that it gives."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from computerd.host.files import HostFiles
from computerd.host.program import Program, interpreter
from computerd.host.worker.frames import BOOT, encode
from computerd.host.workers import Workers
from computerd.workspace.port import Place
from tests.host.real import SESSION_ID, RealCase
from tests.host.waiting import reactor

PLACE = Place(SESSION_ID, "mb_owner")
_PRELUDE = """
import json, os, sys, time, struct, signal
def take(n):
    data = b""
    while len(data) < n:
        piece = os.read(0, n - len(data))
        if not piece: os._exit(0)
        data += piece
    return data
def get():
    length, number, kind = struct.unpack(">IIc", take(9))
    return number, kind, take(length - 5)
def put(data):
    while data: data = data[os.write(1, data):]
def head(number, kind, size): return struct.pack(">IIc", 5 + size, number, kind)
def say(number, kind, payload=b""):
    if not isinstance(payload, bytes): payload = json.dumps(payload).encode()
    put(head(number, kind, len(payload)) + payload)
def rest():
    while True: get()
assert get() == (0, b"B", b"")
"""
ROW = ["a", "a", "file", 1, 0o644, 10**18, None, False]
PAGE = {"path": "", "entries": [ROW], "cursor": None}
FILE = {"name": "a", "size": 1 << 20, "mtime_ns": 1, "ctime_ns": 1, "inode": 2, "stream": True}
HONEST = f"page, file = {PAGE!r}, {FILE!r}\n"


class WorkerCase(RealCase):
    """Real processes of a Unix user, with a program that the test wrote."""

    def play(self, script: str) -> HostFiles:
        """Files by a worker that runs `script`."""
        python = interpreter(privileged=bool(self.as_root))
        command = f"exec {shlex.quote(python)} -I -S -E -c {shlex.quote(_PRELUDE + HONEST + script)}"
        return self.with_program(Program(command, encode(0, BOOT)))

    def with_program(self, program: Program) -> HostFiles:
        return HostFiles(reactor, Workers(reactor, self.spawner, self.spawner.random, lambda: program))

    def workers(self) -> int:
        """How many run."""
        return len(self.spawner._hired)


def soon(work: Coroutine[Deferred[Any], Any, Any]) -> Deferred[Any]:
    """Goes on by itself."""
    return ensureDeferred(work)


Maker = Callable[[HostFiles], Deferred[Any]]
