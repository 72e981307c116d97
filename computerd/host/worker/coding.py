"""How archives are compressed: gzip (RFC 1952) by the standard library; zstd (RFC 8878) by Python 3.14 or by zstandard, where there is either.

What comes in is inflated in pieces of bounded size, so that a little input that stands for a lot of output costs no memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, Protocol

from computerd.host.worker.cuts import Frames
from computerd.host.worker.failures import INVALID_ARCHIVE, UNAVAILABLE, Refused

IDENTITY: Final = "identity"
GZIP: Final = "gzip"
ZSTD: Final = "zstd"
PIECE: Final = 262_144
"""Bytes of a piece of output, at most."""
_GZIP_LEVEL: Final = 1
"""The fastest: source code takes a third of the time of level 6, and becomes a seventh larger."""
_ZSTD_LEVEL: Final = 3
_ZSTD_WINDOW_LOG: Final = 23
"""8 MiB, the most that RFC 9659 allows in HTTP."""
_GZIP_FORMAT: Final = 31  # zlib's name for a gzip header and trailer


class Encoder(Protocol):
    """Compresses a stream."""

    def compress(self, data: bytes | memoryview, /) -> bytes | memoryview:
        """What becomes of the next piece; perhaps nothing yet."""

    def flush(self) -> bytes:
        """The rest."""


class Plain:
    """An Encoder that leaves it as it is."""

    def compress(self, data: bytes | memoryview, /) -> bytes | memoryview:
        """The piece itself."""
        return data

    def flush(self) -> bytes:
        """Nothing."""
        return b""


def encoder(coding: str) -> Encoder:
    """An encoder. Raises Refused when there is no zstd here."""
    if coding == ZSTD:
        try:
            return _zstd_encoder()
        except ImportError:
            raise _no_zstd() from None
    return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT) if coding == GZIP else Plain()


def decoder(coding: str, read: Callable[[], bytes | None]) -> Iterator[bytes]:
    """The pieces of a stream, none of them empty or longer than PIECE.

    Args:
        coding: Of the stream.
        read: Returns the next piece of input, None at its end.

    Raises:
        Refused: It is not what it says; now or while iterating. Or there is no zstd here.
    """
    if coding == GZIP:
        return _gunzip(read)
    if coding == ZSTD:
        try:
            return _unzstd(read)
        except ImportError:
            raise _no_zstd() from None
    return (data for data in iter(read, None) if data)


def _no_zstd() -> Refused:
    return Refused(UNAVAILABLE, "There is no zstd on this computer; use gzip.")


def _gunzip(read: Callable[[], bytes | None]) -> Iterator[bytes]:
    """As gzip(1): one member after another, and zeros after the last."""
    inflater = None
    while (data := read()) is not None:
        while data or inflater is not None:
            if inflater is None:
                data = data.lstrip(b"\0")
                if not data:
                    break
                inflater = zlib.decompressobj(_GZIP_FORMAT)
            try:
                found = inflater.decompress(data, PIECE)
            except zlib.error:
                raise Refused(INVALID_ARCHIVE, "It is not gzip, or damaged.") from None
            if found:
                yield found
            data = inflater.unconsumed_tail
            if inflater.eof:
                data, inflater = inflater.unused_data, None
            elif not data and len(found) < PIECE:
                break
    if inflater is not None:
        raise Refused(INVALID_ARCHIVE, "It ends in the middle of its gzip stream.")


def _zstd_encoder() -> Encoder:
    encoder: Encoder
    try:
        encoder = import_module("compression.zstd").ZstdCompressor(level=_ZSTD_LEVEL)
    except ImportError:
        encoder = import_module("zstandard").ZstdCompressor(level=_ZSTD_LEVEL).compressobj()
    return encoder


def _unzstd(read: Callable[[], bytes | None]) -> Iterator[bytes]:
    try:
        return _unzstd_own(read, import_module("compression.zstd"))
    except ImportError:
        return _unzstd_library(read, import_module("zstandard"))


def _unzstd_own(read: Callable[[], bytes | None], zstd: Any) -> Iterator[bytes]:
    options = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
    inflater = None
    while (data := read()) is not None:
        while data or inflater is not None:
            inflater = zstd.ZstdDecompressor(options=options) if inflater is None else inflater
            try:
                found = inflater.decompress(data, PIECE)
            except zstd.ZstdError:
                raise Refused(INVALID_ARCHIVE, "It is not zstd, or damaged.") from None
            if found:
                yield found
            data = b""
            if inflater.eof:
                data, inflater = inflater.unused_data, None
            elif inflater.needs_input:
                break
    if inflater is not None:
        raise Refused(INVALID_ARCHIVE, "It ends in the middle of its zstd stream.")


class _Input:
    """What zstandard reads from."""

    def __init__(self, read: Callable[[], bytes | None]) -> None:
        self._read = read
        self.frames = Frames()

    def read(self, size: int) -> bytes:
        """The next piece, whatever was asked for: it takes more than that too."""
        data = self._read() or b""
        self.frames.feed(data)
        return data


def _unzstd_library(read: Callable[[], bytes | None], zstandard: Any) -> Iterator[bytes]:
    inflater = zstandard.ZstdDecompressor(max_window_size=1 << _ZSTD_WINDOW_LOG)
    source = _Input(read)
    with inflater.stream_reader(source, read_across_frames=True) as stream:
        while True:
            try:
                found: bytes = stream.read(PIECE)
            except zstandard.ZstdError:
                raise Refused(INVALID_ARCHIVE, "It is not zstd, or damaged.") from None
            if not found:
                break
            yield found
    if not source.frames.whole:  # it says nothing of that
        raise Refused(INVALID_ARCHIVE, "It ends in the middle of its zstd stream.")
