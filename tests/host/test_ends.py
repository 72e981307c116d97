"""Output and the end of a program: nothing is lost, and nobody waits for others."""

from __future__ import annotations

import hashlib
from time import monotonic

from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.internet.task import deferLater

from computerd.contract import limits
from tests.host.real import RealCase
from tests.host.waiting import Recorder, reactor, until

_LINGER_SLACK = 2.0
"""Seconds over the 500 ms, because a machine under load is no defect."""


class TtyEnds(RealCase):
    size: tuple[int, int] | None = (80, 24)
    line_end = b"\r\n"

    async def finished(self, command: str) -> Recorder:
        _, recorder = await self.open(command, self.size)
        await recorder.finish(20)
        return recorder

    async def test_nothing_is_lost_at_the_exit(self) -> None:
        """BR-001, BR-002, T9."""
        wanted = b"".join(b"%d%s" % (n, self.line_end) for n in range(1, 20001))
        for _ in range(10):
            recorder = await self.finished("seq 20000; exit 3")
            self.assertEqual((3, None), recorder.end)
            self.assertEqual(hashlib.sha256(wanted).digest(), hashlib.sha256(recorder.text).digest())

    async def test_nothing_is_lost_when_several_end_at_once(self) -> None:
        for recorder in await gatherResults([ensureDeferred(self._burst()) for _ in range(8)]):
            self.assertEqual(b"x" * 50000, bytes(recorder.text))

    async def _burst(self) -> Recorder:
        return await self.finished("head -c 50000 /dev/zero | tr '\\0' x")

    async def test_very_short_commands(self) -> None:
        """BR-011."""
        for _ in range(20):
            self.assertEqual(b"hi" + self.line_end, bytes((await self.finished("echo hi")).text))

    async def test_a_slow_watcher_loses_nothing(self) -> None:
        """T9: what was written before the exit waits in the kernel for as long as it takes."""
        process, recorder = await self.open("printf '%09999d' 1; exit 5", self.size, full_after=1)
        await until(lambda: recorder.text, "the first output")
        await deferLater(reactor, limits.LINGER_SECONDS + 0.2)
        self.assertIsNone(recorder.end)
        while recorder.end is None:
            process.resume()
            await deferLater(reactor, 0.001)
        self.assertEqual((5, None), recorder.end)
        self.assertEqual(b"%09999d" % 1, bytes(recorder.text))

    async def test_slow_queued_and_exited(self) -> None:
        """Paused reading, queued input and the exit together lost the output on plain Twisted."""
        command = "stty raw -echo 2>/dev/null; printf a; sleep 0.2; printf '%03000d' 1"
        process, recorder = await self.open(command, self.size, full_after=1)
        await recorder.see(b"a")
        for _ in range(20):
            process.write(b"x" * 65536)
        await deferLater(reactor, 0.4)
        recorder.full_after = float("inf")
        process.resume()
        self.assertEqual((0, None), await recorder.finish())
        self.assertEqual(b"a" + b"%03000d" % 1, bytes(recorder.text))

    async def test_a_silent_background_job_delays_the_end_by_half_a_second(self) -> None:
        """BR-003, T10."""
        began = monotonic()
        recorder = await self.finished("trap '' HUP; sleep 30 & echo hi; exit 7")
        self.assertEqual((7, None), recorder.end)
        self.assertEqual(b"hi" + self.line_end, bytes(recorder.text))
        self.assertLess(recorder.ended_at - began, limits.LINGER_SECONDS + _LINGER_SLACK)
        self.assertGreater(recorder.ended_at - began, limits.LINGER_SECONDS)

    async def test_a_printing_background_job_doesnt_hold_the_end_up(self) -> None:
        """BR-004."""
        began = monotonic()
        recorder = await self.finished("trap '' HUP; yes tick & echo first; exec sh -c 'echo done; exit 7'")
        self.assertEqual((7, None), recorder.end)
        self.assertIn(b"done", recorder.text)
        self.assertLess(recorder.ended_at - began, 2 + _LINGER_SLACK)

    async def test_a_slow_watcher_and_a_printing_background_job(self) -> None:
        process, recorder = await self.open("trap '' HUP; echo first; yes tick & exit 7", self.size, full_after=1)
        await recorder.see(b"first")
        await deferLater(reactor, limits.LINGER_SECONDS + 0.2)
        self.assertIsNone(recorder.end)
        recorder.full_after = float("inf")
        process.resume()
        self.assertEqual((7, None), await recorder.finish(3))

    async def test_a_program_that_closes_its_streams_and_goes_on(self) -> None:
        """BR-005."""
        recorder = await self.finished("echo bye; exec 0<&- 1>&- 2>&-; sleep 0.3; exit 5")
        self.assertEqual((5, None), recorder.end)
        self.assertEqual(b"bye" + self.line_end, bytes(recorder.text))

    async def test_discarded_after_the_exit_and_before_it_was_watched(self) -> None:
        """A connection that goes while its terminal opens: whoever counts terminals still hears of the end."""
        before = self._opened()
        process = await self.spawner.spawn(self.begin("echo early; exit 4", self.size))
        process.discard()
        await until(lambda: self._opened() == before, "its line is closed")
        recorder = Recorder(process=process)
        self.recorders.append(recorder)
        process.start(recorder)
        self.assertEqual(((4, None), b""), (recorder.end, bytes(recorder.text)))

    async def test_codes_and_signals(self) -> None:
        """BR-007."""
        for command, end in (
            ("exit 0", (0, None)),
            ("exit 137", (137, None)),
            ("exit 300", (44, None)),
            ("kill -TERM $$", (None, "SIGTERM")),
            ("kill -9 $$", (None, "SIGKILL")),
            ("kill -PIPE $$", (None, "SIGPIPE")),
            ("kill -36 $$", (None, "SIGRTMIN+2")),
        ):
            self.assertEqual(end, (await self.finished(command)).end, command)

    async def test_bytes_are_bytes(self) -> None:
        """BR-014, BR-015."""
        recorder = await self.finished(
            r"printf '\342'; sleep 0.02; printf '\202'; sleep 0.02; printf '\254\377\376A\302'"
        )
        self.assertEqual(b"\xe2\x82\xac\xff\xfeA\xc2", bytes(recorder.text))

    async def test_small_output_comes_at_once(self) -> None:
        process, recorder = await self.open("stty raw -echo 2>/dev/null; echo go; exec cat", self.size)
        await recorder.see(b"go")
        for n in range(20):
            process.write(b"k")
            await until(lambda n=n: recorder.text.count(b"k") > n, "the echo", 1)  # type: ignore[misc]

    async def test_a_flood_comes_in_large_pieces(self) -> None:
        recorder = await self.finished("head -c 4000000 /dev/zero")
        self.assertEqual(4000000, len(recorder.text))
        self.assertLess(len(recorder.pieces), 1500)

    async def test_back_pressure_stops_the_program(self) -> None:
        """BR-069: a watcher that takes no more holds the program, not the daemon's memory."""
        process, recorder = await self.open("yes", self.size, full_after=1)
        await until(lambda: recorder.text, "the first output")
        seen = len(recorder.text)
        await deferLater(reactor, 0.2)
        self.assertEqual(seen, len(recorder.text))
        process.hang_up()
        process.discard()
        await recorder.finish()

    async def test_many_opens_and_ends_leave_nothing(self) -> None:
        """BR-006, BR-061, BR-062; the case's end looks for what is left."""
        for n in range(40):
            process, recorder = await self.open("true" if n % 2 else "exec sleep 100", self.size)
            process.write(b"x\n")  # BR-029
            process.resize(90, 20)
            process.eof()
            process.hang_up()
            await recorder.finish()


class PipeEnds(TtyEnds):
    size = None
    line_end = b"\n"

    async def test_errors_are_a_stream_of_their_own(self) -> None:
        recorder = await self.finished("echo out; echo err >&2; exit 1")
        self.assertEqual((b"out\n", b"err\n"), (bytes(recorder.text), bytes(recorder.errors)))

    async def test_both_streams_are_drained(self) -> None:
        recorder = await self.finished("head -c 60000 /dev/zero >&2; head -c 60000 /dev/zero")
        self.assertEqual((60000, 60000), (len(recorder.text), len(recorder.errors)))
