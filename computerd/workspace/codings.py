"""How an archive is compressed on its way: chosen for a download, recognised for an upload. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from computerd.contract.errors import invalid
from computerd.workspace.port import Coding

_NAMES: Final[dict[str, Coding]] = {"zstd": "zstd", "gzip": "gzip", "x-gzip": "gzip", "identity": "identity"}
"""RFC 9110, section 8.4.1.3: `x-gzip` means `gzip`."""
_PREFERRED: Final[tuple[Coding, ...]] = ("zstd", "gzip")
"""The better first, for clients that like both as much."""
_WORD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:[ \t]*;[ \t]*[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?")


def negotiate(words: Sequence[str]) -> Coding:
    """The coding for a client that accepts these.

    What a client names is taken by its q-value (RFC 9110, section 12.5.3). `*` chooses none of ours, because not everybody who sends it can undo
    zstd. Where nothing suits, it is `identity`, which that section leaves to the server.

    Args:
        words: The parts of `Accept-Encoding`; none without it.
    """
    weights = _weights(words)
    best = max(_PREFERRED, key=lambda coding: weights.get(coding, 0.0))
    plain = weights.get("identity", weights.get("*", 0.0))
    liked = weights.get(best, 0.0)
    return best if liked > 0 and liked >= plain else "identity"


def accepts(words: Sequence[str], coding: Coding) -> bool:
    """Whether a client that accepts these has said that it takes `coding`, which is the second best for the server. `identity` it always does."""
    return coding == "identity" or _weights(words).get(coding, 0.0) > 0


def _weights(words: Sequence[str]) -> dict[str, float]:
    """The q-value of each coding that is named, by our name of it."""
    weights = {}
    for word in words:
        match = _WORD.fullmatch(word)
        if match is not None:
            name = match[1].lower()
            weights[_NAMES.get(name, name)] = 1.0 if match[2] is None else float(match[2])
    return weights


def recognise(words: Sequence[str]) -> Coding:
    """The coding that an upload comes in.

    Args:
        words: The parts of `Content-Encoding`; none without it.

    Raises:
        ApiError: `invalid_request`: it is none of ours, or more than one.
    """
    if not words:
        return "identity"
    coding = _NAMES.get(words[0].lower()) if len(words) == 1 else None
    if coding is None:
        raise invalid("Content-Encoding", "Send the archive as it is, or with one of the codings gzip and zstd.")
    return coding
