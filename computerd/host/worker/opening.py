"""`open`: a regular file, and then the bytes of it that are asked for.

Opening must not wait and must not change anything: not for the other end of a FIFO, not for a line that is to become the controlling terminal.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Final

from computerd.host.worker import frames, limits
from computerd.host.worker.failures import INVALID_PATH, TOO_LARGE, UNAVAILABLE, Refused, kind_of, of_path
from computerd.host.worker.paths import Root, spell
from computerd.host.worker.request import Request

READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK: Final = frames.WINDOW


def run(request: Request, root: Root) -> None:
    """The verb."""
    try:
        path, found = root.find(request.text("path"), os.O_PATH)
    except OSError as error:
        raise of_path(error) from None
    try:
        _regular(os.fstat(found).st_mode)  # opening a device may do something
    finally:
        os.close(found)
    try:
        file = root.open(path, READ)
    except OSError as error:
        raise of_path(error) from None
    try:
        now = os.fstat(file)
        _regular(now.st_mode)
        if now.st_size > limits.FILE_BYTES:
            raise Refused(TOO_LARGE, f"It has {now.st_size} bytes; the most is {limits.FILE_BYTES}.")
        name = spell(path)[0].rpartition("/")[2]
        answer: dict[str, Any] = {"name": name, "size": now.st_size, "inode": now.st_ino}
        answer |= {"mtime_ns": now.st_mtime_ns, "ctime_ns": now.st_ctime_ns}
        request.result(answer, stream=True)
        call = request.next_call()
        start, length = int(call["start"]), int(call["length"])
        if start < 0 or length < 0 or start + length > now.st_size:
            raise ValueError("bytes that the file does not have")
        send(request, file, start, length)
    finally:
        os.close(file)
    request.end({})


def send(request: Request, file: int, start: int, length: int) -> None:
    """Sends bytes of a file, and as many as were promised. Raises Refused when they are no longer there."""
    end = start + length
    while start < end:
        data = os.pread(file, min(_CHUNK, end - start), start)
        if not data:
            raise Refused(UNAVAILABLE, "The file became shorter while it was read.")
        request.write(data)
        start += len(data)


def _regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise Refused(INVALID_PATH, f"It is {kind_of(mode)}, and no file.", "path")
