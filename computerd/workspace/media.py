"""What a file's name says about its bytes, and whether a browser may show them. Pure.

Workspaces hold what agents and strangers wrote. What is shown under the daemon's own origin could act as it, so only what can't act
is shown in place; all else is saved as a file, and nothing is sniffed.
"""

from __future__ import annotations

from collections.abc import Mapping
from mimetypes import MimeTypes
from posixpath import splitext
from types import MappingProxyType
from typing import Final

UNKNOWN: Final = "application/octet-stream"

_MORE: Final = {
    ".go": "text/plain",
    ".ini": "text/plain",
    ".ipynb": "application/x-ipynb+json",
    ".jpg": "image/jpeg",
    ".jsonl": "application/x-ndjson",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".rs": "text/plain",
    ".toml": "application/toml",
    # of the library's table it is a video, which no workspace has as often
    ".ts": "text/plain",
    ".tsx": "text/plain",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
_PACKED: Final = {
    ".br": "application/x-brotli",
    ".bz2": "application/x-bzip2",
    ".gz": "application/gzip",
    ".tgz": "application/gzip",
    ".xz": "application/x-xz",
    ".zst": "application/zstd",
}
"""Of these the bytes are what is packed, whatever was packed."""
_SHOWN: Final = frozenset(
    {
        "application/json",
        "image/avif",
        "image/bmp",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/vnd.microsoft.icon",
        "image/webp",
        "text/csv",
        "text/markdown",
        "text/plain",
    }
)


def _table() -> Mapping[str, str]:
    # an instance of its own: the module's functions also know what this host has in /etc/mime.types
    known = MimeTypes()
    return MappingProxyType({**known.types_map[False], **known.types_map[True], **_MORE, **_PACKED})


_TYPES: Final = _table()


def media_type(name: str) -> str:
    """The media type for a file's name, without parameters."""
    return _TYPES.get(splitext(name)[1].lower(), UNKNOWN)


def content_type(name: str) -> str:
    """The value of `Content-Type` for a file's name. Text is said to be UTF-8, which nearly all is, rather than left to a guess."""
    kind = media_type(name)
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def shown(name: str) -> bool:
    """Whether a browser may show it in place. Never HTML, SVG, XML, PDF, scripts, or what is not known."""
    kind = media_type(name)
    return kind in _SHOWN or kind.startswith(("audio/", "video/"))
