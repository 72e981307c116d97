"""What every process promises, real or fake: the tests of the port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from computerd.contract import limits
from computerd.terminal.port import Process
from tests.host.waiting import Recorder, until

if TYPE_CHECKING:
    from twisted.trial.unittest import TestCase as _Base
else:
    _Base = object  # or trial would take the interface itself for tests


class Play(Protocol):
    """How a test makes a process do something."""

    @property
    def process(self) -> Process:
        """The process."""

    async def say(self, data: bytes) -> None:
        """It prints."""

    async def exit(self, code: int) -> None:
        """It exits."""

    async def heard(self, data: bytes) -> None:
        """Waits until it has read that, and nothing else."""


class ProcessInterface(_Base):
    """Mixed into a TestCase.

    Attributes:
        end_of_input: What the program reads when the input ends. A terminal in raw mode hands over the character that is one in others.
    """

    end_of_input = b""

    async def play(self) -> Play:
        """A process that does what it is told, and reads its input."""
        raise NotImplementedError

    async def stuck(self) -> Play:
        """A process that reads nothing."""
        raise NotImplementedError

    async def _watched(self, play: Play, full_after: float = float("inf")) -> Recorder:
        recorder = Recorder(full_after=full_after)
        play.process.start(recorder)
        return recorder

    async def test_output_then_the_end_once(self) -> None:
        play = await self.play()
        recorder = await self._watched(play)
        await play.say(b"one")
        await recorder.see(b"one")
        await play.say(b"two")
        await play.exit(3)
        self.assertEqual((3, None), await recorder.finish())
        self.assertEqual(b"onetwo", bytes(recorder.text))
        self.assertEqual(1, recorder.ends)

    async def test_what_it_said_before_it_was_watched(self) -> None:
        play = await self.play()
        await play.say(b"early")
        recorder = await self._watched(play)
        await recorder.see(b"early")
        await play.exit(0)
        await recorder.finish()

    async def test_its_end_before_it_was_watched(self) -> None:
        play = await self.play()
        await play.say(b"early")
        await play.exit(4)
        recorder = await self._watched(play)
        self.assertEqual((4, None), await recorder.finish())
        self.assertEqual(b"early", bytes(recorder.text))

    async def test_nothing_more_until_resume(self) -> None:
        play = await self.play()
        recorder = await self._watched(play, full_after=1)
        await play.say(b"a" * 10)
        await recorder.see(b"a")
        await play.say(b"b" * 10)
        await play.exit(0)
        self.assertNotIn(b"b", recorder.text)
        self.assertIsNone(recorder.end)
        recorder.full_after = float("inf")
        play.process.resume()
        await recorder.finish()
        self.assertEqual(b"a" * 10 + b"b" * 10, bytes(recorder.text))

    async def test_discard_lets_the_end_come(self) -> None:
        play = await self.play()
        recorder = await self._watched(play, full_after=1)
        await play.say(b"a" * 10)
        await recorder.see(b"a")
        await play.say(b"b" * 10)
        play.process.hang_up()
        play.process.discard()
        await recorder.finish()
        self.assertNotIn(b"b", recorder.text)

    async def test_discard_before_it_was_watched(self) -> None:
        play = await self.play()
        play.process.hang_up()
        play.process.discard()

    async def test_its_end_after_discard_before_it_was_watched(self) -> None:
        play = await self.play()
        await play.say(b"early")
        await play.exit(4)
        play.process.discard()
        recorder = await self._watched(play)
        self.assertEqual((4, None), await recorder.finish())
        self.assertEqual((1, b""), (recorder.ends, bytes(recorder.text)))

    async def test_input_and_its_end(self) -> None:
        play = await self.play()
        recorder = await self._watched(play)
        await play.say(b"ready")
        self.assertTrue(play.process.write(b"in"))
        self.assertTrue(play.process.write(b"put\n"))
        play.process.eof()
        self.assertTrue(play.process.write(b"too late"))
        play.process.eof()
        await play.heard(b"input\n" + self.end_of_input)
        await play.exit(0)
        await recorder.finish()

    async def test_input_for_a_stuck_program_waits_then_is_refused(self) -> None:
        play = await self.stuck()
        recorder = await self._watched(play)
        piece = b"x" * 65536
        taken = 0
        while play.process.write(piece):
            taken += len(piece)
            self.assertLess(taken, 2 * limits.INPUT_QUEUE_BYTES)
        self.assertGreaterEqual(taken, limits.INPUT_QUEUE_BYTES - len(piece))
        play.process.eof()
        play.process.hang_up()
        self.assertEqual((None, "SIGHUP"), await recorder.finish())

    async def test_hang_up(self) -> None:
        play = await self.play()
        recorder = await self._watched(play)
        play.process.hang_up()
        play.process.hang_up()
        self.assertEqual((None, "SIGHUP"), await recorder.finish())

    async def test_calls_after_the_end_are_harmless(self) -> None:
        play = await self.play()
        recorder = await self._watched(play)
        await play.exit(0)
        await recorder.finish()
        self.assertTrue(play.process.write(b"late"))
        for call in (play.process.eof, play.process.resume, play.process.hang_up, play.process.discard):
            call()
        play.process.resize(100, 30)
        await until(lambda: recorder.ends == 1)
