"""Input: every byte arrives, nothing blocks, and it ends as a program expects."""

from __future__ import annotations

import hashlib
import os
import shlex
import termios
import tracemalloc
import tty

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.host.descriptor import Descriptor
from computerd.host.writing import Input, PipeInput, Room, TtyInput, end_of_file
from tests.host.real import RealCase
from tests.host.waiting import until


class RealInputTests(RealCase):
    as_root = None

    async def test_a_paste_of_a_mebibyte(self) -> None:
        """BR-020: at full speed into a program that reads slowly."""
        data = os.urandom(2**20)
        process, recorder = await self.open("stty raw -echo; echo go; sleep 0.2; head -c 1048576 | sha256sum")
        await recorder.see(b"go")
        for at in range(0, len(data), 65536):
            self.assertTrue(process.write(data[at : at + 65536]))
        self.assertEqual((0, None), await recorder.finish())
        self.assertIn(hashlib.sha256(data).hexdigest().encode(), recorder.text)

    async def test_both_directions_full(self) -> None:
        """BR-021: with echo on, what is read back is as much as what is written."""
        lines = (b"x" * 96 + b"\n") * 5000
        process, recorder = await self.open("echo go; cat >f; sha256sum <f")
        await recorder.see(b"go")
        self.assertTrue(process.write(lines))
        process.eof()
        self.assertEqual((0, None), await recorder.finish(20))
        self.assertIn(hashlib.sha256(lines).hexdigest().encode(), recorder.text)
        self.assertEqual(lines.count(b"x"), recorder.text.count(b"x"))

    async def test_end_of_input_on_pipes(self) -> None:
        """BR-025: after what was written before, also when it is more than the kernel takes."""
        process, recorder = await self.open("sleep 0.1; wc -c", None)
        for _ in range(10):
            self.assertTrue(process.write(b"x" * 100000))
        process.eof()
        self.assertTrue(process.write(b"late"))
        self.assertEqual((0, None), await recorder.finish())
        self.assertEqual(b"1000000", recorder.text.strip())

    async def test_end_of_input_on_a_terminal(self) -> None:
        """BR-026: at the start of a line, in its midst, with another character, and for a shell's editor."""
        for prepare, keys in (
            ("", b""),
            ("", b"abc\n"),
            ("", b"abc"),
            ("stty eof ^B; ", b"abc"),
            ("stty raw; exec bash -i; ", b""),
        ):
            process, recorder = await self.open(f"{prepare}echo go; exec cat")
            await recorder.see(b"$ " if "bash" in prepare else b"go")
            process.write(keys)
            process.eof()
            process.eof()
            self.assertEqual((0, None), await recorder.finish(), (prepare, keys))
            self.assertIn(keys.strip(), recorder.text)

    async def test_a_shell_outlives_its_cat(self) -> None:
        process, recorder = await self.open("echo go; cat; echo cat=$?; exec cat")
        await recorder.see(b"go")
        process.write(b"abc\n")
        process.eof()
        await recorder.see(b"cat=0")
        self.assertIsNone(recorder.end)
        process.hang_up()
        await recorder.finish()

    async def test_erasing_a_whole_character(self) -> None:
        """BR-018."""
        process, recorder = await self.open("stty -echo; printf R; head -n1 | od -An -tx1")
        await recorder.see(b"R")
        process.write("aé\x7f\n".encode())
        await recorder.finish()
        self.assertEqual([b"R", b"61", b"0a"], recorder.text.split())

    async def test_a_program_that_closes_its_input(self) -> None:
        process, recorder = await self.open("exec <&-; echo closed; sleep 0.2; echo still here", None)
        await recorder.see(b"closed")
        for _ in range(50):
            self.assertTrue(process.write(b"x" * 65536))
        self.assertEqual((0, None), await recorder.finish())
        self.assertIn(b"still here", recorder.text)

    async def test_resize(self) -> None:
        """BR-033, BR-038: before input sent later, one SIGWINCH for each real change."""
        script = "trap 'echo W $(stty size)' WINCH; stty size; while read x; do stty size; done"
        process, recorder = await self.open(f"exec bash -c {shlex.quote(script)}", (123, 37))
        await recorder.see(b"37 123")
        for columns, rows in ((120, 40), (120, 40), (100, 30)):
            process.resize(columns, rows)
            process.write(b"\n")
            await recorder.see(b"\n%d %d" % (rows, columns))
        await until(lambda: b"W 30 100" in recorder.text, "the signal")
        process.write(b"\x04")
        await recorder.finish()
        self.assertEqual(1, recorder.text.count(b"W 40 120"))
        self.assertEqual(1, recorder.text.count(b"W 30 100"))


