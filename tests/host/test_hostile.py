"""I9 and I10 with real processes: the caller is told in time, the daemon keeps its memory and its pace, and nothing is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from computerd.contract.errors import ApiError, Code
from computerd.host import asking, downloads, uploads
from computerd.host.files import HostFiles
from tests.host.people import processes_of
from tests.host.played_worker import PLACE, WorkerCase
from tests.host.taken import Taken
from tests.host.test_lies import named
from tests.host.waiting import until

_MAX_GROWTH = 8 << 20
_MAX_STALL = 0.1
ATTACKS = {
    "4 GiB": 'get(); put(b"\\xff" * 9); rest()',
    "4 GiB of it": 'get(); put(b"\\xff" * 4)\nwhile True: put(b"R" * 65536)',
    "another's request": 'get(); say(77, b"R", page); rest()',
    "a million tiny frames": 'get(); put(head(77, b"W", 4) * 1) ; data = (head(1, b"R", 0)) * 10000\nfor _ in range(100): put(data)',
    "half a frame": 'get(); put(head(1, b"R", 1000)[:5]); rest()',
    "nothing": "rest()",
    "no JSON": 'get(); say(1, b"R", b"{" * 60000); rest()',
    "it ends": "get()",
    "it ends at once": "pass",
    "it closes its socket": "get(); os.close(0); os.close(1); time.sleep(1000)",
    "it prints": 'get(); print("hello", flush=True); rest()',
    "it complains without end": 'get()\nwhile True: os.write(2, b"\\x1b[2J" * 10000)',
    "it stops": "get(); os.kill(os.getpid(), signal.SIGSTOP)",
    "it is deaf to signals": "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN); get(); time.sleep(1000)",
    "it multiplies": "get()\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(1000)\nos._exit(0)",
}


class Watch:
    """The daemon's memory and pace: how much time of its own it has used between two turns, whatever else the machine does."""

    def __init__(self) -> None:
        self.before = self.most = _memory()
        self.stall = 0.0
        self._at = process_time()
        self._call = LoopingCall(self._look)
        self._call.start(0.005)

    def _look(self) -> None:
        now = process_time()
        self.stall = max(self.stall, now - self._at)
        self._at = now
        self.most = max(self.most, _memory())

    def stop(self) -> None:
        self._call.stop()


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class HostileCase(WorkerCase):
    def failing(self, asked: Awaitable[Any]) -> Deferred[ApiError]:
        """Fires with what it fails with."""

        async def fail() -> ApiError:
            with self.assertRaises(ApiError) as caught:
                await asked
            error = caught.exception
            assert isinstance(error, ApiError)
            return error

        return Deferred.fromCoroutine(fail())

    def quicken(self) -> None:
        """Deadlines of a second, to save time."""
        self.patch(asking, "ANSWER_SECONDS", 1.0)
        self.patch(downloads, "STREAM_SECONDS", 1.0)

    async def watched(self, work: Callable[[], Deferred[Any]]) -> Any:
        watch = Watch()
        try:
            return await work()
        finally:
            watch.stop()
            self.assertLess(watch.most - watch.before, _MAX_GROWTH)
            self.assertLess(watch.stall, _MAX_STALL)


