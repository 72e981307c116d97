"""Standard input, output and error of this process, whatever they are: terminals, pipes, sockets, files, or closed.

Their descriptors are shared with other processes, so O_NONBLOCK is never set on them: it would stay, and break the shell that
comes back after us. An output is opened anew through /proc instead, which gives a description of our own; where that is not
allowed, so little is written at a time that it does not block.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
from typing import Final

READ_BYTES: Final = 64 * 1024 - 4
"""Taken from standard input at a time: with the channel number, the frame is 64 KiB."""
_CAREFUL_BYTES: Final = select.PIPE_BUF
"""A pipe that poll(2) calls writable takes at least this without blocking (pipe(7))."""


def sanitise() -> None:
    """Opens /dev/null in place of a standard descriptor that is closed, before anything else gets its number."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
            os.set_inheritable(fd, True)


class Source:
    """Standard input.

    Attributes:
        open: Whether there may be more.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.open = True

    def fileno(self) -> int:
        """For poll(2), which, unlike epoll(7), also takes files: they are always readable."""
        return self._fd

    def read(self, most: int) -> bytes:
        """Up to `most` bytes; none at the end, which a terminal that hung up has reached too. Call it when poll says so."""
        try:
            data = os.read(self._fd, min(most, READ_BYTES))
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self.open = False
        return data


class Sink:
    """Standard output or error. What it does not take at once is kept; the caller stops bringing more.

    Raises:
        BrokenPipeError: From `write` and `flush`: nobody reads it any more.
    """

    def __init__(self, fd: int) -> None:
        self._given = fd
        self._waiting = bytearray()
        self._socket: socket.socket | None = None
        self._own: int | None = None
        self._blocks = False
        mode = os.fstat(fd).st_mode
        if stat.S_ISSOCK(mode):
            self._socket = socket.socket(fileno=os.dup(fd))
        elif stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            self._own = _reopened(fd)
            self._blocks = self._own is None

    def fileno(self) -> int:
        """For poll(2)."""
        return self._given if self._own is None else self._own

    @property
    def waiting(self) -> int:
        """Bytes that were not taken yet."""
        return len(self._waiting)

    def write(self, data: bytes) -> None:
        """Writes `data` after what waits."""
        self._waiting += data
        if len(self._waiting) == len(data):
            self.flush()

    def flush(self) -> None:
        """Writes what is taken now."""
        while self._waiting:
            if self._blocks and not _writable(self._given):
                return
            try:
                count = self._some()
            except BlockingIOError:
                return
            except OSError as error:
                raise _gone(error) from None
            del self._waiting[:count]

    def _some(self) -> int:
        if self._socket is not None:
            return self._socket.send(self._waiting, socket.MSG_DONTWAIT)
        if self._blocks:
            return os.write(self._given, self._waiting[:_CAREFUL_BYTES])
        return os.write(self.fileno(), self._waiting)

    def close(self) -> None:
        """Lets go of what was opened here; what waits is lost."""
        if self._own is not None:
            os.close(self._own)
            self._own = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _reopened(fd: int) -> int | None:
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _writable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))


def _gone(error: OSError) -> OSError:
    """A terminal that hung up (EIO) is as good as a pipe without a reader."""
    return BrokenPipeError(errno.EPIPE, "nobody reads it") if error.errno in (errno.EPIPE, errno.EIO) else error
