"""What an event costs in the journal, end to end in one process: asked for, written, told to a listener, answered.

Run by hand: `python -m tests.benchmarks.journal [EVENTS]`. Each line is one number of appends that wait at a time, with one event each. The CPU
time is told apart by thread: the reactor's, which asks and is answered, and the journal's. `gc` says whether Python's collector runs as seldom
as it may for a daemon that makes many objects and few cycles.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Final

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from computerd.contract.objects import Event
from computerd.journal.journal import Journal
from computerd.session.port import Commit, Draft
from tests.session.journal_interface import a_record, beginning, opened

_EVENTS: Final = 50_000
_WAITING: Final = (1, 100, 1000, 5000)
_SMALL: Final = Draft("turn.text", {"text": "x" * 80})
_SELDOM: Final = (20_000, 20, 20)


@define
class _Listener:
    events: int = 0

    def committed(self, commit: Commit) -> None:
        self.events += len(commit.events)

    def renewed(self) -> None:
        raise AssertionError("the journal was damaged")


@define(eq=False)
class _Run:
    """So many appends, so many at a time."""

    journal: Journal
    drafts: Sequence[Draft]
    events: int
    waiting: int
    done: Deferred[None] = field(factory=Deferred)
    _asked: int = 0
    _answered: int = 0

    def begin(self) -> Deferred[None]:
        for _ in range(self.waiting):
            self._ask()
        return self.done

    def _ask(self) -> None:
        if self._asked < self.events:
            self._asked += 1
            self.journal.append(a_record().id, [self.drafts[self._asked % len(self.drafts)]]).addCallback(self._next)

    def _next(self, _: Sequence[Event]) -> None:
        self._answered += 1
        if self._answered == self.events:
            self.done.callback(None)
        else:
            self._ask()


async def measure(reactor: Any, events: int, waiting: int, drafts: Sequence[Draft]) -> str:
    """One line of figures."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(os.path.join(folder, "journal.db"), reactor, time.time, os.urandom)
        listener = _Listener()
        journal.listen(listener)
        await journal.start()
        await journal.create(a_record(), beginning(a_record()))
        run = _Run(journal, drafts, events, waiting)
        wall, process, thread = time.perf_counter(), time.process_time(), time.thread_time()
        await run.begin()
        wall, process, thread = (
            time.perf_counter() - wall,
            time.process_time() - process,
            time.thread_time() - thread,
        )
        await journal.stop()
    assert listener.events == events + 2, listener
    microseconds = [1e6 * seconds / events for seconds in (process, thread, process - thread)]
    return f"{events / wall:9,.0f} | " + " | ".join(f"{value:6.1f}" for value in microseconds)


async def main(reactor: Any) -> None:
    """All of them."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else _EVENTS
    terminals = [opened(number, "echo hello") for number in range(1000)]
    print("| drafts | gc | waiting | events/s | µs CPU an event | reactor | journal |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for kind, drafts in (("small", [_SMALL]), ("terminal.opened", terminals)):
        for how, thresholds in (("usual", gc.get_threshold()), ("seldom", _SELDOM)):
            before = gc.get_threshold()
            gc.set_threshold(*thresholds)
            for waiting in _WAITING:
                figures = await measure(reactor, events if waiting > 1 else events // 10, waiting, drafts)
                print(f"| {kind} | {how} | {waiting} | {figures} |", flush=True)
            gc.set_threshold(*before)


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(main(reactor)))
