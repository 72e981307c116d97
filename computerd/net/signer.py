"""Makes credentials: the same for `computerctl token create`, and for the daemon's local credential."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import jwt
from attrs import frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from computerd.contract.access import Scope
from computerd.contract.identifiers import Identifier
from computerd.net.keys import load_private, thumbprint

ALGORITHM: Final = "EdDSA"
AUDIENCE: Final = "computerd"
TOKEN: Final = Identifier("tk_", 22)
"""The shape of a `jti` that computerd makes: 131 bits."""


@frozen
class Minted:
    """A new credential.

    Attributes:
        token: What the client presents.
        token_id: Its `jti`, by which it can be revoked.
        issued_at: Seconds since the epoch.
        expires_at: Seconds since the epoch, or None.
    """

    token: str
    token_id: str
    issued_at: int
    expires_at: int | None


@frozen
class Signer:
    """A signing key and its name."""

    key: Ed25519PrivateKey
    kid: str

    @classmethod
    def load(cls, path: Path) -> Signer:
        """The signer whose key is in a PEM file.

        Raises:
            KeyProblem: It can't be used.
        """
        key = load_private(path)
        return cls(key, thumbprint(key.public_key()))

    @classmethod
    def ephemeral(cls, kid: str, random: Callable[[int], bytes]) -> Signer:
        """A signer whose key lives in this process only."""
        return cls(Ed25519PrivateKey.from_private_bytes(random(32)), kid)

    def mint(
        self,
        member: str,
        *,
        name: str | None,
        email: str | None,
        admin: bool,
        scopes: Iterable[Scope],
        ttl: float | None,
        now: float,
        random: Callable[[int], bytes],
    ) -> Minted:
        """A credential for `member`.

        Args:
            member: The member's id, `sub`.
            name: To show to people.
            email: To reach them.
            admin: May do what any owner may.
            scopes: What it is good for.
            ttl: Seconds that it is good for; None: without end.
            now: Seconds since the epoch.
            random: n bytes of a cryptographic source.
        """
        issued = int(now)
        expires = None if ttl is None else int(now + ttl)
        token_id = TOKEN.new(random)
        claims: dict[str, object] = {
            "sub": member,
            "name": name,
            "email": email,
            "admin": admin,
            "scope": " ".join(sorted({scope.value for scope in scopes})),
            "aud": AUDIENCE,
            "iat": issued,
            "jti": token_id,
        }
        if expires is not None:
            claims["exp"] = expires
        token = jwt.encode(claims, self.key, algorithm=ALGORITHM, headers={"typ": "JWT", "kid": self.kid})
        return Minted(token, token_id, issued, expires)