class _Reactor:
    """Keeps what is registered."""

    def __init__(self) -> None:
        self.writers: set[object] = set()

    def addWriter(self, writer: object) -> None:
        self.writers.add(writer)

    def removeWriter(self, writer: object) -> None:
        self.writers.discard(writer)

    def addReader(self, reader: object) -> None:
        raise AssertionError("nothing is read")

    removeReader = addReader


class QueueTests(SynchronousTestCase):
    """On a pipe that nobody reads yet."""

    def setUp(self) -> None:
        self.reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.addCleanup(os.close, self.reader)
        self.reactor = _Reactor()
        self.descriptor = Descriptor(self.reactor, writer)  # type: ignore[arg-type]
        self.addCleanup(self.descriptor.close)
        self.input: Input = PipeInput(self.descriptor)

    def read(self) -> bytes:
        found = b""
        while self.reactor.writers:
            self.descriptor.doWrite()
            found += self._now()
        return found + self._now()

    def _now(self) -> bytes:
        found = b""
        try:
            while piece := os.read(self.reader, 2**20):
                found += piece
        except BlockingIOError:
            pass
        return found

    def test_at_once_when_there_is_room(self) -> None:
        self.input.write(b"abc")
        self.assertEqual(set(), self.reactor.writers)
        self.assertEqual(b"abc", os.read(self.reader, 10))

    def test_refused_whole_when_there_is_none(self) -> None:
        data = os.urandom(limits.INPUT_QUEUE_BYTES)
        self.assertTrue(self.input.write(data))
        size = len(data)
        while self.input.write(b"y" * 1000):
            size += 1000
        self.assertEqual(size, len(self.read()))
        self.assertTrue(self.input.write(b"again"))
        self.assertEqual(b"again", self.read())

    def test_a_key_that_waits_takes_a_byte(self) -> None:
        """R10. As an object of its own it would take 200."""
        self.input.write(b"x" * 100_000)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for _ in range(100_000):
            self.assertTrue(self.input.write(b"k"))
        self.assertLess(tracemalloc.get_traced_memory()[0], 400_000)
        self.assertEqual(b"x" * 100_000 + b"k" * 100_000, self.read())

    def test_what_all_programs_of_an_owner_leave_unread(self) -> None:
        room = self.input.room = Room(300_000)
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        descriptor = Descriptor(self.reactor, writer)  # type: ignore[arg-type]
        self.addCleanup(descriptor.close)
        other = PipeInput(descriptor, room=room)
        self.assertTrue(other.write(b"x" * 300_000))
        self.assertFalse(self.input.write(b"y" * 100_000))
        self.assertTrue(self.input.write(b"y" * 10))
        other.drop()
        self.assertTrue(self.input.write(b"y" * 299_000))
        self.assertEqual(299_010, len(self.read()))
        self.assertEqual(300_000, room.left)

    def test_in_order_then_closed(self) -> None:
        pieces = [os.urandom(70000) for _ in range(10)]
        for piece in pieces:
            self.assertTrue(self.input.write(piece))
        self.input.end()
        self.assertFalse(self.descriptor.closed)
        self.assertEqual(b"".join(pieces), self.read())
        self.assertTrue(self.descriptor.closed)
        self.assertEqual(set(), self.reactor.writers)

    def test_dropped(self) -> None:
        self.input.write(b"x" * 200000)
        self.input.end()
        self.input.drop()
        self.assertEqual(set(), self.reactor.writers)
        self.assertTrue(self.input.write(b"more"))
        self.assertFalse(self.descriptor.closed)

    def test_the_number_is_gone_after_closing(self) -> None:
        """The kernel gives it to the next terminal: a late call must not touch that."""
        self.descriptor.close()
        self.assertEqual(-1, self.descriptor.fileno())
        self.assertTrue(self.input.write(b"late"))
        self.descriptor.close()
        self.descriptor.write_on()
        self.assertEqual(set(), self.reactor.writers)


