"""What goes through terminals is counted, over all connections."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.terminal.budget import Budget
from computerd.terminal.channels import Channels
from computerd.terminal.port import Stream
from computerd.terminal.terminal import Terminal
from computerd.terminal.traffic import Traffic
from tests.terminal.recorders import RecordingOutbox, RecordingProcess


class TrafficTests(SynchronousTestCase):
    """`Traffic`."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.traffic = Traffic()

    def terminal(self, channels: Channels) -> Terminal:
        """A terminal with pipes on the next channels, that takes 10 bytes a second."""
        channel, error_channel = channels.reserve(False)
        terminal = Terminal(
            id=f"tm_{channel}",
            session_id="cs_0000000000000000",
            channel=channel,
            error_channel=error_channel,
            outbox=RecordingOutbox(),
            process=RecordingProcess(),
            budget=Budget(10, 10, self.clock.seconds),
            on_gone=lambda gone, code: channels.remove(gone),
            traffic=channels.traffic,
        )
        channels.add(terminal)
        return terminal

    def test_bytes_of_all_connections(self) -> None:
        for _ in range(2):
            channels = Channels(traffic=self.traffic)
            terminal = self.terminal(channels)
            channels.input(terminal.channel, b"1234567")
            terminal.output(Stream.OUTPUT, b"abc")
            terminal.output(Stream.ERROR, b"d")
        self.assertEqual((self.traffic.input_bytes, self.traffic.output_bytes), (14, 8))

    def test_what_was_not_given_to_a_program(self) -> None:
        channels = Channels(traffic=self.traffic)
        terminal = self.terminal(channels)
        channels.input(terminal.channel, b"1234567")
        channels.input(terminal.channel, b"8901")
        channels.input(99, b"stray")
        self.assertEqual(
            (self.traffic.input_bytes, self.traffic.dropped_bytes, self.traffic.stray_frames, self.traffic.refused),
            (7, 4, 1, 0),
        )
        for refused in (1, 1):
            # the next request is refused, and no other
            channels.over_limit()
            self.assertEqual(self.traffic.refused, refused)

    def test_what_nobody_reads_is_not_output(self) -> None:
        terminal = self.terminal(Channels(traffic=self.traffic))
        terminal.abandon()
        terminal.output(Stream.OUTPUT, b"abc")
        self.assertEqual(self.traffic.output_bytes, 0)
