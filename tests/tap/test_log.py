"""One line a record, whatever it says."""

from __future__ import annotations

import io
import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import LogEvent, LogLevel
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from computerd.tap.log import MAX_LINE, LineObserver, as_journal, as_json, as_text
from computerd.tap.repeats import MAX_KINDS, PER_SECOND, Repeats


def event(text: str, **more: object) -> LogEvent:
    """A record that says `text`."""
    return {
        "log_level": LogLevel.info,
        "log_namespace": "a.b",
        "log_time": 0.0,
        "log_format": "{text}",
        "text": text,
        **more,
    }


def failure(text: str) -> Failure:
    """An exception that says `text`."""
    try:
        raise ValueError(text)
    except ValueError:
        return Failure()


class LogTests(SynchronousTestCase):
    """The three formats."""

    def test_for_people(self) -> None:
        self.assertEqual(as_text(event("hello")), "1970-01-01T00:00:00Z info [a.b] hello\n")

    def test_for_the_journal(self) -> None:
        self.assertEqual(as_journal(event("hello", log_level=LogLevel.error)), "<3>[a.b] hello\n")

    def test_as_json(self) -> None:
        self.assertEqual(
            json.loads(as_json(event("hello"))),
            {"time": "1970-01-01T00:00:00.000+00:00", "level": "info", "logger": "a.b", "message": "hello"},
        )

    @given(st.text())
    def test_one_line_whatever_it_says(self, text: str) -> None:
        """G2."""
        for format_ in (as_text, as_journal, as_json):
            line = format_(event(text))
            self.assertEqual(len(line.splitlines()), 1)
            self.assertFalse([c for c in line[:-1] if ord(c) < 32 or 127 <= ord(c) < 160])

    def test_a_long_message_is_cut(self) -> None:
        self.assertLess(len(as_text(event("x" * 1_000_000))), MAX_LINE + 200)

    def test_no_line_of_a_traceback_passes_for_a_record(self) -> None:
        text = as_text(event("broken", log_failure=failure("evil\n1970-01-01T00:00:00Z info [a.b] forged")))
        first, *rest = text.splitlines()
        self.assertTrue(first.endswith("broken"))
        self.assertTrue(rest)
        self.assertTrue(all(line.startswith("    ") for line in rest))
        journal = as_journal(event("broken", log_failure=failure("x"))).splitlines()
        self.assertTrue(all(line.startswith("<6>") for line in journal))
        self.assertIn("ValueError", json.loads(as_json(event("broken", log_failure=failure("x"))))["traceback"])

    def test_debug_records_are_left_out(self) -> None:
        """Autobahn's hold whole handshakes, tokens among them."""
        stream = io.StringIO()
        observer = LineObserver(stream, as_text)
        observer(event("secret", log_level=LogLevel.debug))
        observer(event("said"))
        self.assertEqual(stream.getvalue().count("\n"), 1)

    def test_a_stream_that_is_gone_is_no_error(self) -> None:
        stream = io.StringIO()
        stream.close()
        LineObserver(stream, as_text)(event("x"))


class FloodTests(SynchronousTestCase):
    """Floods of records, and what is left of them in the log."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.stream = io.StringIO()
        self.log = Repeats(LineObserver(self.stream, as_text), self.clock.seconds, self.clock.callLater)

    def lines(self) -> list[str]:
        """What was written since the last time, without the time."""
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return [line.partition(" ")[2] for line in text.splitlines()]

    def test_a_hundred_thousand_errors_in_a_second(self) -> None:
        """G5."""
        for number in range(100_000):
            self.log(event(f"number {number}", log_level=LogLevel.error, log_format="request {text} failed"))
        self.assertEqual(self.lines(), [f"error [a.b] request number {n} failed" for n in range(PER_SECOND)])
        self.clock.advance(1)
        self.assertEqual(self.lines(), ["error [a.b] and 99980 more like it in a second: request {text} failed"])
        self.clock.advance(10)
        self.assertEqual((self.lines(), self.clock.getDelayedCalls()), ([], []))

    def test_a_flood_that_lasts(self) -> None:
        """G5: of each second as much, and every record is accounted for."""
        lines = []
        for _ in range(100):
            for _ in range(1000):
                self.log(event("x"))
            self.clock.advance(0.1)
            lines += self.lines()
        self.clock.advance(2)
        lines += self.lines()
        told = [int(line.split()[3]) for line in lines if " more like it" in line]
        self.assertEqual(len(lines) - len(told) + sum(told), 100_000)
        self.assertLessEqual(len(lines), 12 * (PER_SECOND + 1))

    def test_others_are_not_held_back_with_it(self) -> None:
        """G5: other words, another place, another exception."""
        for _ in range(1000):
            self.log(event("x", log_failure=failure("x"), log_format="failed"))
        self.lines()
        self.log(event("y", log_format="another"))
        self.log(event("y", log_failure=failure("x"), log_format="failed", log_namespace="c.d"))
        try:
            raise KeyError("k")
        except KeyError:
            self.log(event("y", log_failure=Failure(), log_format="failed"))
        self.assertEqual(
            [line for line in self.lines() if not line.startswith(" ")],
            ["info [a.b] another", "info [c.d] failed", "info [a.b] failed"],
        )
        self.clock.advance(1)
        self.assertEqual(self.lines(), ["info [a.b] and 980 more like it in a second: failed ValueError"])

    def test_the_count_comes_before_the_next_of_its_kind(self) -> None:
        for _ in range(PER_SECOND + 1):
            self.log(event("x"))
        self.clock.rightNow += 1.5
        self.log(event("x"))
        self.assertEqual(
            self.lines()[PER_SECOND:], ["info [a.b] and 1 more like it in a second: {text}", "info [a.b] x"]
        )

    def test_few_are_all_written(self) -> None:
        for _ in range(10 * PER_SECOND):
            self.log(event("x"))
            self.clock.advance(1 / PER_SECOND)
        self.assertEqual(len(self.lines()), 10 * PER_SECOND)

    def test_kinds_without_end(self) -> None:
        """G5: even if somebody found a way to make them."""
        for number in range(10 * MAX_KINDS):
            self.log(event("x", log_format=f"format {number}"))
        self.assertLessEqual(len(self.log._kinds), MAX_KINDS + 1)
        self.assertLessEqual(len(self.lines()), MAX_KINDS + PER_SECOND)
        self.clock.advance(1)
        self.assertEqual(
            self.lines(), [f"info [a.b] and {9 * MAX_KINDS - PER_SECOND} more like it in a second: other records"]
        )
        self.assertEqual(len(self.log._kinds), 0)

    def test_what_was_not_said_is_said_at_the_end(self) -> None:
        for _ in range(PER_SECOND + 5):
            self.log(event("x"))
        self.log.tell()
        self.assertEqual(self.lines()[PER_SECOND:], ["info [a.b] and 5 more like it in a second: {text}"])

    def test_debug_records_are_not_counted(self) -> None:
        for _ in range(1000):
            self.log(event("x", log_level=LogLevel.debug))
        self.clock.advance(1)
        self.assertEqual(self.lines(), [])