class AttackTests(HostileCase):
    async def attack(self, script: str, ask: Callable[[HostFiles], Deferred[Any]]) -> None:
        files = self.play(script)
        began = monotonic()
        error = await self.watched(lambda: self.failing(ask(files)))
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
        self.assertLess(monotonic() - began, 3)
        await until(lambda: not self.workers(), "the worker is gone", 6)

    async def test_every_attack_on_every_request(self) -> None:
        """I9."""
        self.quicken()
        asks: list[Callable[[HostFiles], Deferred[Any]]] = [
            lambda files: files.list(PLACE, "", depth=1, limit=100, cursor=None),
            lambda files: files.pack(PLACE, "", "gzip"),
            lambda files: files.unpack(PLACE, "a", replace=False, coding="identity"),
        ]
        for at, (name, script) in enumerate(ATTACKS.items()):
            with named(name):
                await self.attack(script, asks[at % len(asks)])

    async def test_what_it_leaves_behind_in_its_group_is_killed(self) -> None:
        files = self.play('get()\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(1000)\nsay(7, b"R"); rest()')
        await self.failing(files.open(PLACE, "a"))
        await until(lambda: not processes_of(self.uid), "all are gone")

    async def test_a_stopped_worker(self) -> None:
        """I10."""
        files = self.play('get(); say(1, b"R", page); get(); os.kill(os.getpid(), signal.SIGSTOP); rest()')
        await files.list(PLACE, "", depth=1, limit=100, cursor=None)
        began = monotonic()
        error = await self.failing(files.open(PLACE, "a"))
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
        self.assertTrue(9 < monotonic() - began < 12)
        await until(lambda: not processes_of(self.uid), "it is dead", 2)
        await files.list(PLACE, "", depth=1, limit=100, cursor=None)

    async def test_a_million_tiny_pieces(self) -> None:
        script = """
number = get()[0]
say(number, b"R", {"name": "", "folder": True, "stream": True})
piece = head(number, b"D", 1) + b"a"
window, sent = 262144, 0
while sent < 1000000:
    while window == 0:
        kind, payload = get()[1:]
        window += struct.unpack(">I", payload)[0]
    size = min(window, 1000)
    put(piece * size)
    window -= size
    sent += size
say(number, b"E", {"entries": 1, "bytes": 1000000, "skipped": 0, "unreadable": 0})
rest()
"""
        files = self.play(script)
        packed = await files.pack(PLACE, "", "identity")
        taken = Taken()

        def run() -> Deferred[Any]:
            packed.source.start(taken)
            return Deferred.fromCoroutine(taken.finish(60))

        error = await self.watched(run)
        assert isinstance(error, ApiError)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
        self.assertLess(len(taken.text), 10_000)

    async def test_a_flood_that_nobody_takes(self) -> None:
        self.quicken()
        script = """
for number in range(1, 5):
    assert get()[0] == number
    say(number, b"R", {"name": "", "folder": True, "stream": True})
for _ in range(4):
    for number in range(1, 5): say(number, b"D", bytes(65536))
data = head(1, b"D", 65536) + bytes(65536)
while True: put(data)
"""
        files = self.play(script)
        watch = Watch()
        sinks = []
        for _ in range(4):
            packed = await files.pack(PLACE, "", "identity")
            sinks.append(Taken(full_after=1))
            packed.source.start(sinks[-1])
        for sink in sinks:
            error = await sink.finish()
            self.assertIsInstance(error, ApiError)
        watch.stop()
        self.assertLess(watch.most - watch.before, _MAX_GROWTH)
        self.assertLess(watch.stall, _MAX_STALL)

    async def test_it_reads_nothing_of_an_upload(self) -> None:
        self.patch(uploads, "STREAM_SECONDS", 1.0)
        files = self.play('number = get()[0]; say(number, b"R", {"ready": True, "stream": True}); time.sleep(1000)')
        upload = await files.unpack(PLACE, "a", replace=False, coding="identity")
        failures: list[int] = []
        upload.begin(lambda: None, lambda: failures.append(1))
        while upload.write(bytes(65536)):
            pass
        await until(lambda: failures, "it has failed", 3)
        await self.failing(upload.finish())

    async def test_another_session_does_not_notice(self) -> None:
        """I9."""
        bad = self.play(ATTACKS["4 GiB of it"])
        good = self.play('while True:\n    number, kind, _ = get()\n    say(number, b"R", page)')
        other = evolve(PLACE, session_id="cs_9999999999999999")
        await good.list(other, "", depth=1, limit=100, cursor=None)
        for _ in range(5):
            attack = self.failing(bad.open(PLACE, "a"))
            began = monotonic()
            await good.list(other, "", depth=1, limit=100, cursor=None)
            self.assertLess(monotonic() - began, 0.2)
            await attack

    async def test_one_that_dies_at_once_is_not_started_for_ever(self) -> None:
        files = self.play("os._exit(1)")
        for _ in range(5):
            await self.failing(files.open(PLACE, "a"))
        began = monotonic()
        error = await self.failing(files.open(PLACE, "a"))
        self.assertLess(monotonic() - began, 0.1)
        self.assertGreater(error.retry_after_ms or 0, 5000)
        await until(lambda: not processes_of(self.uid), "nothing runs")

    async def test_what_it_says_is_logged_without_harm_and_not_without_end(self) -> None:
        """I9."""
        said: list[LogEvent] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            said.append(event)

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        script = """
for _ in range(1000):
    try: os.write(2, b"\\x1b[2J\\n{forged} %s" * 100)
    except BrokenPipeError: break
get()
say(1, b"R", page)
rest()
"""
        files = self.play(script)
        await files.list(PLACE, "", depth=1, limit=100, cursor=None)
        lines = [formatEvent(event) for event in said if "says" in (event.get("log_format") or "")]
        self.assertTrue(lines)
        self.assertLessEqual(sum(len(event["said"]) for event in said if "said" in event), 4 * 4096 + 100)
        for line in lines:
            self.assertTrue(line.isprintable() and "\\x1b[2J\\n{forged} %s" in line, line)

    async def test_killed_by_its_user(self) -> None:
        files = self.play('while True:\n    number, kind, _ = get()\n    if number > 1: say(number, b"R", page)')
        asked = files.list(PLACE, "", depth=1, limit=100, cursor=None)
        await until(lambda: len(processes_of(self.uid)) == 1 and self.workers(), "it runs")
        for pid in processes_of(self.uid):
            os.kill(pid, signal.SIGKILL)
        await self.failing(asked)
