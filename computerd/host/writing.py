"""Input on its way to the kernel: at once when there is room, in a bounded queue otherwise, and its end.

The kernel echoes what is typed into the terminal's output, and what its buffers for that can't hold it drops without a word. So on a terminal
that echoes, a paste goes in small pieces, each after the echo of the one before was read.
"""

from __future__ import annotations

import os
import termios
from collections.abc import Callable
from typing import Final

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall

from computerd.contract import limits
from computerd.host.descriptor import Descriptor

OWNER_BYTES: Final = 16 * limits.MIB
"""Input that waits, of all of an owner's programs together: a hundred of them at their own limit would be 200 MiB."""
_PIECE_BYTES: Final = 64 * 1024
"""Written with one call. The queue is one array, because a key takes a byte there, and 200 as an object of its own."""
_TURN_BYTES: Final = 128 * 1024
"""Written before the other terminals have their turn."""
_ECHO_BYTES: Final = 2048
"""Echo that may be on its way. The kernel's own buffer for it has 4,096 bytes (N_TTY_BUF_SIZE), a pseudo-terminal's output 8,192 at least."""
_ECHO_SECONDS: Final = 0.25
"""After so long no more echo of a piece is waited for: an erased character has none, and input must not hang on output that nobody reads."""
_SINGLE: Final = bytes({9, *range(32, 127), *range(128, 256)})
"""What is echoed as it is. Others become two: `^C` and the like, and a line's end."""
_DISABLED: Final = 0
"""_POSIX_VDISABLE: the value of a special character that is switched off."""


@define(eq=False)
class Room:
    """What all programs of a session's owner together may leave unread.

    Attributes:
        left: Bytes.
    """

    left: int = OWNER_BYTES


