"""A process without an operating system, for tests of whatever uses the port. It passes the same interface tests as the real one."""

from __future__ import annotations

from collections.abc import Callable

from attrs import Factory, define, field
from twisted.internet.defer import Deferred, fail, succeed

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.terminal.port import Process, Start, Stream, Watcher

_CHUNK = limits.MAX_FRAME_BYTES - limits.CHANNEL_BYTES


@define(eq=False)
class FakeProcess:
    """A process that a test plays: `say` is its output, `exit` its end; what it was told is in the attributes.

    Attributes:
        start_data: What it was started with.
        input: Everything written that was taken, while the program reads.
        stuck: The program reads nothing: input waits in `queued`.
        on_hang_up: What the program does about SIGHUP: by default it dies of it.
    """

    start_data: Start
    input: bytearray = Factory(bytearray)
    queued: bytearray = Factory(bytearray)
    stuck: bool = False
    input_ended: bool = False
    sizes: list[tuple[int, int]] = Factory(list)
    hung_up: bool = False
    discarding: bool = False
    ended: bool = False
    on_hang_up: Callable[[FakeProcess], None] | None = field(default=lambda process: process.exit(signal="SIGHUP"))
    _watcher: Watcher | None = None
    _paused: bool = False
    _waiting: list[tuple[Stream, bytes]] = Factory(list)
    _end: tuple[int | None, str | None] | None = None

    # What the port promises.

    def start(self, watcher: Watcher) -> None:
        """See `Process`."""
        assert self._watcher is None, "start is called once"
        self._watcher = watcher
        self._deliver()

    def write(self, data: bytes) -> bool:
        """See `Process`."""
        if self._end is not None or self.input_ended:
            return True
        if not self.stuck:
            self.input += data
            return True
        if len(self.queued) + len(data) > limits.INPUT_QUEUE_BYTES:
            return False
        self.queued += data
        return True

    def eof(self) -> None:
        """See `Process`."""
        if self._end is None:
            self.input_ended = True

    def resize(self, columns: int, rows: int) -> None:
        """See `Process`."""
        if self._end is None:
            self.sizes.append((columns, rows))

    def resume(self) -> None:
        """See `Process`."""
        self._paused = False
        self._deliver()

    def hang_up(self) -> None:
        """See `Process`."""
        if self.hung_up or self._end is not None:
            return
        self.hung_up = True
        if self.on_hang_up is not None:
            self.on_hang_up(self)

    def discard(self) -> None:
        """See `Process`."""
        self.discarding = True
        self._paused = False
        self._deliver()

    # What a test does with it.

    @property
    def paused(self) -> bool:
        """Whether the watcher has asked for no more."""
        return self._paused

    def say(self, data: bytes, stream: Stream = Stream.OUTPUT) -> None:
        """The program prints."""
        assert self._end is None, "a program that has exited prints nothing"
        for at in range(0, len(data), _CHUNK):
            self._waiting.append((stream, data[at : at + _CHUNK]))
        self._deliver()

    def read(self) -> None:
        """The program reads all that waits, and goes on reading."""
        self.stuck = False
        self.input += self.queued
        self.queued.clear()

    def exit(self, exit_code: int | None = None, signal: str | None = None) -> None:
        """The program exits: with 0, unless told otherwise."""
        if self._end is None:
            self._end = (0 if exit_code is None and signal is None else exit_code, signal)
            self._deliver()

    def _deliver(self) -> None:
        if self._watcher is None:
            return
        while self._waiting and not self._paused:
            stream, data = self._waiting.pop(0)
            if not self.discarding:
                self._paused = not self._watcher.output(stream, data) and not self.discarding
        if self._end is not None and not self._waiting and not self.ended:
            self.ended = True
            self._watcher.ended(*self._end)


@define(eq=False)
class FakeSpawner:
    """Starts `FakeProcess`es, and keeps them.

    Attributes:
        spawned: Every process, oldest first.
        error: What the next spawn fails with, if anything.
        slow: Spawns wait until a test calls `release`.
        sessions_ended: Of which sessions the end was asked for.
        ending: A list: then the ends wait in it until a test fires them; None: each is over at once.
    """

    spawned: list[FakeProcess] = Factory(list)
    error: ApiError | None = None
    slow: bool = False
    sessions_ended: list[str] = Factory(list)
    ending: list[Deferred[None]] | None = None
    _held: list[tuple[Deferred[Process], FakeProcess]] = Factory(list)

    def spawn(self, start: Start) -> Deferred[Process]:
        """See `Spawner`."""
        if self.error is not None:
            return fail(self.error)
        process = FakeProcess(start)
        if not self.slow:
            self.spawned.append(process)
            return succeed(process)
        held: Deferred[Process] = Deferred()
        self._held.append((held, process))
        return held

    def release(self) -> None:
        """Lets the oldest spawn that waits succeed, or fail with `error`."""
        held, process = self._held.pop(0)
        if self.error is not None:
            held.errback(self.error)
        else:
            self.spawned.append(process)
            held.callback(process)

    def end_session(self, session_id: str) -> Deferred[None]:
        """See `Spawner`: what runs is hung up, and its program decides what that comes to; what is starting fails."""
        self.sessions_ended.append(session_id)
        for process in self.spawned:
            if process.start_data.session_id == session_id:
                process.hang_up()
        for held, process in list(self._held):
            if process.start_data.session_id == session_id:
                self._held.remove((held, process))
                held.errback(ApiError(Code.COMPUTER_UNAVAILABLE, "The session is being suspended."))
        if self.ending is None:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self.ending.append(done)
        return done
