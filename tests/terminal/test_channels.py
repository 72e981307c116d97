"""Channels are a connection's own, and never used twice."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.terminal.budget import Budget
from computerd.terminal.channels import Channels
from computerd.terminal.slots import Slots
from computerd.terminal.terminal import Terminal
from tests.terminal.recorders import RecordingOutbox, RecordingProcess


def make(channels: Channels, name: str, clock: Clock, *, tty: bool = True) -> Terminal:
    """A terminal on the next channel."""
    channel, error_channel = channels.reserve(tty)
    terminal = Terminal(
        id=name,
        session_id="cs_0000000000000000",
        channel=channel,
        error_channel=error_channel,
        outbox=RecordingOutbox(),
        process=RecordingProcess(),
        budget=Budget(1000, 1000, clock.seconds),
        on_gone=lambda gone, code: channels.remove(gone),
    )
    channels.add(terminal)
    return terminal


class ChannelsTests(SynchronousTestCase):
    """`Channels`."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.channels = Channels()

    def test_numbers_count_from_one_and_pipes_take_two(self) -> None:
        self.assertEqual(self.channels.reserve(True), (1, None))
        self.assertEqual(self.channels.reserve(False), (2, 3))
        self.assertEqual(self.channels.reserve(True), (4, None))

    def test_input_reaches_its_terminal_only(self) -> None:
        first, second = (make(self.channels, name, self.clock) for name in ("tm_a", "tm_b"))
        self.channels.input(2, b"for b")
        self.assertEqual(first.process.calls, [])  # type: ignore[attr-defined]
        self.assertEqual(second.process.calls, [b"for b"])  # type: ignore[attr-defined]

    def test_a_channel_is_never_used_again(self) -> None:
        make(self.channels, "tm_a", self.clock).ended(0, None)
        second = make(self.channels, "tm_b", self.clock)
        self.channels.input(1, b"late")
        self.assertEqual(second.channel, 2)
        self.assertEqual(second.process.calls, [])  # type: ignore[attr-defined]
        self.assertEqual(self.channels.strays, 1)

    def test_the_error_channel_takes_no_input(self) -> None:
        make(self.channels, "tm_a", self.clock, tty=False)
        self.channels.input(2, b"x")
        self.assertEqual(self.channels.strays, 1)

    def test_an_unknown_a_closing_and_an_ended_id_are_told_alike(self) -> None:
        closing, ended = (make(self.channels, name, self.clock) for name in ("tm_a", "tm_b"))
        closing.close()
        ended.ended(0, None)
        messages = set()
        for name in ("tm_a", "tm_b", "tm_never", ""):
            error = self.assertRaises(ApiError, self.channels.open_terminal, name)
            self.assertEqual(error.code, Code.TERMINAL_NOT_FOUND)
            messages.add(error.message)
        self.assertEqual(len(messages), 1)

    def test_dropped_input_is_told_once(self) -> None:
        make(self.channels, "tm_a", self.clock)
        self.assertIsNone(self.channels.over_limit())
        self.channels.input(1, b"x" * 1001)
        self.assertGreater(self.channels.over_limit() or 0, 0)
        self.assertIsNone(self.channels.over_limit())

    def test_the_end_of_the_connection_abandons_all(self) -> None:
        terminal = make(self.channels, "tm_a", self.clock)
        self.channels.close_all()
        self.assertEqual(terminal.process.calls, ["hang_up", "discard"])  # type: ignore[attr-defined]

    def test_a_terminal_that_comes_too_late_is_abandoned(self) -> None:
        self.channels.close_all()
        terminal = make(self.channels, "tm_a", self.clock)
        self.assertEqual(terminal.process.calls, ["hang_up", "discard"])  # type: ignore[attr-defined]
        self.assertEqual(len(self.channels), 0)


class SlotsTests(SynchronousTestCase):
    """`Slots`."""

    def test_eight_and_no_more_for_each_session(self) -> None:
        slots = Slots()
        for _ in range(8):
            slots.take("cs_a")
        error = self.assertRaises(ApiError, slots.take, "cs_a")
        self.assertEqual(error.code, Code.TOO_MANY_TERMINALS)
        slots.take("cs_b")
        slots.give_back("cs_a")
        slots.take("cs_a")
        self.assertEqual(slots.taken("cs_a"), 8)

    def test_nothing_is_kept_of_a_session_without_terminals(self) -> None:
        slots = Slots()
        slots.take("cs_a")
        slots.give_back("cs_a")
        self.assertEqual(slots.taken("cs_a"), 0)
        self.assertEqual(len(slots._taken), 0)
