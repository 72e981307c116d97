"""The files of a session's workspace, as the daemon lists them: all pages, however many and however deep."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from computerd.opc.failure import Failure
from computerd.opc.patient import Patient
from computerd.opc.plain import visible

PAGE: Final = 100
"""Entries of one answer: the API's limit."""
DEEPEST: Final = 10
"""Levels of one listing: the API's limit. What is deeper is listed by itself."""
ABOUT: Final = ("path_not_found", "invalid_path", "too_large")
"""Errors that are about one path, and say nothing of others."""
_KINDS: Final = ("file", "directory", "symlink", "other")
_MAX_SIZE: Final = 1 << 63
"""No file has as many bytes: off_t is signed."""
_MODES: Final = 0o7777


class Entry(NamedTuple):
    """What a folder of the workspace holds.

    Attributes:
        path: In the workspace, spelled as the API spells it.
        name: Relative to the folder that was asked for.
        modified_ms: Milliseconds since the epoch.
        encoded: Whether the path is spelled with percent signs, because it is not UTF-8.
        told: As the API gave it.
    """

    path: str
    name: str
    kind: str
    size: int
    mode: int
    modified_ms: int
    target: str | None
    encoded: bool
    told: Mapping[str, Any]

    @property
    def local_name(self) -> str:
        """`name` as this system spells it."""
        return os.fsdecode(unquote_to_bytes(self.name)) if self.encoded else self.name


def route(session: str, which: str) -> str:
    """The path of `files`, `file` or `archive`."""
    return f"/sessions/{quote(session, safe='')}/workspace/{which}"


def spelled(path: str) -> str:
    """A path from the command line, as the API takes it. What is not UTF-8 is written with percent signs."""
    data = os.fsencode(path)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _encoded(data)


def plain(path: str) -> str:
    """A path from the command line without what says nothing, as the API takes it."""
    parts = "/".join(part for part in path.split("/") if part not in ("", "."))
    return spelled(f"/{parts}" if path.startswith("/") else parts)


def told(path: str, failure: Failure) -> Failure:
    """The same, with the path that it is about."""
    if failure.code in ABOUT:
        failure.message = f"{visible(path or '.')}: {failure.message}"
    return failure


def _encoded(data: bytes) -> str:
    return "".join(chr(byte) if byte < 0x80 and byte != 0x25 else f"%{byte:02X}" for byte in data)


class Tree:
    """The files of one session.

    Args:
        daemon: Asks again if need be.
        session: Its id.
    """

    def __init__(self, daemon: Patient, session: str) -> None:
        self._daemon = daemon
        self._route = route(session, "files")

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder at `path`, rather than something else.

        Raises:
            Failure: There is nothing, or no answer.
        """
        try:
            self._page(path, depth=1, limit=1, cursor=None)
        except Failure as failure:
            if failure.code != "invalid_path":
                raise
            return False
        return True

    def below(self, path: str, *, depth: int | None = None) -> Iterator[Entry]:
        """What is below a folder.

        Args:
            path: The folder.
            depth: How many levels of it; None: all.

        Raises:
            Failure: It is none, or there is no answer.
        """
        waiting = deque([(path, "")])
        while waiting:
            folder, prefix = waiting.popleft()
            for entry in self._listed(folder, min(depth or DEEPEST, DEEPEST)):
                level = entry.name.count("/") + 1
                named = entry._replace(name=prefix + entry.name)
                yield named
                if depth is None and entry.kind == "directory" and level == DEEPEST:
                    waiting.append((entry.path, f"{named.name}/"))

    def _listed(self, path: str, depth: int) -> Iterator[Entry]:
        cursor: str | None = None
        while True:
            base, entries, after = self._page(path, depth=depth, limit=PAGE, cursor=cursor)
            for told in entries:
                yield _entry(told, base)
            if after is None:
                return
            if after == cursor:
                raise _strange()
            cursor = after

    def _page(self, path: str, *, depth: int, limit: int, cursor: str | None) -> tuple[str, list[Any], str | None]:
        query = {"path": path, "depth": str(depth), "limit": str(limit)} | ({"cursor": cursor} if cursor else {})
        answer = self._daemon.ask("GET", self._route, query)
        base, entries, after = answer.get("path"), answer.get("entries"), answer.get("nextCursor")
        if not isinstance(base, str) or not isinstance(entries, list) or not isinstance(after, str | None):
            raise _strange()
        return base, entries, after


def _entry(told: Any, folder: str) -> Entry:
    base = f"{folder}/" if folder else ""
    try:
        base.encode()
        told["path"].encode()  # a lone surrogate, which JSON can have, is in no name
        path, kind, size, mode = told["path"], told["type"], told["size"], int(told["mode"], 8)
        modified = datetime.fromisoformat(told["modifiedAt"]).timestamp()
        target, encoded = told.get("target"), told.get("encoded", False)
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        raise _strange() from None
    if encoded is True and isinstance(path, str) and not path.startswith(base):
        base = _encoded(base.encode())  # a path is encoded as a whole
    right = isinstance(path, str) and path.startswith(base) and len(path) > len(base) and kind in _KINDS
    if not right or not isinstance(size, int) or not isinstance(target, str | None) or not isinstance(encoded, bool):
        raise _strange()
    if not 0 <= size < _MAX_SIZE or not 0 <= mode <= _MODES or not _can_be(target):
        raise _strange()
    return Entry(path, path[len(base) :], kind, size, mode, round(modified * 1000), target, encoded, told)


def _can_be(target: str | None) -> bool:
    """Whether a link can say that: bytes that are no UTF-8 may be spelled as Python does (PEP 383)."""
    try:
        os.fsencode(target or "")
    except UnicodeEncodeError:
        return False
    return True


def _strange() -> Failure:
    return Failure(
        "invalid_answer", "the daemon did not answer with a list of files as this client knows it. Look at its log."
    )
