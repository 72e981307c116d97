"""What a worker answers, checked, as the objects of the port.

Nothing is taken on trust: whoever runs as the user can write on the worker's socket what he likes. An answer of another shape is a `Violation`.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.host.incoming import Violation
from computerd.workspace.port import Entry, Kind, Landed, Listing

MAX_PATH: Final = limits.MAX_PATH_CHARACTERS
"""Bytes of a path as the API spells it."""
_MAX_NAME: Final = 4096
_MAX_MESSAGE: Final = 1000
"""Characters of a message that the caller is shown."""
_REFUSALS: Final = frozenset((
    Code.INVALID_PATH, Code.PATH_NOT_FOUND, Code.PATH_EXISTS, Code.TOO_LARGE, Code.INVALID_ARCHIVE, Code.INVALID_CURSOR, Code.UNAVAILABLE,
))  # fmt: skip

_Path = Annotated[str, Meta(max_length=MAX_PATH, pattern=r"^[^\x00]*\Z")]
_Name = Annotated[str, Meta(max_length=_MAX_NAME, pattern=r"^[^\x00/]*\Z")]
_FileName = Annotated[str, Meta(max_length=3 * 255, pattern=r"^[^\x00/]*\Z")]
"""Of at most 255 bytes, each of which may be spelled with three characters."""
_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Time = Annotated[int, Meta(ge=-(2**62), le=2**62)]
_Inode = Annotated[int, Meta(ge=0)]
_Mode = Annotated[int, Meta(ge=0, le=0o7777)]


class _Row(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    path: _Path
    name: _Name
    type: Kind
    size: _Count
    mode: _Mode
    mtime_ns: _Time
    target: _Path | None
    encoded: bool


class _Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: _Path
    entries: Annotated[list[_Row], Meta(max_length=100)]
    cursor: _Path | None


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to `open`."""

    name: _FileName
    size: _Count
    mtime_ns: _Time
    ctime_ns: _Time
    inode: _Inode
    stream: bool


class Archive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first answer to `pack`."""

    name: _Name
    folder: bool
    stream: bool


class _Packed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entries: _Count
    bytes: _Count
    skipped: _Count
    unreadable: _Count


class _Ready(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ready: bool
    stream: bool


class _Landed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: _Path
    files: Annotated[int, Meta(ge=0, le=limits.MAX_ARCHIVE_ENTRIES)]
    bytes: Annotated[int, Meta(ge=0, le=limits.MAX_ARCHIVE_BYTES)]
    replaced: bool


class _Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: str
    message: str
    field: Annotated[str, Meta(max_length=limits.MAX_FIELD_NAME)] | None = None


class _Object(msgspec.Struct, frozen=True):
    pass


T = TypeVar("T")


def _decoded(payload: bytes, wanted: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(payload, type=wanted)
    # besides its own: for what is nested too deep, and for numbers with thousands of digits
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise Violation(f"{what} of another shape") from None


def listing(payload: bytes, limit: int) -> Listing:
    """The answer to `list`, with `limit` entries at most."""
    page = _decoded(payload, _Page, "a listing")
    if len(page.entries) > limit:
        raise Violation("more entries than were asked for")
    entries = [
        Entry(row.path, row.name, row.type, row.size, row.mode, row.mtime_ns / 1e9, row.target, row.encoded)
        for row in page.entries
    ]
    return Listing(page.path, entries, page.cursor)


def file(payload: bytes) -> File:
    """The answer to `open`."""
    answer = _decoded(payload, File, "a file")
    if not answer.stream or not answer.name or answer.size > limits.MAX_FILE_BYTES or answer.inode >= 2**64:
        raise Violation("a file that can't be")
    return answer


def archive(payload: bytes) -> Archive:
    """The first answer to `pack`."""
    answer = _decoded(payload, Archive, "an archive")
    if not answer.stream:
        raise Violation("an archive that can't be")
    return answer


def unreadable(payload: bytes) -> int:
    """The last word on an archive: how many files and folders the user may not read."""
    return _decoded(payload, _Packed, "the end of an archive").unreadable


def ready(payload: bytes) -> None:
    """The first answer to `unpack`."""
    answer = _decoded(payload, _Ready, "an answer to an upload")
    if not (answer.ready and answer.stream):
        raise Violation("an answer to an upload that is none")


def landed(payload: bytes) -> Landed:
    """The last word on an upload."""
    answer = _decoded(payload, _Landed, "the end of an upload")
    return Landed(answer.path, answer.files, answer.bytes, answer.replaced)


def end(payload: bytes) -> None:
    """The end of a file: some JSON object."""
    _decoded(payload, _Object, "the end of a file")


def refusal(payload: bytes) -> ApiError:
    """What the caller is told when the worker refuses. Its message is a person's to read, so it holds nothing that moves a cursor."""
    answer = _decoded(payload, _Failure, "a refusal")
    if answer.code not in _REFUSALS:
        raise Violation("a refusal of no kind")
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in answer.message[:_MAX_MESSAGE])
    return ApiError(Code(answer.code), shown, field=answer.field)
