"""How much is read at once."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from computerd.host.reading import MAX_READ, Kernel, gather


class GatherTests(SynchronousTestCase):
    """From a pipe; each look at the clock costs `step` seconds."""

    def setUp(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.addCleanup(os.close, self.reader)
        self.looks = 0

    def tearDown(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)

    def gather(self, chunk: int = 4096, step: float = 0.0, *, thorough: bool = False) -> tuple[bytes, Kernel]:
        def clock() -> float:
            self.looks += 1
            return self.looks * step

        return gather(self.reader, chunk, clock, thorough=thorough)

    def close(self) -> None:
        os.close(self.writer)
        self.writer = -1

    def test_nothing(self) -> None:
        self.assertEqual((b"", Kernel.EMPTY), self.gather())

    def test_a_key_costs_one_read_and_no_look_at_the_clock(self) -> None:
        os.write(self.writer, b"k")
        self.assertEqual((b"k", Kernel.MORE), self.gather())
        self.assertEqual(0, self.looks)

    def test_pieces_are_joined_until_nothing_is_left(self) -> None:
        os.write(self.writer, b"x" * 8192)
        self.assertEqual((b"x" * 8192, Kernel.EMPTY), self.gather())

    def test_never_more_than_a_frame(self) -> None:
        os.write(self.writer, b"x" * 65536)
        data, kernel = self.gather()
        self.assertEqual((MAX_READ, Kernel.MORE), (len(data), kernel))
        self.assertEqual((b"x" * (65536 - MAX_READ), Kernel.MORE), self.gather())

    def test_its_time_is_over(self) -> None:
        os.write(self.writer, b"x" * 65536)
        data, kernel = self.gather(step=0.0001)
        self.assertEqual((4 * 4096, Kernel.MORE), (len(data), kernel))

    def test_the_end(self) -> None:
        os.write(self.writer, b"bye" * 1365)
        self.close()
        self.assertEqual((b"bye" * 1365, Kernel.END), self.gather())
        self.assertEqual((b"", Kernel.END), self.gather())

    def test_thorough_knows(self) -> None:
        os.write(self.writer, b"k")
        self.assertEqual((b"k", Kernel.EMPTY), self.gather(thorough=True))
        os.write(self.writer, b"k")
        self.close()
        self.assertEqual((b"k", Kernel.END), self.gather(thorough=True))
