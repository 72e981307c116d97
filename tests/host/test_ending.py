"""The end of a session: its processes, those that are starting, and nobody else's."""

from __future__ import annotations

from time import monotonic

from attrs import evolve

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from tests.host.people import processes_of
from tests.host.real import SESSION_ID, RealCase
from tests.host.waiting import Recorder, until

OTHER = "cs_9999999999999999"


class EndingTests(RealCase):
    async def test_nothing_runs(self) -> None:
        await self.spawner.end_session(SESSION_ID)

    async def test_every_terminal_of_the_session_and_no_other(self) -> None:
        (_, first), (_, second) = [await self.open("echo go; exec sleep 1601", size) for size in ((80, 24), None)]
        other = await self.spawner.spawn(evolve(self.begin("echo go; exec sleep 1602"), session_id=OTHER))
        spared = Recorder()
        other.start(spared)
        for recorder in (first, second, spared):
            await recorder.see(b"go")
        await self.spawner.end_session(SESSION_ID)
        for recorder in (first, second):
            self.assertEqual((None, "SIGHUP"), await recorder.finish())
        self.assertEqual(1, len(processes_of(self.uid)))
        await self.spawner.end_session(OTHER)
        self.assertEqual((None, "SIGHUP"), await spared.finish())

    async def test_it_waits_for_what_ignores_sighup(self) -> None:
        _, recorder = await self.open("trap '' HUP; echo go; while :; do sleep 0.1; done")
        await recorder.see(b"go")
        began = monotonic()
        await self.spawner.end_session(SESSION_ID)
        self.assertEqual((None, "SIGKILL"), await recorder.finish())
        self.assertGreater(monotonic() - began, limits.KILL_SECONDS - 0.5)
        await until(lambda: not processes_of(self.uid), "all are gone", 2)

    async def test_output_that_nobody_takes_holds_it_up_for_six_seconds_at_most(self) -> None:
        process = await self.spawner.spawn(self.begin("exec yes"))
        recorder = Recorder()
        recorder.full_after = 1
        process.start(recorder)
        began = monotonic()
        await self.spawner.end_session(SESSION_ID)
        self.assertLess(monotonic() - began, limits.KILL_SECONDS + 2)
        await until(lambda: not processes_of(self.uid), "it is dead all the same", 2)
        process.discard()
        self.assertEqual((None, "SIGHUP"), await recorder.finish())

    async def test_what_is_starting_fails(self) -> None:
        starting = self.spawner.spawn(self.begin("exec sleep 1603"))
        await self.spawner.end_session(SESSION_ID)
        with self.assertRaises(ApiError) as caught:
            await starting
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, caught.exception.code)
        await until(lambda: not processes_of(self.uid), "nothing has started", 2)

    async def test_what_waits_for_its_turn_to_start_fails(self) -> None:
        """One starts in each turn of the reactor: those that wait must not come to life in a session that was ended."""
        starting = [self.spawner.spawn(self.begin("exec sleep 1605")) for _ in range(5)]
        other = self.spawner.spawn(evolve(self.begin("echo go"), session_id=OTHER))
        await self.spawner.end_session(SESSION_ID)
        for one in starting:
            with self.assertRaises(ApiError) as caught:
                await one
            self.assertEqual(Code.COMPUTER_UNAVAILABLE, caught.exception.code)
        spared = Recorder()
        (await other).start(spared)
        await spared.see(b"go")
        await spared.finish()
        await until(lambda: not processes_of(self.uid), "nothing has started", 2)

    async def test_two_ends_at_once(self) -> None:
        _, recorder = await self.open("echo go; exec sleep 1604")
        await recorder.see(b"go")
        ends = [self.spawner.end_session(SESSION_ID) for _ in range(2)]
        for end in ends:
            await end
        self.assertEqual((None, "SIGHUP"), await recorder.finish())
