"""`opc cat`: a file of the workspace on standard output."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from computerd.opc import locate, say, sessions
from computerd.opc.exchange import Exchange
from computerd.opc.failure import OWN_FAILURE, Failure
from computerd.opc.locate import Place
from computerd.opc.plain import visible
from computerd.opc.streams import sanitise
from computerd.opc.tree import ABOUT, plain, route, told

_STEERING: Final = re.compile(rb"[\x00-\x07\x0b\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")
"""What steers a terminal (ECMA-48): the controls, but for backspace and those that end a line, and those of two bytes in UTF-8."""


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Writes each of the files.

    Raises:
        Failure: One can't be read.
        BrokenPipeError: Nobody reads them.
    """
    sanitise()
    settings = locate.configured(options, env)
    place = locate.locate(settings, env)
    speaker = say.speaker(options.quiet, options.verbose, settings.color.value, env)
    session = sessions.existing(options.session, place, speaker, "cat")
    guarded = os.isatty(1) and not options.force
    status = 0
    for path in options.paths:
        try:
            _write(_harmless(path, _read(place, session, path)) if guarded else _read(place, session, path))
        except Failure as failure:
            if path == options.paths[-1] or failure.code not in ABOUT:
                raise
            speaker.error(failure.message)
            status = OWN_FAILURE
    return status


def _read(place: Place, session: str, path: str) -> Iterator[bytes]:
    headers = {"Accept-Encoding": "identity"}
    with Exchange(place, "GET", route(session, "file"), {"path": plain(path)}, headers) as exchange:
        try:
            yield from exchange.pieces()
        except Failure as failure:
            raise told(path, failure) from None


def _harmless(path: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same, as long as nothing in it steers a terminal."""
    last = b""
    for piece in pieces:
        if _STEERING.search(last + piece):
            raise Failure(
                "output_lost",
                f"{visible(path)} holds characters that would steer your terminal. Redirect the output, or use --force.",
            )
        last = piece[-1:]
        yield piece


def _write(pieces: Iterable[bytes]) -> None:
    try:
        for piece in pieces:
            rest = piece
            while rest:
                rest = rest[os.write(1, rest) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure("output_lost", f"can't write the file: {error.strerror or error}.") from None
