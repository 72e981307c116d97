"""Stand-ins for a terminal's two neighbours, which write down what they were asked."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field
from msgspec import Struct

from computerd.terminal.outbox import Waiting
from computerd.terminal.port import Watcher


@define(eq=False)
class RecordingProcess:
    """A `Process` that does nothing but remember.

    Attributes:
        room: Bytes of input that it still takes.
    """

    calls: list[object] = field(factory=list)
    watcher: Watcher | None = None
    room: int = 1 << 30

    def start(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.calls.append("start")

    def write(self, data: bytes) -> bool:
        if len(data) > self.room:
            return False
        self.room -= len(data)
        self.calls.append(data)
        return True

    def eof(self) -> None:
        self.calls.append("eof")

    def resize(self, columns: int, rows: int) -> None:
        self.calls.append((columns, rows))

    def resume(self) -> None:
        self.calls.append("resume")

    def hang_up(self) -> None:
        self.calls.append("hang_up")

    def discard(self) -> None:
        self.calls.append("discard")


@define(eq=False)
class RecordingOutbox:
    """An `Outbox` that keeps everything in one ordered list.

    Attributes:
        sent: Frames as channel and bytes, notifications as method and params, messages as `message` and text.
        full: What `frame` and `messages` answer is `not full`.
    """

    sent: list[tuple[object, object]] = field(factory=list)
    forgotten: list[Waiting] = field(factory=list)
    full: bool = False

    def frame(self, channel: int, data: bytes, source: Waiting) -> bool:
        self.sent.append((channel, data))
        return not self.full

    def messages(self, texts: Sequence[bytes], source: Waiting, *, all_the_same: bool = False) -> bool:
        if self.full and not all_the_same:
            return False
        self.sent += [("message", text) for text in texts]
        return not self.full

    def forget(self, source: Waiting) -> None:
        self.forgotten.append(source)

    def notify(self, method: str, params: Struct) -> None:
        self.sent.append((method, params))
