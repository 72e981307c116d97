"""Waiting for content, with a limit."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import cast

from attrs import Factory, define
from twisted.internet import reactor as _reactor
from twisted.internet.task import deferLater

from computerd.host.spawner import Reactor
from computerd.terminal.port import Process, Stream

reactor = cast("Reactor", _reactor)


async def until(true: Callable[[], object], what: str = "", limit: float = 10.0) -> None:
    """Waits until `true()`, for `limit` seconds at most."""
    end = monotonic() + limit
    while not true():
        if monotonic() > end:
            raise AssertionError(f"not within {limit} s: {what or true}")
        await deferLater(reactor, 0.005)


@define(eq=False)
class Recorder:
    """A watcher that keeps everything.

    Attributes:
        end: Exit code and signal, after the end.
        full_after: Takes no more once it has this many bytes, until a test raises it and resumes.
    """

    text: bytearray = Factory(bytearray)
    errors: bytearray = Factory(bytearray)
    pieces: list[bytes] = Factory(list)
    end: tuple[int | None, str | None] | None = None
    ends: int = 0
    ended_at: float = 0.0
    full_after: float = float("inf")
    process: Process | None = None

    def output(self, stream: Stream, data: bytes) -> bool:
        assert self.end is None, "output after the end"
        assert 1 <= len(data) <= 65532, len(data)
        (self.text if stream is Stream.OUTPUT else self.errors).extend(data)
        self.pieces.append(data)
        return len(self.text) < self.full_after

    def ended(self, exit_code: int | None, signal: str | None) -> None:
        self.ends += 1
        self.end = (exit_code, signal)
        self.ended_at = monotonic()

    async def see(self, text: bytes, limit: float = 10.0) -> None:
        """Waits for `text` in the output."""
        await until(lambda: text in self.text, f"{text!r} in {bytes(self.text[-2000:])!r}", limit)

    async def finish(self, limit: float = 10.0) -> tuple[int | None, str | None]:
        """Waits for the end."""
        await until(lambda: self.end is not None, f"an end; so far {bytes(self.text[-2000:])!r}", limit)
        assert self.end is not None
        return self.end
