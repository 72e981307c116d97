"""Output on its way from the kernel: how much is read at once, and when there is no more."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from typing import Final

from attrs import define, field

from computerd.contract import limits
from computerd.host.descriptor import Descriptor
from computerd.terminal.port import Stream

MAX_READ: Final = limits.MAX_FRAME_BYTES - limits.CHANNEL_BYTES
"""Bytes given to a watcher at once: what fits into a frame."""
_FULL: Final = 4095
"""What a pseudo-terminal gives at most in one read (N_TTY_BUF_SIZE less one). Less has emptied the kernel's buffer: asking again would cost a system
call per key, and beside a flood it would chase the writer while the others wait (an echo then takes 1.5 times as long)."""
_BUDGET_SECONDS: Final = 0.00025
"""That one terminal reads before the others have their turn. Without it an echo beside a flood waits 14 times longer."""
TTY_CHUNK: Final = 4096
"""Bytes asked of a pseudo-terminal, which never gives more than 4,095 (N_TTY_BUF_SIZE)."""


class Kernel(Enum):
    """What is known of the kernel's buffer after a read."""

    MORE = "there may be more"
    EMPTY = "nothing now"
    END = "nothing ever"


def gather(number: int, chunk: int, clock: Callable[[], float], *, thorough: bool = False) -> tuple[bytes, Kernel]:
    """Reads what is there, never waiting: until nothing is left, `MAX_READ` bytes, a short read, or a quarter of a millisecond.

    Args:
        number: A non-blocking descriptor.
        chunk: Bytes asked for in one read.
        clock: Seconds.
        thorough: A short read is no reason to stop: at the end "nothing now" must be known, not guessed.
    """
    pieces: list[bytes] = []
    size, until = 0, None
    while size < MAX_READ:
        try:
            data = os.read(number, min(chunk, MAX_READ - size))
        except BlockingIOError:
            return b"".join(pieces), Kernel.EMPTY
        except InterruptedError:
            continue
        except OSError:  # EIO: no process has the terminal open any more
            return b"".join(pieces), Kernel.END
        if not data:
            return b"".join(pieces), Kernel.END
        if len(data) < _FULL and not thorough:
            pieces.append(data)
            break
        pieces.append(data)
        size += len(data)
        now = clock()
        until = now + _BUDGET_SECONDS if until is None else until
        if now >= until:
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), Kernel.MORE


@define(eq=False)
class Source:
    """One stream of output.

    Attributes:
        stream: Which.
        descriptor: Where it is read.
        chunk: Bytes asked for in one read.
        enough: Bytes read after the process's exit that hold all that it wrote before; what comes later is others'.
        done: All of it was read.
    """

    stream: Stream
    descriptor: Descriptor
    chunk: int
    enough: int = field(default=0, init=False)
    done: bool = field(default=False, init=False)

    def read(self, clock: Callable[[], float]) -> tuple[bytes, Kernel]:
        """As `gather`, while the process runs."""
        return gather(self.descriptor.number, self.chunk, clock)

    def read_rest(self, clock: Callable[[], float], *, last: bool) -> bytes:
        """As `gather`, after the process's exit. Sets `done` at the end, and if `last`, also when nothing of the process can be left."""
        data, kernel = gather(self.descriptor.number, self.chunk, clock, thorough=last)
        self.enough -= len(data)
        if kernel is Kernel.END or (last and (kernel is Kernel.EMPTY or self.enough <= 0)):
            self.finish()
        return data

    def finish(self) -> None:
        """Reads no more of it."""
        self.done = True
        self.descriptor.read_no_more()
