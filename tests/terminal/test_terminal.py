"""A terminal's states, and what each lets through."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.contract.results import TerminalExited
from computerd.terminal.budget import Budget
from computerd.terminal.port import Stream
from computerd.terminal.terminal import State, Terminal
from tests.terminal.recorders import RecordingOutbox, RecordingProcess


@define(eq=False)
class Bench:
    """A terminal between its two neighbours."""

    tty: bool = True
    clock: Clock = field(factory=Clock)
    outbox: RecordingOutbox = field(factory=RecordingOutbox)
    process: RecordingProcess = field(factory=RecordingProcess)
    gone: list[int | None] = field(factory=list)
    terminal: Terminal = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.terminal = Terminal(
            id="tm_000000000000",
            session_id="cs_0000000000000000",
            channel=1,
            error_channel=None if self.tty else 2,
            outbox=self.outbox,
            process=self.process,
            budget=Budget(1000, 1000, self.clock.seconds),
            on_gone=lambda terminal, code: self.gone.append(code),
        )
        self.terminal.start()


class TerminalTests(SynchronousTestCase):
    """`Terminal`."""

    def test_output_goes_out_on_its_channel(self) -> None:
        bench = Bench()
        self.assertTrue(bench.terminal.output(Stream.OUTPUT, b"hi"))
        self.assertEqual(bench.outbox.sent, [(1, b"hi")])

    def test_standard_error_has_its_own_channel_on_pipes(self) -> None:
        bench = Bench(tty=False)
        bench.terminal.output(Stream.OUTPUT, b"out")
        bench.terminal.output(Stream.ERROR, b"err")
        self.assertEqual(bench.outbox.sent, [(1, b"out"), (2, b"err")])

    def test_a_full_outbox_holds_the_process_back_until_it_resumes(self) -> None:
        bench = Bench()
        bench.outbox.full = True
        self.assertFalse(bench.terminal.output(Stream.OUTPUT, b"x"))
        self.assertNotIn("resume", bench.process.calls)
        bench.terminal.resume()
        self.assertIn("resume", bench.process.calls)

    def test_exit_is_told_once_and_after_the_output(self) -> None:
        bench = Bench()
        bench.terminal.output(Stream.OUTPUT, b"last")
        bench.terminal.ended(7, None)
        bench.terminal.ended(0, None)
        self.assertEqual(
            bench.outbox.sent,
            [
                (1, b"last"),
                ("terminal.exited", TerminalExited(terminal_id="tm_000000000000", exit_code=7, signal=None)),
            ],
        )
        self.assertEqual(bench.gone, [7])
        self.assertIs(bench.terminal.state, State.GONE)

    def test_input_over_the_budget_is_dropped_whole(self) -> None:
        bench = Bench()
        self.assertTrue(bench.terminal.input(b"a" * 600))
        self.assertFalse(bench.terminal.input(b"b" * 600))
        self.assertTrue(bench.terminal.input(b"c" * 400))
        self.assertEqual(bench.process.calls, ["start", b"a" * 600, b"c" * 400])

    def test_input_that_the_process_has_no_room_for_is_over_the_limit(self) -> None:
        bench = Bench()
        bench.process.room = 3
        self.assertFalse(bench.terminal.input(b"four"))

    def test_close_hangs_up_and_output_still_flows(self) -> None:
        bench = Bench()
        bench.terminal.close()
        bench.terminal.close()
        self.assertEqual(bench.process.calls.count("hang_up"), 1)
        bench.terminal.output(Stream.OUTPUT, b"bye")
        bench.terminal.ended(None, "SIGHUP")
        self.assertEqual([what for what, _ in bench.outbox.sent], [1, "terminal.exited"])

    def test_input_after_close_goes_nowhere_and_is_not_over_the_limit(self) -> None:
        bench = Bench()
        bench.terminal.close()
        self.assertTrue(bench.terminal.input(b"x" * 5000))
        self.assertNotIn(b"x" * 5000, bench.process.calls)

    def test_an_abandoned_terminal_says_nothing_more(self) -> None:
        bench = Bench()
        bench.terminal.abandon()
        self.assertTrue(bench.terminal.output(Stream.OUTPUT, b"x"))
        bench.terminal.ended(None, "SIGHUP")
        self.assertEqual(bench.outbox.sent, [])
        self.assertEqual(bench.process.calls, ["start", "hang_up", "discard"])
        self.assertEqual(bench.gone, [None])
        self.assertIn(bench.terminal, bench.outbox.forgotten)

    def test_abandoning_one_that_is_gone_does_nothing(self) -> None:
        bench = Bench()
        bench.terminal.ended(0, None)
        bench.terminal.abandon()
        self.assertEqual(bench.process.calls, ["start"])

    def test_pipes_have_no_size(self) -> None:
        bench = Bench(tty=False)
        error = self.assertRaises(ApiError, bench.terminal.resize, 80, 24)
        self.assertEqual(error.code, Code.INVALID_REQUEST)

    def test_a_tty_is_resized(self) -> None:
        bench = Bench()
        bench.terminal.resize(100, 30)
        self.assertIn((100, 30), bench.process.calls)
