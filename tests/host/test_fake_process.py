"""The fake keeps the promises of the port."""

from __future__ import annotations

from attrs import define
from twisted.trial.unittest import SynchronousTestCase, TestCase

from computerd.contract.errors import ApiError, Code
from computerd.terminal.port import Start
from tests.host.fake_process import FakeProcess, FakeSpawner
from tests.host.interface import Play, ProcessInterface

_START = Start("cs_0123456789abcdef", "tm_0123456789ab", "mb_owner", None, "xterm", (80, 24))


@define
class _FakePlay:
    process: FakeProcess

    async def say(self, data: bytes) -> None:
        self.process.say(data)

    async def exit(self, code: int) -> None:
        self.process.exit(code)

    async def heard(self, data: bytes) -> None:
        assert bytes(self.process.input) == data


class FakeProcessTests(ProcessInterface, TestCase):
    async def play(self) -> Play:
        process = await FakeSpawner().spawn(_START)
        assert isinstance(process, FakeProcess)
        return _FakePlay(process)

    async def stuck(self) -> Play:
        process = await FakeSpawner().spawn(_START)
        assert isinstance(process, FakeProcess)
        process.stuck = True
        return _FakePlay(process)


class FakeSpawnerTests(SynchronousTestCase):
    def test_keeps_what_it_spawned(self) -> None:
        spawner = FakeSpawner()
        self.assertEqual([self.successResultOf(spawner.spawn(_START))], spawner.spawned)

    def test_fails_as_told(self) -> None:
        spawner = FakeSpawner(error=ApiError(Code.COMPUTER_NOT_SET_UP, "no"))
        error = self.failureResultOf(spawner.spawn(_START), ApiError).value
        assert isinstance(error, ApiError)
        self.assertEqual(Code.COMPUTER_NOT_SET_UP, error.code)
        self.assertEqual([], spawner.spawned)

    def test_waits_when_slow(self) -> None:
        spawner = FakeSpawner(slow=True)
        waiting = spawner.spawn(_START)
        self.assertNoResult(waiting)
        spawner.release()
        self.assertEqual([self.successResultOf(waiting)], spawner.spawned)
