"""How the log looks: one line a record, for people, for the systemd journal, or as JSON. Control characters never get through.

A traceback follows its line, indented, so that no line of it can pass for a record; in JSON it is a field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

from attrs import frozen
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent
from zope.interface import implementer

MAX_LINE: Final = 4096
"""Characters of a message. What is longer came from outside and is cut."""

# C0, DEL, C1, the two Unicode line ends, and what turns the direction of text around
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_PRIORITY: Final = {
    LogLevel.debug: 7,
    LogLevel.info: 6,
    LogLevel.warn: 4,
    LogLevel.error: 3,
    LogLevel.critical: 2,
}
"""Of syslog(3), as the journal reads it from `<N>` before a line."""


def escape(text: str) -> str:
    """`text` without control characters, and no longer than `MAX_LINE`."""
    if len(text) > MAX_LINE:
        text = text[:MAX_LINE] + "…"
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def as_text(event: LogEvent) -> str:
    """A line with its time, for people."""
    moment = datetime.fromtimestamp(event.get("log_time", 0), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{moment} {_level(event)} [{_namespace(event)}] {_message(event)}{_indented(event)}\n"


def as_journal(event: LogEvent) -> str:
    """A line with its priority; the journal adds the time."""
    priority = f"<{_PRIORITY.get(event.get('log_level', LogLevel.info), 6)}>"
    text = f"[{_namespace(event)}] {_message(event)}{_indented(event)}"
    return "".join(f"{priority}{line}\n" for line in text.split("\n"))


def as_json(event: LogEvent) -> str:
    """One JSON object."""
    record: dict[str, object] = {
        "time": datetime.fromtimestamp(event.get("log_time", 0), UTC).isoformat(timespec="milliseconds"),
        "level": _level(event),
        "logger": _namespace(event),
        "message": _message(event),
    }
    traceback = _traceback(event)
    if traceback:
        record["traceback"] = traceback
    return json.dumps(record) + "\n"


FORMATS: Final[Mapping[str, Callable[[LogEvent], str]]] = {"text": as_text, "journal": as_journal, "json": as_json}


@implementer(ILogObserver)
@frozen
class LineObserver:
    """Writes records to a stream."""

    stream: TextIO
    format: Callable[[LogEvent], str]

    def __call__(self, event: LogEvent) -> None:
        """Writes one record. A stream that is gone is no error.

        One whose reader has stopped holds the daemon up, as it does every program that logs to a pipe.
        """
        if event.get("log_level") is LogLevel.debug:
            return
        try:
            self.stream.write(self.format(event))
            self.stream.flush()
        except (OSError, ValueError):
            return


def _level(event: LogEvent) -> str:
    level = event.get("log_level", LogLevel.info)
    name: str = level.name
    return name


def _namespace(event: LogEvent) -> str:
    return escape(str(event.get("log_namespace", "-")))


def _message(event: LogEvent) -> str:
    return escape(formatEvent(event))


def _traceback(event: LogEvent) -> str:
    failure = event.get("log_failure")
    return "" if failure is None else str(failure.getTraceback())


def _indented(event: LogEvent) -> str:
    # a traceback is the program's own text, but its last line carries a message that may not be
    lines = _traceback(event).splitlines()
    return "".join(f"\n    {escape(line)}" for line in lines)