class EchoTests(SynchronousTestCase):
    """BR-021: on a terminal that echoes, a paste waits for its echo. Nobody reads this one, and the kernel takes what there is room for."""

    def setUp(self) -> None:
        master, self.slave = os.openpty()
        self.addCleanup(os.close, self.slave)
        self.clock = Clock()
        self.reactor = _Reactor()
        self.descriptor = Descriptor(self.reactor, master)  # type: ignore[arg-type]
        self.addCleanup(self.descriptor.close)
        self.input = TtyInput(self.descriptor, self.clock.callLater)

    def written(self) -> int:
        """Bytes of the 10,000 that were written so far."""
        return 10_000 - self.input._waiting

    def test_a_piece_at_a_time(self) -> None:
        """BR-021: not even the reactor's asking again writes more, until the echo was read."""
        self.input.write(b"x" * 10_000)
        self.assertEqual(2048, self.written())
        for _ in range(3):
            self.descriptor.doWrite()
        self.assertEqual(2048, self.written())
        self.assertEqual(set(), self.reactor.writers)  # the reactor would ask all the time
        self.input.answered(1000)
        self.assertEqual(set(), self.reactor.writers)
        self.input.answered(1000)
        self.assertEqual({self.descriptor}, self.reactor.writers)
        self.descriptor.doWrite()
        self.assertEqual(2048 + 2000, self.written())

    def test_an_echo_that_never_comes(self) -> None:
        self.input.write(b"x" * 10_000)
        self.clock.advance(0.24)
        self.assertEqual(set(), self.reactor.writers)
        self.clock.advance(0.02)
        self.descriptor.doWrite()
        self.assertEqual(4096, self.written())

    def test_a_lines_end_is_two(self) -> None:
        self.input.write(b"\n" * 10_000)
        self.input.answered(3000)
        self.assertEqual(set(), self.reactor.writers)
        self.input.answered(1000)
        self.assertEqual({self.descriptor}, self.reactor.writers)

    def test_a_key_is_written_at_once(self) -> None:
        for _ in range(100):
            self.input.write(b"k")
        self.assertEqual([], self.clock.getDelayedCalls())
        self.assertEqual(0, self.input._waiting)

    def test_without_echo_nothing_is_waited_for(self) -> None:
        tty.setraw(self.slave)
        attributes = termios.tcgetattr(self.slave)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(self.slave, termios.TCSANOW, attributes)
        self.input.write(b"x" * 4000)
        self.assertEqual((0, []), (self.input._waiting, self.clock.getDelayedCalls()))

    def test_nothing_is_left_of_a_wait(self) -> None:
        for end in (self.input.drop, self.input.end):
            self.input.write(b"x" * 10_000)
            end()
        self.assertEqual(([], set()), (self.clock.getDelayedCalls(), self.reactor.writers))


def _attributes(*, canonical: bool = True, eof: int = 4, icrnl: bool = True, signals: bool = True) -> list[object]:
    characters: list[object] = [b"\0"] * 32
    for index, value in ((termios.VEOF, eof), (termios.VEOL, 0), (termios.VEOL2, 0), (termios.VKILL, 21), (termios.VINTR, 3),
                         (termios.VQUIT, 28), (termios.VSUSP, 26)):  # fmt: skip
        characters[index] = bytes([value])
    local = (termios.ICANON if canonical else 0) | (termios.ISIG if signals else 0)
    return [termios.ICRNL if icrnl else 0, 0, 0, local, 0, 0, characters]


class EndOfFileTests(SynchronousTestCase):
    def test_once_at_the_start_of_a_line(self) -> None:
        for last in (None, 10, 13, 4, 21, 3, 28, 26):
            self.assertEqual(b"\x04", end_of_file(_attributes(), last), last)

    def test_twice_in_the_midst_of_a_line(self) -> None:
        self.assertEqual(b"\x04\x04", end_of_file(_attributes(), ord("c")))
        self.assertEqual(b"\x04\x04", end_of_file(_attributes(icrnl=False), 13))
        self.assertEqual(b"\x04\x04", end_of_file(_attributes(signals=False), 3))
        self.assertEqual(b"\x04\x04", end_of_file(_attributes(), 0))

    def test_once_without_lines(self) -> None:
        self.assertEqual(b"\x04", end_of_file(_attributes(canonical=False), ord("c")))

    def test_none_when_it_is_switched_off(self) -> None:
        self.assertEqual(b"", end_of_file(_attributes(eof=0), None))

    @given(last=st.none() | st.integers(0, 255), canonical=st.booleans(), eof=st.integers(0, 255))
    def test_never_more_than_two_of_it(self, last: int | None, canonical: bool, eof: int) -> None:
        self.assertIn(
            end_of_file(_attributes(canonical=canonical, eof=eof), last), (b"", bytes([eof]), bytes([eof, eof]))
        )