@define(eq=False)
class Input:
    """What a process reads. A program that reads nothing holds nobody up: its input waits, then is refused.

    Attributes:
        descriptor: Where it is written.
        over: Nothing more is taken: what is written is dropped.
        room: What it shares with the other programs of its owner.
    """

    descriptor: Descriptor
    over: bool = field(default=False, init=False)
    room: Room = field(factory=Room, kw_only=True)
    _queue: bytearray = field(factory=bytearray, init=False)
    _waiting: int = field(default=0, init=False)
    _ending: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.descriptor.writable = self._writable

    def write(self, data: bytes) -> bool:
        """Sends or queues `data`. False: there is no room, and nothing of it was taken."""
        if self.over or not data:
            return True
        if self._waiting + len(data) > limits.INPUT_QUEUE_BYTES or len(data) > self.room.left:
            return False
        sent = 0 if self._queue else self._send(data)
        if sent < len(data) and not self.over:
            self._put(memoryview(data)[sent:])
        self._wrote(data)
        return True

    def end(self) -> None:
        """Ends the input, after what waits."""
        if not self.over:
            self.over = self._ending = True
            self._flushed()

    def drop(self) -> None:
        """Forgets what waits: nobody is going to read it."""
        self.over, self._ending = True, False
        self._queue.clear()
        self._count(-self._waiting)
        self.descriptor.write_no_more()

    def answered(self, size: int) -> None:
        """So many bytes of output were read."""

    def _put(self, data: memoryview) -> None:
        self._queue += data
        self._count(len(data))
        self._ask()

    def _ask(self) -> None:
        self.descriptor.write_on()

    def _count(self, size: int) -> None:
        self._waiting += size
        self.room.left -= size

    def _send(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self.descriptor.number, data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:  # EPIPE, EIO: whoever read it has closed it, and may live on
            self._lost()
            return len(data)

    def _writable(self) -> None:
        left = _TURN_BYTES
        while self._queue and left > 0:
            piece = bytes(memoryview(self._queue)[:_PIECE_BYTES])
            sent = self._send(piece)
            if not self._queue:  # lost
                return
            left -= sent
            self._count(-sent)
            del self._queue[:sent]
            if sent < len(piece):
                return
        self._flushed()

    def _flushed(self) -> None:
        if self._queue:
            self._ask()
            return
        self.descriptor.write_no_more()
        if self._ending:
            self._ending = False
            self._finish()

    def _wrote(self, data: bytes) -> None:
        """Input was taken."""

    def _lost(self) -> None:
        """Nobody reads any more."""
        self.drop()

    def _finish(self) -> None:
        """All is written, and the input is to end now."""


@define(eq=False)
class PipeInput(Input):
    """Standard input on a pipe."""

    def _lost(self) -> None:
        self.drop()
        self.descriptor.close()

    def _finish(self) -> None:
        self.descriptor.close()


@define(eq=False)
class TtyInput(Input):
    """The keyboard of a pseudo-terminal, which can't be closed: its end is a character that the line discipline makes one of."""

    _later: Callable[[float, Callable[[], None]], IDelayedCall]
    _last: int | None = field(default=None, init=False)
    _owed: int = field(default=0, init=False)
    _patience: IDelayedCall | None = field(default=None, init=False)

    def answered(self, size: int) -> None:
        """See `Input`. All of it is taken for echo: a program's own output makes room for echo as well."""
        self._owed = self._owed - size if self._owed > size else 0
        if self._patience is not None and self._owed <= _ECHO_BYTES // 2:
            self._patience.cancel()
            self._go_on()

    def drop(self) -> None:
        """See `Input`."""
        Input.drop(self)
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _send(self, data: bytes | memoryview) -> int:
        if self._owed + len(data) <= _ECHO_BYTES:  # a key: nothing is asked
            sent = Input._send(self, data)
            self._owed += sent
            return sent
        if not self._echoes():
            self._owed = 0
            return Input._send(self, data)
        piece = bytes(data[: max(0, _ECHO_BYTES - self._owed)])
        sent = Input._send(self, piece) if piece else 0
        self._owed += sent + len(piece[:sent].translate(None, _SINGLE))
        if self._owed >= _ECHO_BYTES and self._patience is None and (self._queue or not self.over):
            self._patience = self._later(_ECHO_SECONDS, self._give_up)
        return sent

    def _echoes(self) -> bool:
        try:
            return bool(termios.tcgetattr(self.descriptor.number)[3] & termios.ECHO)
        except termios.error:
            return False

    def _writable(self) -> None:
        if self._patience is None:
            Input._writable(self)
        if self._patience is not None:
            self.descriptor.write_no_more()

    def _ask(self) -> None:
        if self._patience is None:
            self.descriptor.write_on()

    def _give_up(self) -> None:
        self._owed = 0
        self._go_on()

    def _go_on(self) -> None:
        self._patience = None
        if self._queue:
            self._ask()

    def _wrote(self, data: bytes) -> None:
        self._last = data[-1]

    def _finish(self) -> None:
        try:
            attributes = termios.tcgetattr(self.descriptor.number)
        except termios.error:
            return
        data = end_of_file(attributes, self._last)
        sent = self._send(data) if data else 0
        if sent < len(data):
            self._put(memoryview(data)[sent:])


def end_of_file(attributes: list[object], last: int | None) -> bytes:
    """What makes a program read an end of file.

    VEOF at the beginning of a line is one; in the midst of a line it only hands over what there is of it, so a second is needed
    (POSIX, XBD 11.1.9). Where lines are not edited by the kernel, a shell's editor takes the character itself.

    Args:
        attributes: Of tcgetattr(3).
        last: The last byte of input, if there was any.
    """
    input_flags, local, characters = attributes[0], attributes[3], attributes[6]
    assert isinstance(input_flags, int) and isinstance(local, int) and isinstance(characters, list)
    eof = _code(characters[termios.VEOF])
    if eof == _DISABLED:
        return b""
    if not local & termios.ICANON or last is None:
        return bytes([eof])
    ends = [termios.VEOL, termios.VEOL2, termios.VEOF, termios.VKILL]
    if local & termios.ISIG and not local & termios.NOFLSH:
        ends += [termios.VINTR, termios.VQUIT, termios.VSUSP]  # they discard what there is of the line
    finished = {_code(characters[index]) for index in ends} - {_DISABLED}
    finished.add(ord("\n"))
    if input_flags & termios.ICRNL and not input_flags & termios.IGNCR:
        finished.add(ord("\r"))
    return bytes([eof] if last in finished else [eof, eof])


def _code(character: object) -> int:
    return character[0] if isinstance(character, bytes) else int(str(character))
