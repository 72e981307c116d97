"""`unpack`: an archive becomes a folder, whole or not at all.

    refused | ready → filled in its staging folder, as it comes → renamed to its place → what was replaced is removed

Until the rename, whatever ends the request (a bad archive, a full disk, the caller, the end of the daemon or of this process) removes the staging
folder, and the workspace is as it was. After it, the archive has landed, and nothing undoes that. As after tar, what has landed may not be on
the disk for some seconds (a crash then costs an upload that can be sent again); but what it replaces is only removed when it is.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Final

from computerd.host.worker import coding, kernel, limits, staging
from computerd.host.worker.archive import Entry, entries, invalid, shown
from computerd.host.worker.failures import INVALID_PATH, TOO_LARGE, UNAVAILABLE, Refused, of_any, of_path
from computerd.host.worker.keeping import Old
from computerd.host.worker.paths import Root, spell
from computerd.host.worker.request import Request
from computerd.host.worker.staging import Staging
from computerd.host.worker.tape import Tape
from computerd.host.worker.tree import Tree, clean
from computerd.host.worker.ustar import FILE, FOLDER, HARD_LINK, KEPT

_MAX_TAPE: Final = limits.ARCHIVE_BYTES + limits.ARCHIVE_ENTRIES * 4096
"""Bytes of an archive before it is compressed: an entry has a header, mostly another one of 1,024 bytes, and is filled up to 512."""
_FLOOR: Final = 100
"""A disk of which less than one part in so many is free takes no uploads (F12)."""
_FLOOR_BYTES: Final = 64 << 20
"""Between two looks at it."""
_SMALL: Final = 65_536
"""Bytes of a file that is written at once."""
_SWEEP: Final = 3.0
"""Seconds for what others have left; the next one goes on."""
_REMOVE: Final = 20.0
"""Seconds after which the caller is told that it has landed, though what was replaced is not yet gone."""
_CLEAR: Final = 2.0
"""Seconds after which he is told that it has not, though what has come of it is not yet gone."""


def run(request: Request, root: Root) -> None:
    """The verb."""
    replace, inflate = request.flag("replace"), request.text("coding")
    path, parent = _place(request.text("path"), root)
    try:
        name = path.rpartition(b"/")[2]
        if not replace and staging.exists(parent, name):
            raise staging.taken()
        pieces = coding.decoder(inflate, request.read)
        _check_floor(parent)
        place = _staged(parent)
        try:
            landing = Landing(request, place, Tape(pieces, _MAX_TAPE), parent, name if replace else None)
            landing.receive()
            landing.land(path, replace)
        finally:
            place.close()
    finally:
        os.close(parent)


def _place(text: str, root: Root) -> tuple[bytes, int]:
    """The path, and its parent folder. Raises Refused."""
    if not text:
        raise Refused(INVALID_PATH, "The workspace itself can't be replaced; name a folder in it.", "path")
    try:
        path, parent = root.find_parent(text)
    except OSError as error:
        raise of_path(error) from None
    if staging.is_name(path.rpartition(b"/")[2]):
        os.close(parent)
        raise Refused(INVALID_PATH, "Such names are for what is on its way.", "path")
    return path, parent


def _staged(parent: int) -> Staging:
    try:
        return Staging(parent)
    except PermissionError as error:
        raise of_path(error, doing="write beside") from None


def _check_floor(folder: int) -> None:
    """Raises Refused when the disk is nearly full."""
    disk = os.fstatvfs(folder)
    if disk.f_bavail * _FLOOR < disk.f_blocks:
        raise Refused(UNAVAILABLE, "The disk is nearly full.")


class Landing:
    """An archive on its way in."""

    def __init__(self, request: Request, place: Staging, tape: Tape, parent: int, replaced: bytes | None) -> None:
        self._request = request
        self._place = place
        self._tape = tape
        self._parent = parent
        self._tree = Tree(place.folder, limits.ARCHIVE_ENTRIES)
        self._old = None if replaced is None else Old(parent, replaced)
        self._bytes = 0
        self._seen = 0
        self._answered = False

    def receive(self) -> None:
        """Fills the staging folder; removes it when that fails."""
        try:
            self._request.result({"ready": True}, stream=True)
            self._sweep()
            for entry in entries(self._tape):
                self._request.go_on()
                self._add(entry)
            self._tree.finish(self._request.go_on)
        except BaseException as error:
            self._clear(error)
            raise
        finally:
            self._tree.close()
            if self._old is not None:
                self._old.close()

    def land(self, path: bytes, replace: bool) -> None:
        """Puts it in its place, and answers."""
        try:
            self._request.check()
            replaced = self._place.land(path.rpartition(b"/")[2], replace)
        except BaseException as error:
            self._clear(error)
            raise
        answer = {"path": spell(path)[0], "files": self._tree.files, "bytes": self._bytes, "replaced": replaced}
        until = time.monotonic() + _REMOVE

        def tick() -> None:
            if not self._answered and time.monotonic() >= until:
                self._answered = True
                self._request.end(answer)

        if replaced:
            sync = threading.Thread(target=self._sync, daemon=True)
            sync.start()
            sync.join(_REMOVE)
            tick()
            sync.join()
            self._place.remove(tick)
        if not self._answered:
            self._request.end(answer)

    def _clear(self, error: BaseException) -> None:
        """Removes what has come of it."""
        until = time.monotonic() + _CLEAR

        def tick() -> None:
            if time.monotonic() >= until:
                with suppress(OSError):  # the daemon is gone, and this is to go on nevertheless
                    self._request.fail(of_any(error))

        self._place.remove(tick)

    def _sync(self) -> None:
        """Has the disk write what has landed: with what it replaced still there, a crash loses nothing."""
        with suppress(OSError):
            kernel.sync_file_system(self._place.folder)

    def _sweep(self) -> None:
        until = time.monotonic() + _SWEEP

        def tick() -> None:
            self._request.go_on()
            if time.monotonic() > until:
                raise TimeoutError

        staging.sweep(self._parent, tick)

    def _add(self, entry: Entry) -> None:
        path = clean(entry.name)
        self._bytes += entry.size
        if self._bytes > limits.ARCHIVE_BYTES:
            raise Refused(
                TOO_LARGE, f"Its files have more than {limits.ARCHIVE_BYTES} bytes together, with {shown(path)}."
            )
        if entry.kind == FILE:
            if entry.stored > _SMALL or entry.segments is not None:
                self._tree.file(path, entry.mode, entry.mtime_ns, lambda file: self._fill(file, entry))
            else:
                self._count(entry.stored)
                self._tree.file(path, entry.mode, entry.mtime_ns, self._tape.take(entry.stored))
        elif entry.kind == FOLDER:
            self._tree.folder(path, entry.mode, entry.mtime_ns)
        elif entry.kind == KEPT:
            self._keep(path, entry)
        elif entry.kind == HARD_LINK:
            self._tree.hard_link(path, clean(entry.link))
        else:
            self._tree.symlink(path, entry.link, entry.mtime_ns)

    def _keep(self, path: bytes, entry: Entry) -> None:
        old = self._old
        if old is None:
            raise invalid(f"{shown(path)} is to be kept, and nothing is replaced.")
        self._tree.kept(path, lambda folder, name: old.link(path, entry, folder, name))

    def _fill(self, file: int, entry: Entry) -> None:
        for offset, length in [(0, entry.size)] if entry.segments is None else entry.segments:
            at = offset
            for piece in self._tape.pieces(length):
                _write(file, piece, at)
                at += len(piece)
                self._count(len(piece))
                self._request.go_on()
        if entry.segments is not None:
            os.ftruncate(file, entry.size)

    def _count(self, size: int) -> None:
        self._seen += size
        if self._seen >= _FLOOR_BYTES:
            self._seen = 0
            _check_floor(self._parent)


def _write(file: int, data: memoryview, at: int) -> None:
    while data:
        size = os.pwrite(file, data, at)
        data = data[size:]
        at += size
