"""Closing a terminal: everything that belongs to it goes, and nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from time import monotonic

from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.host import hangup
from computerd.terminal.port import Process
from tests.host.people import processes_of
from tests.host.real import RealCase
from tests.host.waiting import Recorder, reactor, until


class HangUpTests(RealCase):
    def named(self, argument: str) -> list[int]:
        """The user's processes with that argument, without those whose text of a command merely holds it."""
        found = []
        for pid in processes_of(self.uid):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if argument.encode() in words:
                found.append(pid)
        return found

    async def type(self, process: Process, recorder: Recorder, line: str, started: str) -> None:
        process.write(line.encode() + b"\n")
        await until(lambda: self.named(started), f"{started} runs")

    async def shell(self) -> tuple[Process, Recorder]:
        process, recorder = await self.open("exec bash --norc --noprofile -i")
        await recorder.see(b"$ ")
        return process, recorder

    async def test_jobs_in_fore_and_background_and_stopped(self) -> None:
        """BR-056."""
        process, recorder = await self.shell()
        await self.type(process, recorder, "sleep 1113", "1113")
        process.write(b"\x1a")
        await recorder.see(b"Stopped")
        await self.type(process, recorder, "sleep 1112 &", "1112")
        await self.type(process, recorder, "sleep 1111", "1111")
        began = monotonic()
        process.hang_up()
        self.assertEqual((None, "SIGHUP"), await recorder.finish())
        await until(lambda: not any(map(self.named, ("1111", "1112", "1113"))), "the sleeps are gone", 4)
        self.assertLess(monotonic() - began, limits.KILL_SECONDS - 0.5)

    async def test_pipes(self) -> None:
        """BR-058, D14: in pipe mode too, and the daemon's own group is not hit."""
        for _ in range(30):
            process, recorder = await self.open("sleep 1000 & exec sleep 1001", None)
            await until(lambda: self.named("1000"), "it runs")
            process.hang_up()
            self.assertEqual((None, "SIGHUP"), await recorder.finish())
            await until(lambda: not self.named("1000"), "its child is gone", 4)

    async def test_a_stopped_program(self) -> None:
        process, recorder = await self.open("echo go; kill -STOP $$")
        await recorder.see(b"go")
        process.hang_up()
        self.assertEqual((None, "SIGHUP"), await recorder.finish(4))

    async def test_what_ignores_sighup_is_killed_after_five_seconds(self) -> None:
        """BR-057, BR-059, T11: at once, side by side, because each takes five seconds."""
        stubborn = "trap '' HUP TERM; sleep 1301 & echo go; while :; do sleep 1; done"
        watched = [await self.open(stubborn, size) for size in ((80, 24), None)]
        for _, recorder in watched:
            await recorder.see(b"go")
        # a job of its own group, that outlives its shell
        process, _ = outlived = await self.shell()
        await self.type(*outlived, "(trap '' HUP; sleep 1302; sleep 1303)", "1302")
        # what nohup and setsid keep
        kept, _ = keeper = await self.shell()
        await self.type(*keeper, "nohup sleep 1304 >/dev/null 2>&1 &", "1304")
        await self.type(*keeper, "setsid sleep 1305", "1305")
        # nohup in the own group of a shell without job control
        plain, plainly = await self.open("nohup sleep 1306 >/dev/null 2>&1 & echo go; wait")
        await plainly.see(b"go")
        await until(lambda: self.named("1306"), "it runs")
        began = monotonic()
        everyone = [*watched, (process, outlived[1]), (kept, keeper[1]), (plain, plainly)]
        for one, _ in everyone:
            one.hang_up()
        self.assertEqual((None, "SIGHUP"), await outlived[1].finish())
        self.assertEqual((None, "SIGHUP"), await plainly.finish())
        await deferLater(reactor, limits.KILL_SECONDS - 1)
        for _, recorder in watched:
            self.assertIsNone(recorder.end)
        self.assertTrue(self.named("1302"))
        for _, recorder in watched:
            self.assertEqual((None, "SIGKILL"), await recorder.finish(6))
            # not after another five: a busy machine may be late
            self.assertTrue(4.9 < recorder.ended_at - began < 9.5, recorder.ended_at - began)
        await until(lambda: not any(map(self.named, ("1301", "1302", "1303"))), "the stubborn are gone", 2)
        self.assertTrue(all(map(self.named, ("1304", "1305", "1306"))))

    async def test_input_unread_and_the_terminal_held(self) -> None:
        """BR-062: neither a queue that nobody reads nor a child that escaped keeps the descriptor open."""
        process, recorder = await self.open("stty raw -echo; setsid sleep 60 & echo go; exec sleep 61")
        await recorder.see(b"go")
        for _ in range(14):
            process.write(b"x" * 65536)
        began = monotonic()
        process.hang_up()
        self.assertEqual((None, "SIGHUP"), await recorder.finish())
        self.assertLess(monotonic() - began, limits.LINGER_SECONDS + 3)

    async def test_a_watcher_that_takes_nothing(self) -> None:
        process, recorder = await self.open("yes & exec yes", None, full_after=1)
        await until(lambda: recorder.text, "the first output")
        process.hang_up()
        process.discard()
        await recorder.finish(2)


