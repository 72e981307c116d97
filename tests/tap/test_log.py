"""One line a record, whatever it says."""

from __future__ import annotations

import io
import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import LogEvent, LogLevel
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from computerd.tap.log import MAX_LINE, LineObserver, as_journal, as_json, as_text


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
