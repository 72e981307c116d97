"""Keeps a flood of records from the log: so many of a kind in a second, and then how many more there were (requirement G5).

A kind is what the program's text calls one: the same words, from the same place, about the same class of exception. What was filled into the words
makes no other kind, so nobody outside can make many. A record that is held back costs a look into a table; its text is never made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, field
from twisted.logger import ILogObserver, LogEvent, LogLevel
from zope.interface import implementer

PER_SECOND: Final = 20
"""Of a kind. Enough to see what goes on, and at 4 KiB a line no disk suffers from it."""
MAX_KINDS: Final = 1000
"""The program has about a hundred. More, as from text that a library took for a format, share one."""
_OTHERS: Final = ("-", "other records", "")

_Kind = tuple[str, str, str]


@define
class _Second:
    """A second of one kind.

    Attributes:
        ends: In seconds of the monotonic clock.
        passed: Records that were let through.
        held: Those that were not.
        last: The last of these.
    """

    ends: float
    passed: int = 0
    held: int = 0
    last: LogEvent = field(factory=dict)


@implementer(ILogObserver)
@define(eq=False)
class Repeats:
    """Passes records on to an observer, in bounds.

    Attributes:
        observer: Who writes them.
        seconds: A monotonic clock.
        later: Calls a function after so many seconds. May be called in any thread.
    """

    observer: ILogObserver
    seconds: Callable[[], float]
    later: Callable[[float, Callable[[], None]], object]
    _kinds: dict[_Kind, _Second] = field(factory=dict, init=False)
    _alarm: bool = field(default=False, init=False)

    def __call__(self, event: LogEvent) -> None:
        """Writes a record, or counts it."""
        if event.get("log_level") is LogLevel.debug:
            return
        second = self._second(_kind(event))
        if second.passed < PER_SECOND:
            second.passed += 1
            self.observer(event)
            return
        second.held += 1
        second.last = event
        self._set_alarm()

    def tell(self) -> None:
        """Says of each kind how many were held back, as far as it was not said yet."""
        for kind, second in self._kinds.items():
            self._tell(kind, second)

    def _ring(self) -> None:
        self._alarm = False
        self._forget()
        if any(second.held for second in self._kinds.values()):
            self._set_alarm()

    def _set_alarm(self) -> None:
        if not self._alarm:
            self._alarm = True
            self.later(1.0, self._ring)

    def _second(self, kind: _Kind) -> _Second:
        now = self.seconds()
        second = self._kinds.get(kind)
        if second is None and len(self._kinds) >= MAX_KINDS:
            self._set_alarm()
            kind = _OTHERS
            second = self._kinds.get(kind)
        if second is None or second.ends <= now:
            if second is not None:
                self._tell(kind, second)
            second = self._kinds[kind] = _Second(now + 1.0)
        return second

    def _forget(self) -> None:
        """Is done with each second that is over."""
        now = self.seconds()
        for kind, second in [item for item in self._kinds.items() if item[1].ends <= now]:
            self._tell(kind, second)
            del self._kinds[kind]

    def _tell(self, kind: _Kind, second: _Second) -> None:
        held, second.held = second.held, 0
        if held:
            last = second.last
            self.observer(
                {
                    "log_level": last.get("log_level", LogLevel.info),
                    "log_namespace": last.get("log_namespace", "-"),
                    "log_time": last.get("log_time", 0.0),
                    "log_format": "and {held} more like it in a second: {words}",
                    "held": held,
                    "words": " ".join(filter(None, kind[1:])),
                }
            )


def _kind(event: LogEvent) -> _Kind:
    failure = event.get("log_failure")
    what = "" if failure is None else getattr(failure.type, "__name__", "")
    return str(event.get("log_namespace", "-")), str(event.get("log_format", "")), what