class OwnGroupTests(SynchronousTestCase):
    """Whom a signal never reaches."""

    def setUp(self) -> None:
        self.sent: list[tuple[int, int]] = []
        self.patch(os, "killpg", lambda group, number: self.sent.append((group, number)))

    def test_never_the_daemons_group_init_or_everybody(self) -> None:
        for group in (os.getpgrp(), 1, 0, -1):
            hangup.send(group, signal.SIGKILL)
        self.assertEqual([], self.sent)

    def test_a_group_that_is_gone_is_no_error(self) -> None:
        def gone(group: int, number: int) -> None:
            raise ProcessLookupError

        self.patch(os, "killpg", gone)
        hangup.send(2**22 - 1, signal.SIGKILL)


class ForegroundTests(SynchronousTestCase):
    """BR-060, I12: a number is proof of nothing."""

    def child(self, *, session: bool, group: int | None = None) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(["sleep", "100"], start_new_session=session, process_group=group)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def test_a_stranger_with_the_number_is_not_ours(self) -> None:
        stranger = self.child(session=True)
        self.assertFalse(hangup.ours(stranger.pid, os.getpid()))
        self.assertIsNone(hangup.Foreground.note(stranger.pid, 2**22 - 2))

    def test_no_group(self) -> None:
        for group in (-1, 0, 1):
            self.assertFalse(hangup.ours(group, 4242))

    def test_a_job_of_the_session(self) -> None:
        job = self.child(session=False, group=0)
        found = hangup.Foreground.note(job.pid, os.getsid(0))
        assert found is not None
        self.addCleanup(found.forget)
        self.assertTrue(found.lives())
        job.kill()
        job.wait()
        self.assertFalse(found.lives())
        sent: list[int] = []
        self.patch(os, "killpg", lambda group, number: sent.append(group))
        found.kill()
        self.assertEqual([], sent)

    def test_a_group_whose_leader_has_gone(self) -> None:
        """Its members prove it, if they were there before."""
        leader = self.child(session=False, group=0)
        member = self.child(session=False, group=leader.pid)
        found = hangup.Foreground.note(leader.pid, os.getsid(0))
        assert found is not None
        self.addCleanup(found.forget)
        found._since += 1  # a tick of the clock of /proc: the test is faster than it
        leader.kill()
        leader.wait()
        self.assertTrue(found.lives())
        newer = hangup.Foreground(
            leader.pid, os.getsid(0), -1, 0
        )  # as if all of them had come later: the number may be another's
        self.assertFalse(newer.lives())
        sent: list[int] = []
        self.patch(os, "killpg", lambda group, number: sent.append(group))
        newer.kill()
        self.assertEqual([], sent)
        found.kill()
        self.assertEqual([leader.pid], sent)
        member.kill()

    def test_a_leader_that_changed_its_session(self) -> None:
        job = subprocess.Popen(
            ["python3", "-c", "import os, sys; os.setpgid(0, 0); print(); sys.stdout.flush(); sys.stdin.read()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert job.stdin is not None and job.stdout is not None
        job.stdout.readline()
        self.assertFalse(hangup.ours(job.pid, 2**22 - 2))
        self.assertTrue(hangup.ours(job.pid, os.getsid(0)))
        job.communicate()
