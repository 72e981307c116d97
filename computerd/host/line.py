"""The two lines between the daemon and a process: a pseudo-terminal, or three pipes. What one opens is closed whatever happens."""

from __future__ import annotations

import fcntl
import grp
import os
import socket
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorFDSet

from computerd.host.descriptor import Descriptor
from computerd.host.reading import MAX_READ, TTY_CHUNK, Source
from computerd.host.writing import Input, PipeInput, TtyInput
from computerd.terminal.port import Stream

_IUTF8: Final = 0o40000
"""From asm-generic/termbits.h: the kernel erases whole characters, not bytes. Python's termios doesn't name it."""
_AFTER_EXIT_BYTES: Final = 256 * 1024
"""More than the kernel keeps of a pseudo-terminal's output (60,000 bytes were seen): what a process wrote before its exit is within it."""


@define(eq=False)
class Line:
    """The daemon's side of a running process's line.

    Attributes:
        sources: Its streams of output.
        input: Where its input goes.
        tty: Whether it is a pseudo-terminal.
    """

    sources: list[Source]
    input: Input
    tty: bool
    _kept: int = field(default=-1)

    def resize(self, columns: int, rows: int) -> None:
        """Sets the size. The kernel sends SIGWINCH, if it is another. Nothing on pipes."""
        master = self.sources[0].descriptor
        if self.tty and not master.closed:
            set_size(master.number, columns, rows)

    def foreground(self) -> int:
        """The process group in the foreground; 0 when there is none."""
        master = self.sources[0].descriptor
        if not self.tty or master.closed:
            return 0
        try:
            return os.tcgetpgrp(master.number)
        except OSError:
            return 0

    def release(self) -> None:
        """The process has exited: from now on the other side's end counts, and the input is nobody's."""
        self.input.drop()
        if self.tty:
            self.sources[0].enough = _AFTER_EXIT_BYTES
            self._close_kept()
            return
        self.input.descriptor.close()
        for source in self.sources:
            source.enough = 0 if source.descriptor.closed else _unread(source.descriptor.number)

    def close(self) -> None:
        """Closes everything. Whoever still has the other side open is hung up."""
        self.input.drop()
        self.input.descriptor.close()
        for source in self.sources:
            source.finish()
            source.descriptor.close()
        self._close_kept()

    def _close_kept(self) -> None:
        kept, self._kept = self._kept, -1
        if kept >= 0:
            os.close(kept)


def _unread(number: int) -> int:
    (size,) = struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, b"\0" * 4))
    return int(size)


def set_size(number: int, columns: int, rows: int) -> None:
    """TIOCSWINSZ on either side of a pseudo-terminal."""
    fcntl.ioctl(number, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def _closing_on_error() -> Iterator[Callable[[int], int]]:
    opened: list[int] = []

    def note(number: int) -> int:
        opened.append(number)
        return number

    try:
        yield note
    except BaseException:
        for number in opened:
            os.close(number)
        raise


def tty_group() -> int | None:
    """The group `tty`, that owns terminals; None where there is none."""
    try:
        return grp.getgrnam("tty").gr_gid
    except KeyError:
        return None


@define(eq=False)
class Ptys:
    """Opens pseudo-terminals, and keeps a few for when the system has none left (4,096 by default, for everybody together)."""

    _wanted: int
    _spare: list[tuple[int, int]] = field(factory=list, init=False)

    def fill(self) -> None:
        """Opens what is missing of the reserve, as far as possible."""
        while len(self._spare) < self._wanted:
            try:
                self._spare.append(os.openpty())
            except OSError:
                return

    def take(self) -> tuple[int, int]:
        """A fresh pseudo-terminal: master and slave, neither inherited.

        Raises:
            OSError: There is none left, and no spare one.
        """
        try:
            return os.openpty()
        except OSError:
            if not self._spare:
                raise
            return self._spare.pop()

    @property
    def spare(self) -> int:
        """How many are kept."""
        return len(self._spare)

    def close(self) -> None:
        """Gives the reserve back."""
        for pair in self._spare:
            for number in pair:
                os.close(number)
        self._spare.clear()
        self._wanted = 0


def open_tty(
    reactor: IReactorFDSet,
    later: Callable[[float, Callable[[], None]], IDelayedCall],
    terminals: Ptys,
    size: tuple[int, int],
    start: Callable[[int, int], None],
) -> Line:
    """Opens a pseudo-terminal and starts a process on it.

    Args:
        reactor: Where it is read and written.
        later: Calls after so many seconds.
        terminals: Where it comes from.
        size: Columns and rows.
        start: Starts the process with a master and a slave, and closes both if it returns.

    Raises:
        OSError: No pseudo-terminal is left, or what `start` raises. Nothing stays open.
    """
    with _closing_on_error() as note:
        master, slave = map(note, terminals.take())
        os.fchmod(slave, 0o600)  # before it gets another owner: without CAP_FOWNER only the owner can
        attributes = termios.tcgetattr(slave)
        attributes[0] |= _IUTF8
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        set_size(slave, *size)
        _start(start, master, slave)
        descriptor = Descriptor(reactor, master)
        # With a slave of our own, an end before the exit can't be: a program may close its terminal and open it again.
        return Line([Source(Stream.OUTPUT, descriptor, TTY_CHUNK)], TtyInput(descriptor, later), True, slave)


def _start(start: Callable[[int, int], None], master: int, slave: int) -> None:
    # copies: Twisted closes what it is given when it succeeds, and not when it fails
    with _closing_on_error() as note:
        start(note(os.dup(master)), note(os.dup(slave)))


def open_socket(reactor: IReactorFDSet, start: Callable[[int, int, int], None]) -> Line:
    """As `open_pipes`, but with one socket for the descriptors 0 and 1: what is written there is read on the line's first source, and the reverse."""
    with _closing_on_error() as note:
        theirs: list[int] = []
        try:
            ours = []
            for pair in (_socketpair(), os.pipe2(os.O_CLOEXEC)):
                ours.append(note(pair[0]))
                theirs.append(pair[1])
            start(theirs[0], *theirs)
        finally:
            for number in theirs:
                os.close(number)
        both, stderr = (Descriptor(reactor, number) for number in ours)
        sources = [Source(Stream.OUTPUT, both, MAX_READ), Source(Stream.ERROR, stderr, MAX_READ)]
        return Line(sources, PipeInput(both), False)


def _socketpair() -> tuple[int, int]:
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def open_pipes(reactor: IReactorFDSet, start: Callable[[int, int, int], None]) -> Line:
    """Opens three pipes and starts a process on them.

    Args:
        reactor: Where they are read and written.
        start: Starts the process with what is to be its descriptors 0, 1 and 2, and closes none.

    Raises:
        OSError: No descriptor is left, or what `start` raises. Nothing stays open.
    """
    with _closing_on_error() as note:
        theirs: list[int] = []
        try:
            ours: list[int] = []
            for writing in (True, False, False):
                reader, writer = os.pipe2(os.O_CLOEXEC)
                ours.append(note(writer if writing else reader))
                theirs.append(reader if writing else writer)
            start(*theirs)
        finally:
            for number in theirs:
                os.close(number)
        stdin, stdout, stderr = (Descriptor(reactor, number) for number in ours)
        sources = [Source(Stream.OUTPUT, stdout, MAX_READ), Source(Stream.ERROR, stderr, MAX_READ)]
        return Line(sources, PipeInput(stdin), False)
