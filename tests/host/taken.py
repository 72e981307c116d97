"""Where tests let streams end."""

from __future__ import annotations

from attrs import Factory, define

from computerd.workspace.port import Source
from tests.host.waiting import until


@define(eq=False)
class Taken:
    """A sink that keeps everything.

    Attributes:
        full_after: Takes no more once it has this many bytes.
        ends: What it was told at the end.
    """

    text: bytearray = Factory(bytearray)
    full_after: float = float("inf")
    ends: list[BaseException | None] = Factory(list)
    source: Source | None = None
    stop_after: float = float("inf")

    def write(self, data: bytes) -> bool:
        assert not self.ends, "data after the end"
        assert 1 <= len(data) <= 65536
        self.text += data
        if len(self.text) >= self.stop_after and self.source is not None:
            self.source.stop()
        return len(self.text) < self.full_after

    def ended(self, error: BaseException | None) -> None:
        self.ends.append(error)

    async def finish(self, limit: float = 20.0) -> BaseException | None:
        await until(lambda: self.ends, f"an end after {len(self.text)} bytes", limit)
        assert len(self.ends) == 1
        return self.ends[0]
