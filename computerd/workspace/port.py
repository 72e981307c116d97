"""The port to the files of a workspace, which `host` implements with a process that is the user: what the user can't do, the API can't."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

from attrs import frozen

Kind = Literal["file", "directory", "symlink", "other"]
Coding = Literal["identity", "gzip", "zstd"]
"""How an archive is compressed (RFC 9110, section 8.4.1; RFC 8878)."""


@frozen
class Place:
    """Whose files.

    Attributes:
        session_id: The session whose workspace it is.
        owner: The member id of its owner: decides the Unix user.
    """

    session_id: str
    owner: str


@frozen
class Entry:
    """What a folder holds.

    Attributes:
        path: Relative to the workspace, spelled as the API spells names.
        name: Its last part.
        mode: Permission bits.
        modified: Seconds since the epoch.
        target: Of a symbolic link.
        encoded: Whether the name is spelled with percent signs, because it is not UTF-8.
    """

    path: str
    name: str
    type: Kind
    size: int
    mode: int
    modified: float
    target: str | None
    encoded: bool


@frozen
class Listing:
    """A page of a folder.

    Attributes:
        entries: In the byte order of their paths.
        cursor: For the next page, or None.
    """

    path: str
    entries: Sequence[Entry]
    cursor: str | None


class Sink(Protocol):
    """Where a stream goes. Never raises."""

    def write(self, data: bytes) -> bool:
        """Takes up to 64 KiB. False: give no more until `Source.resume` is called."""

    def ended(self, error: BaseException | None) -> None:
        """All was given; or not, and then why. Called once, last, and never after `Source.stop`."""


class Source(Protocol):
    """A stream of bytes out of the workspace. It holds a file open in the user's process until it has ended or was stopped."""

    def start(self, sink: Sink) -> None:
        """Begins. Called once."""

    def resume(self) -> None:
        """Goes on after `Sink.write` returned False."""

    def stop(self) -> None:
        """Nobody wants the rest, or anything of it. Harmless after the end."""


@frozen
class Opened:
    """A regular file that was opened.

    Attributes:
        size: Bytes, when it was opened.
        modified_ns: Nanoseconds since the epoch.
        changed_ns: As well, but nobody can set it back: of the last change to the content or to anything else about it.
        inode: Its number, which changes when the file is replaced.
        read: Makes the stream of so many bytes (second) from a place (first). To be called once, or `close` instead.
        close: Lets go of it.
    """

    name: str
    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    read: Callable[[int, int], Source]
    close: Callable[[], None]


@frozen
class Packed:
    """An archive that can begin.

    Attributes:
        name: Of the file or folder; `""` for the workspace itself.
        folder: Whether it is one.
        source: The archive.
        unreadable: How many files and folders it lacks, or has only the names of, because the user may not read them. Known once `source` has
            ended without an error.
        coding: How it is compressed: as was asked, or `gzip` where the user's Python knows no zstd. None: as was asked.
    """

    name: str
    folder: bool
    source: Source
    unreadable: Callable[[], int]
    coding: Coding | None = None


@frozen
class Landed:
    """An archive that is in place.

    Attributes:
        path: Where, spelled as the API spells names.
        files: Regular files and links.
        bytes: Of the files.
        replaced: Whether something was there before.
    """

    path: str
    files: int
    bytes: int
    replaced: bool


class Upload(Protocol):
    """An archive on its way into the workspace. Nothing of it is seen before `finish` has fired."""

    def begin(self, room: Callable[[], None], failed: Callable[[], None]) -> None:
        """Before the first piece.

        Args:
            room: Called when there is room again, after `write` returned False.
            failed: Called once when it can't go on, so that the rest need not be sent; `finish` says why.
        """

    def write(self, data: bytes) -> bool:
        """Takes the next piece, whatever its size up to 64 KiB. False: wait for `room`."""

    def finish(self) -> Awaitable[Landed]:
        """That was all. Fires when it is in place.

        Raises:
            ApiError: `invalid_archive`, `too_large`, `path_exists`, `unavailable` (the disk is full), `computer_unavailable`; the workspace is
                as it was then.
        """

    def abort(self) -> None:
        """The rest will not come: the workspace is left as it was. Harmless after `finish`."""


class Files(Protocol):
    """The files of workspaces.

    Every call fails with ApiError: `invalid_path` (what the path names is no place in the workspace, or not what is asked for; the message says),
    `path_not_found`, `computer_not_set_up` or `computer_unavailable`; and within a deadline, whatever the workspace or the user's process does.
    """

    def list(self, place: Place, path: str, *, depth: int, limit: int, cursor: str | None) -> Awaitable[Listing]:
        """A page of what is below a folder, down to `depth` levels. Raises `invalid_cursor` too."""

    def open(self, place: Place, path: str) -> Awaitable[Opened]:
        """Opens a regular file for reading. Raises `too_large` over `limits.MAX_FILE_BYTES`."""

    def pack(self, place: Place, path: str, coding: Coding) -> Awaitable[Packed]:
        """Begins an archive of a file or folder: a pax tar."""

    def unpack(self, place: Place, path: str, *, replace: bool, coding: Coding) -> Awaitable[Upload]:
        """Makes ready for an archive that becomes the folder `path`. Raises `path_exists` too, if that can be told now."""
