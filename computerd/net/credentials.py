"""Whether a token is a credential, and whose. Nothing that a stranger can send makes it wait, raise or cost more than one check.

A token goes through these gates, the cheap ones first, so that a flood of forgeries is refused before the only dear
step, the signature (about 110 µs): size and alphabet, one canonical spelling, the header, a known key, the signature,
the claims, expiry, revocation. What has passed once is remembered by its hash, and expiry and revocation are asked anew each time.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Annotated, Final, Literal

import jwt
import msgspec
from attrs import define, field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Meta

from computerd.api.caller import Caller
from computerd.api.credentials import Revocations
from computerd.contract import limits
from computerd.contract.access import Scope
from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Person
from computerd.contract.shapes import LAST_SECOND
from computerd.net.keyring import KeyRing
from computerd.net.signer import ALGORITHM, AUDIENCE, Minted

MAX_TOKEN_BYTES: Final = 4096
_SKEW_SECONDS: Final = 60.0
"""How far the clock of who signs may be ahead of ours."""
_REMEMBERED: Final = 1024
_SHAPE: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{86})")
_Moment = Annotated[int, Meta(ge=0, le=LAST_SECOND)]
_Label = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]


class _Header(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Nothing else may be in it: `crit`, `jwk` or `jku` would mean something that is not supported."""

    alg: Literal["EdDSA"]
    typ: Literal["JWT"]
    kid: Annotated[str, Meta(min_length=1, max_length=255)]


class _Claims(msgspec.Struct, frozen=True):
    sub: _Label
    aud: str
    iat: _Moment
    jti: _Label
    scope: Annotated[str, Meta(max_length=2000)]
    name: _Label | None = None
    email: _Label | None = None
    admin: bool = False
    exp: _Moment | None = None
    nbf: _Moment | None = None


_header: Final = msgspec.json.Decoder(_Header)
_claims: Final = msgspec.json.Decoder(_Claims)
_signatures: Final = jwt.PyJWS(algorithms=[ALGORITHM])
_SCOPES: Final = {scope.value: scope for scope in Scope}


@frozen
class Verified:
    """A credential that was good when it was presented.

    Attributes:
        caller: Whom it speaks for.
        kid: The key that signed it.
    """

    caller: Caller
    kid: str


def refused(message: str) -> ApiError:
    """An `unauthenticated` that says what to do and nothing that helps a forger."""
    return ApiError(Code.UNAUTHENTICATED, message)


class Forged(Exception):
    """A token that nobody with a key has signed: whoever sends many of these is slowed down."""


def no_credential() -> ApiError:
    """What a request without a usable credential is answered with."""
    return refused(
        "A valid credential is needed: send it as `Authorization: Bearer …`. `computerctl token create` makes one."
    )


@define(eq=False)
class Credentials:
    """Checks tokens.

    Attributes:
        keys: Of the host.
        revocations: What no longer counts.
        wall: Seconds since the epoch.
        own: Keys that live in this process only, by `kid`: of the local credential.
    """

    keys: KeyRing
    revocations: Revocations
    wall: Callable[[], float]
    own: dict[str, Ed25519PublicKey] = field(factory=dict)
    _remembered: dict[bytes, Verified] = field(factory=dict, init=False)

    def known(self, token: str) -> Verified | None:
        """The credential if it was verified before and still counts. Costs one hash."""
        verified = self._remembered.get(_digest(token)) if len(token) <= MAX_TOKEN_BYTES else None
        return verified if verified is not None and self.problem(verified) is None else None

    def verify(self, token: str) -> Verified:
        """Checks a token, which may be any text.

        Raises:
            Forged: It is not signed by a key that counts.
            ApiError: `unauthenticated`: it is signed, but has expired, was revoked, or says something impossible;
                `unavailable`: the host's key is not there yet.
        """
        digest = _digest(token)
        verified = self._remembered.get(digest)
        if verified is None or self._key(verified.kid) is None:
            verified = self._check(token)
            self._remember(digest, verified)
        problem = self.problem(verified)
        if problem is not None:
            raise refused(problem)
        return verified

    def problem(self, verified: Verified) -> str | None:
        """Why a credential that was verified no longer counts, or None. Never waits."""
        caller = verified.caller
        if caller.expires_at is not None and self.wall() >= caller.expires_at:
            return "The credential has expired: get a new one."
        if self._key(verified.kid) is None:
            return "The credential was signed with a key that is no longer accepted: get a new one."
        if self.revocations.revoked(caller.token_id, caller.member.id, caller.issued_at):
            return "The credential was revoked: get a new one."
        return None

    def trust(self, minted: Minted, kid: str) -> Verified:
        """Remembers a credential that this process has just made, so that it passes even where the caller's address is slowed down."""
        key = self.own[kid]
        payload = _signatures.decode(minted.token, key, algorithms=[ALGORITHM])
        verified = Verified(_caller(_claims.decode(payload)), kid)
        self._remember(_digest(minted.token), verified)
        return verified

    def _remember(self, digest: bytes, verified: Verified) -> None:
        while len(self._remembered) >= _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = verified

    def _key(self, kid: str) -> Ed25519PublicKey | None:
        return self.own.get(kid) or self.keys.get(kid)

    def _check(self, token: str) -> Verified:
        header = _read_header(token)
        key = self._key(header.kid)
        if key is None and not self.keys.ready:
            raise no_key_yet()
        key = key or self._key(header.kid)
        if key is None:
            raise Forged
        try:
            payload = _signatures.decode(token, key, algorithms=[ALGORITHM])
        except jwt.PyJWTError as error:
            raise Forged from error
        try:
            claims = _claims.decode(payload)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise refused("The credential's claims are not those of a computerd credential: get a new one.") from error
        if claims.aud != AUDIENCE:
            raise refused("The credential is for another service: get one for computerd.")
        if max(claims.iat, claims.nbf or 0) > self.wall() + _SKEW_SECONDS:
            raise refused("The credential is from the future: set the clocks of this host and of who made it.")
        return Verified(_caller(claims), header.kid)


def no_key_yet() -> ApiError:
    """What everybody hears while the host's key is awaited; over WebSocket the close code 4503."""
    return ApiError(
        Code.UNAVAILABLE,
        "The host's verification key is not there yet: try again in 2 seconds.",
        retry_after_ms=limits.NO_KEY_RETRY_MS,
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _read_header(token: str) -> _Header:
    if len(token) > MAX_TOKEN_BYTES:
        raise Forged
    shape = _SHAPE.fullmatch(token)
    if shape is None or not all(map(_canonical, shape.groups())):
        raise Forged
    try:
        return _header.decode(_decode(shape[1]))
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Forged from error


def _decode(segment: str) -> bytes:
    return urlsafe_b64decode(segment + "=" * (-len(segment) % 4))


def _canonical(segment: str) -> bool:
    """Whether this is the one way to spell its bytes: the last character may carry bits that decoding drops."""
    if len(segment) % 4 == 1:
        return False
    return urlsafe_b64encode(_decode(segment)).rstrip(b"=") == segment.encode("ascii")


def _caller(claims: _Claims) -> Caller:
    scopes = frozenset(_SCOPES[word] for word in claims.scope.split(" ") if word in _SCOPES)
    return Caller(
        member=Person(id=claims.sub, name=claims.name, email=claims.email),
        admin=claims.admin,
        scopes=scopes,
        via="api",
        client=None,
        token_id=claims.jti,
        issued_at=float(claims.iat),
        expires_at=None if claims.exp is None else float(claims.exp),
    )
