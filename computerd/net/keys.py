"""The host's signing key pair: two PEM files in the state folder, made once, refused when others could read or change them."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

FOLDER: Final = "keys"
"""In the state folder."""
PRIVATE: Final = "host_ed25519"
PUBLIC: Final = "host_ed25519.pub"
_MAX_PEM_BYTES: Final = 64 * 1024
_PEM: Final = re.compile(rb"-----BEGIN [A-Z ]+-----.+?-----END [A-Z ]+-----", re.DOTALL)


class KeyProblem(Exception):
    """A key file that can't be used: the daemon does not start with it (exit status 78).

    Attributes:
        path: The file or folder at fault, or None when the key came as text.
        message: What is wrong and what to do, in one line.
    """

    def __init__(self, path: Path | None, message: str) -> None:
        super().__init__(message if path is None else f"{path}: {message}")
        self.path = path
        self.message = message


class NoKeyYet(KeyProblem):
    """A key file that is not there (yet)."""


def thumbprint(key: Ed25519PublicKey) -> str:
    """The key's name, the `kid` of tokens: its JWK thumbprint (RFC 7638, RFC 8037 appendix A.3)."""
    x = _base64url(key.public_bytes(Encoding.Raw, PublicFormat.Raw))
    return _base64url(hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest())


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def make_pair(folder: Path, random: Callable[[int], bytes]) -> bool:
    """Makes the pair in `folder` (mode 0700, made if missing) unless the signing key is there. Survives a crash at any point.

    Args:
        folder: The state folder's `keys`.
        random: n bytes of a cryptographic source.

    Returns:
        Whether a new key was made.

    Raises:
        KeyProblem: The folder or an existing key can't be used.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_folder(folder)
        made = not os.path.lexists(folder / PRIVATE)
        if made:
            key = Ed25519PrivateKey.from_private_bytes(random(32))
            pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            made = _write_new(folder / PRIVATE, pem, 0o600, random)
        public = load_private(folder / PRIVATE).public_key()
        if made or not os.path.lexists(folder / PUBLIC):
            _replace(
                folder / PUBLIC, public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), 0o644, random
            )
    except OSError as error:
        raise KeyProblem(folder, f"{error.strerror}: make the folder writable for the daemon's user") from error
    return made


def _check_folder(folder: Path) -> None:
    info = os.stat(folder)
    if info.st_uid not in (0, os.geteuid()):
        raise KeyProblem(folder, f"belongs to uid {info.st_uid}: chown it to the daemon's user")
    if info.st_mode & 0o022:
        raise KeyProblem(folder, "may be written by others: chmod 700 it")


def _write_new(path: Path, data: bytes, mode: int, random: Callable[[int], bytes]) -> bool:
    """Puts a whole, durable file at `path` unless one is there: it appears with its contents or not at all."""
    draft = _draft(path, data, mode, random)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
        _sync_folder(path.parent)
    return True


def _replace(path: Path, data: bytes, mode: int, random: Callable[[int], bytes]) -> None:
    os.replace(_draft(path, data, mode, random), path)
    _sync_folder(path.parent)


def _draft(path: Path, data: bytes, mode: int, random: Callable[[int], bytes]) -> Path:
    draft = path.with_name(f".{path.name}.{random(8).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    return draft


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_private(path: Path) -> Ed25519PrivateKey:
    """The signing key in a PEM file.

    Raises:
        NoKeyYet: There is no such file.
        KeyProblem: Others may read it, it belongs to somebody else, or it holds no Ed25519 key.
    """
    pem = _read(path, forbidden=0o077, advice="chmod 600 it, and make a new key if others may have read it")
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyProblem(
            path, "holds no private key in PEM without a passphrase: put one there, or remove it"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyProblem(path, "holds a key that is not Ed25519: make one with computerctl key init")
    return key


def load_public(path: Path) -> list[Ed25519PublicKey]:
    """The verification keys in a PEM file; several while one replaces another.

    Raises:
        NoKeyYet: There is no such file.
        KeyProblem: Others may change it, it belongs to somebody else, or it holds something that is not an Ed25519 key.
    """
    pem = _read(path, forbidden=0o022, advice="chmod 644 it: who can write it can let anybody in")
    return parse_public(pem, path)


def parse_public(pem: bytes, path: Path | None = None) -> list[Ed25519PublicKey]:
    """The verification keys in a PEM text.

    Raises:
        KeyProblem: There is none, or one that is not Ed25519.
    """
    blocks: Iterable[bytes] = _PEM.findall(pem)
    keys = []
    for block in blocks:
        try:
            key = load_pem_public_key(block)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeyProblem(path, "holds no public key in PEM: put the host's verification key there") from error
        if not isinstance(key, Ed25519PublicKey):
            raise KeyProblem(path, "holds a key that is not Ed25519, the only kind that is accepted")
        keys.append(key)
    if not keys:
        raise KeyProblem(path, "holds no public key in PEM: put the host's verification key there")
    return keys


def _read(path: Path, *, forbidden: int, advice: str) -> bytes:
    try:
        # not to hang on a FIFO that somebody put there
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError as error:
        raise NoKeyYet(path, "is not there: make a key with computerctl key init, or put it there") from error
    except OSError as error:
        raise KeyProblem(path, f"{error.strerror}: let the daemon's user read it") from error
    with os.fdopen(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise KeyProblem(path, "is not a regular file")
        if info.st_uid not in (0, os.geteuid()):
            raise KeyProblem(path, f"belongs to uid {info.st_uid}: chown it to the daemon's user")
        if info.st_mode & forbidden:
            raise KeyProblem(path, f"has mode {stat.S_IMODE(info.st_mode):04o}: {advice}")
        if info.st_size > _MAX_PEM_BYTES:
            raise KeyProblem(path, "is too large for a key")
        return file.read(_MAX_PEM_BYTES)
