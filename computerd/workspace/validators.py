"""What tells two states of a file apart over HTTP: entity tag and time of its last change (RFC 9110, sections 8.8 and 13). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from typing import Final

from attrs import frozen

from computerd.contract.shapes import LAST_SECOND
from computerd.workspace.port import Opened

SETTLED_SECONDS: Final = 2.0
"""After its last change, until a file's time tells its states apart for certain: kernels count file times in ticks of up to 10 ms, some file
systems in 2 s (FAT). Until then its tag is weak."""


@frozen
class Validators:
    """Of one file as it was opened.

    Attributes:
        etag: The value of `ETag`.
        modified: Seconds since the epoch; never later than the answer.
    """

    etag: str
    modified: int

    @classmethod
    def of(cls, opened: Opened, now: float) -> Validators:
        """The validators of a file that is open, at `now` in seconds since the epoch."""
        tag = f'"{opened.inode:x}-{opened.size:x}-{opened.changed_ns & (1 << 64) - 1:x}"'
        settled = now - opened.changed_ns / 1e9 >= SETTLED_SECONDS
        modified = max(0, min(opened.modified_ns // 1_000_000_000, int(now), LAST_SECOND))
        return cls(tag if settled else f"W/{tag}", modified)

    @property
    def last_modified(self) -> str:
        """The value of `Last-Modified`."""
        return formatdate(self.modified, usegmt=True)

    @property
    def strong(self) -> bool:
        """Whether the same tag means the same bytes."""
        return not self.etag.startswith("W/")

    def not_modified(self, tags: Sequence[str], since: str | None) -> bool:
        """Whether a client has this state already.

        Args:
            tags: The parts of `If-None-Match`; none without it.
            since: `If-Modified-Since`, which counts only without the other.
        """
        if tags:
            return any(tag == "*" or tag.removeprefix("W/") == self.etag.removeprefix("W/") for tag in tags)
        moment = _moment(since)
        return moment is not None and self.modified <= moment

    def failed(self, tags: Sequence[str], since: str | None) -> str | None:
        """Which condition does not hold of those under which alone a client wants this state; None: all do.

        Args:
            tags: The parts of `If-Match`; none without it. A weak tag never matches.
            since: `If-Unmodified-Since`, which counts only without the other.
        """
        if tags:
            same = any(tag == "*" or (self.strong and tag == self.etag) for tag in tags)
            return None if same else "If-Match"
        moment = _moment(since)
        return "If-Unmodified-Since" if moment is not None and self.modified > moment else None

    def still(self, condition: str | None) -> bool:
        """Whether a part of this state fits to what a client has, which is what `If-Range` asks. True without it."""
        if condition is None:
            return True
        if not self.strong:
            return False
        if condition.startswith(('"', "W/")):
            return condition == self.etag
        return _moment(condition) == self.modified


def _moment(text: str | None) -> int | None:
    """Seconds since the epoch of an HTTP date; None if it is none."""
    if text is None:
        return None
    try:
        moment = parsedate_to_datetime(text)
        return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
