"""The head of an answer that is bytes out of a workspace: what a file or an archive is to HTTP, and which part of it is asked for."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from computerd.contract.methods import TAR
from computerd.net.answers import Preamble
from computerd.net.heads import Head, PreconditionFailed, RangeNotSatisfiable
from computerd.workspace.codings import accepts, negotiate
from computerd.workspace.disposition import disposition
from computerd.workspace.media import content_type, shown
from computerd.workspace.port import Coding, Opened, Packed
from computerd.workspace.ranges import Span, Unsatisfiable, span
from computerd.workspace.validators import Validators

_GUARDED: Final = (("Content-Security-Policy", "sandbox"),)
"""What a browser shows of it gets an origin of its own, and runs nothing."""
UNREADABLE: Final = "Computer-Unreadable"
"""The trailer field of an archive: how many files and folders it lacks because the user may not read them."""
_REVALIDATED: Final = "private, no-cache"
"""A client may keep a file, and asks each time whether it still is the same."""


@frozen
class Part:
    """What is sent of a file.

    Attributes:
        preamble: The head.
        span: The bytes; None: no body at all.
    """

    preamble: Preamble
    span: Span | None


def part_of(opened: Opened, head: Head, now: float) -> Part:
    """What a request is answered with about a file that is open.

    Args:
        opened: The file. It is neither read nor closed here.
        head: Of the request.
        now: Seconds since the epoch.

    Raises:
        RangeNotSatisfiable: Its Range begins after the end.
        PreconditionFailed: It is not what If-Match or If-Unmodified-Since wants.
        ApiError: `invalid_request`: a header came twice that may come once.
    """
    validators = Validators.of(opened, now)
    since, condition = head.one("If-Modified-Since"), head.one("If-Range")
    told = (("ETag", validators.etag), ("Last-Modified", validators.last_modified), ("Accept-Ranges", "bytes"))
    failed = validators.failed(head.words("If-Match"), head.one("If-Unmodified-Since"))
    if failed is not None:
        raise PreconditionFailed(failed)
    if validators.not_modified(head.words("If-None-Match"), since):
        return Part(Preamble(304, None, None, told, cache=_REVALIDATED), None)
    wanted = None
    # a Range means nothing on HEAD (RFC 9110, section 14.2)
    if head.verb == "GET" and validators.still(condition):
        try:
            wanted = span(head.one("Range"), opened.size)
        except Unsatisfiable:
            raise RangeNotSatisfiable(opened.size) from None
    name = ("Content-Disposition", disposition(opened.name, shown=shown(opened.name)))
    place = () if wanted is None else (("Content-Range", wanted.of(opened.size)),)
    whole = Span(0, opened.size)
    sent = whole if wanted is None else wanted
    preamble = Preamble(
        200 if wanted is None else 206,
        content_type(opened.name),
        sent.length,
        (*told, *place, name, *_GUARDED),
        cache=_REVALIDATED,
    )
    return Part(preamble, sent if sent.length and head.verb == "GET" else None)


def coding_for(head: Head) -> Coding:
    """How an archive is compressed for a client."""
    return negotiate(head.words("Accept-Encoding"))


def accepted(head: Head, coding: Coding) -> bool:
    """Whether a client takes an archive that is compressed so."""
    return accepts(head.words("Accept-Encoding"), coding)


def of_archive(packed: Packed, coding: Coding, *, chunked: bool) -> Preamble:
    """The head of an archive, whose length nobody knows before its end.

    Args:
        packed: The archive.
        coding: As was asked.
        chunked: Whether its body comes in chunks, so that a trailer can follow (RFC 9110, section 6.6.2, announces it).
    """
    name = ("Content-Disposition", disposition(f"{packed.name or 'workspace'}.tar", shown=False))
    made = packed.coding or coding
    coded = () if made == "identity" else (("Content-Encoding", made),)
    trailer = (("Trailer", UNREADABLE),) if chunked else ()
    return Preamble(200, TAR, None, (*coded, *trailer, ("Vary", "Accept-Encoding"), name, *_GUARDED))
