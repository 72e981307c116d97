"""Which keys verify credentials now: read again at SIGHUP, and awaited when the configured one is not there yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import define, field
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from computerd.net.keys import PRIVATE, KeyProblem, NoKeyYet, load_private, load_public, parse_public, thumbprint

POLL_SECONDS: Final = 2.0
"""At most this often a missing key is looked for: what clients are told to wait (close code 4503)."""

Source = Callable[[], Sequence[Ed25519PublicKey]]
"""Reads keys from where they are. Raises KeyProblem."""


def own_pair(folder: Path) -> Source:
    """The daemon's own key, and every other `*.pub` beside it: an old key stays good as long as its file is there."""

    def read() -> list[Ed25519PublicKey]:
        keys = [load_private(folder / PRIVATE).public_key()]
        for path in sorted(folder.glob("*.pub")):
            keys += load_public(path)
        return keys

    return read


def pem_file(path: Path) -> Source:
    """The keys in a file that may not be there yet."""
    return lambda: load_public(path)


def pem_text(text: str) -> Source:
    """Keys that came in the configuration."""
    return lambda: parse_public(text.encode())


@define(eq=False)
class KeyRing:
    """The verification keys by `kid`.

    Attributes:
        source: Where they are.
        seconds: A monotonic clock.
    """

    source: Source
    seconds: Callable[[], float]
    _keys: Mapping[str, Ed25519PublicKey] | None = field(default=None, init=False)
    _looked: float | None = field(default=None, init=False)
    _watchers: list[Callable[[], None]] = field(factory=list, init=False)

    @property
    def ready(self) -> bool:
        """Whether there is a key. While there is none, asking looks for it, at most every `POLL_SECONDS`."""
        if self._keys is None and (self._looked is None or self.seconds() - self._looked >= POLL_SECONDS):
            try:
                self.reload()
            except KeyProblem:
                # said in the log at start and at SIGHUP; here it only means: not yet
                return False
        return self._keys is not None

    def get(self, kid: str) -> Ed25519PublicKey | None:
        """The key of that name."""
        return None if self._keys is None else self._keys.get(kid)

    def names(self) -> list[str]:
        """Every `kid` that is accepted now."""
        return [] if self._keys is None else list(self._keys)

    def open(self) -> None:
        """The first look. A key that is not there yet is no error.

        Raises:
            KeyProblem: It is there and can't be used.
        """
        with suppress(NoKeyYet):
            self.reload()

    def reload(self) -> None:
        """Reads the keys again. A problem leaves those in use that were.

        Raises:
            KeyProblem: They can't be read.
        """
        self._looked = self.seconds()
        keys = {thumbprint(key): key for key in self.source()}
        changed = self._keys is None or set(self._keys) != set(keys)
        self._keys = keys
        if changed:
            for watcher in list(self._watchers):
                watcher()

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Has `changed` called when other keys count. Returns what ends that."""
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)
