"""Reads tokens from files, and only from files that nobody else can read."""

from __future__ import annotations

import os
import stat
from typing import Final

from computerd.opc.failure import Failure

MAX_BYTES: Final = 64 * 1024
"""Of a file with tokens; one token is under 8 KiB, or no header would hold it."""
MAX_TOKEN: Final = 8 * 1024


def read_private(path: str) -> bytes:
    """The contents of a file that is to be secret.

    Raises:
        Failure: It can't be read, or others may read it, or it is somebody else's.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Failure("invalid_configuration", f"can't read the token file {path}: {why}.") from None
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Failure(
                "invalid_configuration",
                f"others may use the token file {path} (mode {stat.S_IMODE(found.st_mode):04o}). Run `chmod 600 {path}`, "
                "and replace the token if it may have been read.",
            )
        if found.st_uid not in (0, os.geteuid()):
            raise Failure(
                "invalid_configuration", f"the token file {path} belongs to another user. Make a copy of your own."
            )
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Failure("invalid_configuration", f"the token file {path} is over {MAX_BYTES} bytes: it holds no token.")
    return data


def token(text: bytes | str, origin: str) -> str:
    """The token that `text` is, without white space around it.

    Raises:
        Failure: It is none: empty, too long, or with characters that a header can't bear.
    """
    plain = (text.decode("ascii", "replace") if isinstance(text, bytes) else text).strip()
    if not plain or len(plain) > MAX_TOKEN or not all("!" <= c <= "~" for c in plain):
        raise Failure("invalid_configuration", f"{origin} holds no token. `computerctl token create` makes one.")
    return plain
