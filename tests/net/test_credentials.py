from __future__ import annotations

import hashlib
import hmac
import json
import os
from base64 import urlsafe_b64encode
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.access import Scope
from computerd.contract.errors import ApiError, Code
from computerd.net.credentials import Credentials, Forged
from computerd.net.keyring import KeyRing
from computerd.net.keys import NoKeyYet
from computerd.net.signer import Signer
from tests.net.fakes import NOW, FakeRevocations, Issuer, Wall

GOOD: dict[str, Any] = {
    "sub": "alice", "name": "Alice", "email": "a@example.org", "admin": False, "scope": "sessions:read terminals",
    "aud": "computerd", "iat": int(NOW), "exp": int(NOW) + 60, "jti": "tk_1",
}  # fmt: skip


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


class CredentialCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.issuer = Issuer(self.clock.seconds)
        self.issuer.keys.open()
        self.credentials = self.issuer.credentials

    def sign(self, claims: dict[str, Any] | bytes, **header: Any) -> str:
        """A token signed with the host's key, whatever it says."""
        head = {"alg": "EdDSA", "typ": "JWT", "kid": self.issuer.signer.kid, **header}
        head = {name: value for name, value in head.items() if value is not ...}
        payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
        signed = f"{b64(json.dumps(head).encode())}.{b64(payload)}"
        return f"{signed}.{b64(self.issuer.signer.key.sign(signed.encode()))}"

    def refused(self, token: str) -> None:
        """401, whichever way, and never anything else."""
        try:
            verified = self.credentials.verify(token)
        except Forged:
            return
        except ApiError as error:
            self.assertEqual(error.code, Code.UNAUTHENTICATED)
            return
        self.fail(f"accepted {token!r}: {verified}")


class GoodTests(CredentialCase):
    def test_the_caller(self) -> None:
        caller = self.credentials.verify(self.sign(GOOD)).caller
        self.assertEqual(
            (caller.member.id, caller.member.name, caller.member.email), ("alice", "Alice", "a@example.org")
        )
        self.assertEqual(caller.scopes, {Scope.SESSIONS_READ, Scope.TERMINALS})
        self.assertEqual((caller.token_id, caller.issued_at, caller.expires_at), ("tk_1", NOW, NOW + 60))
        self.assertFalse(caller.admin)

    def test_exp_is_optional(self) -> None:
        claims = {name: value for name, value in GOOD.items() if name != "exp"}
        self.assertIsNone(self.credentials.verify(self.sign(claims)).caller.expires_at)

    def test_what_pyjwt_makes_is_accepted(self) -> None:
        token = jwt.encode(GOOD, self.issuer.signer.key, algorithm="EdDSA", headers={"kid": self.issuer.signer.kid})
        self.assertEqual(self.credentials.verify(token).caller.member.id, "alice")

    def test_minted(self) -> None:
        minted = self.issuer.mint("bob", ttl=30)
        caller = self.credentials.verify(minted.token).caller
        self.assertEqual((caller.member.id, caller.token_id, caller.expires_at), ("bob", minted.token_id, NOW + 30))
        self.assertEqual(caller.scopes, set(Scope))


class AlgorithmTests(CredentialCase):
    """C1: one algorithm, one purpose."""

    def test_none(self) -> None:
        for alg in ("none", "None", "NONE", "", None, 1):
            self.refused(self.sign(GOOD, alg=alg))
        head, body, _ = self.sign(GOOD, alg="none").split(".")
        self.refused(f"{head}.{body}.")

    def test_hmac_with_the_public_key(self) -> None:
        public = self.issuer.signer.key.public_key()
        for key in (
            public.public_bytes(Encoding.Raw, PublicFormat.Raw),
            public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
        ):
            for alg, digest in (("HS256", hashlib.sha256), ("HS512", hashlib.sha512), ("EdDSA", hashlib.sha512)):
                head = b64(json.dumps({"alg": alg, "typ": "JWT", "kid": self.issuer.signer.kid}).encode())
                signed = f"{head}.{b64(json.dumps(GOOD).encode())}"
                self.refused(f"{signed}.{b64(hmac.new(key, signed.encode(), digest).digest())}")

    def test_other_signatures(self) -> None:
        header = {"kid": self.issuer.signer.kid}
        self.refused(jwt.encode(GOOD, rsa.generate_private_key(65537, 2048), algorithm="RS256", headers=header))
        self.refused(jwt.encode(GOOD, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256", headers=header))
        self.refused(jwt.encode(GOOD, Signer.ephemeral("", os.urandom).key, algorithm="EdDSA", headers=header))

    def test_another_purpose(self) -> None:
        for typ in ("at+jwt", "dpop+jwt", "JOSE", ..., None, ""):
            self.refused(self.sign(GOOD, typ=typ))
        for audience in ("other", "computerd.other", "", None, ["computerd"], ["computerd", "other"], 1):
            self.refused(self.sign({**GOOD, "aud": audience}))

    def test_kid(self) -> None:
        for kid in (..., None, "", "other", 1, ["x"], "local", "../../dev/null"):
            self.refused(self.sign(GOOD, kid=kid))

    def test_more_in_the_header(self) -> None:
        for name in ("crit", "jwk", "jku", "x5c", "b64", "zip", "cty"):
            self.refused(self.sign(GOOD, **{name: []}))


class EncodingTests(CredentialCase):
    """C2: one spelling."""

    def test_every_bit_of_a_good_token(self) -> None:
        token = self.sign(GOOD).encode()
        for at in range(len(token)):
            for bit in range(8):
                broken = bytearray(token)
                broken[at] ^= 1 << bit
                self.refused(broken.decode("latin-1"))

    def test_padding_alphabet_spaces_and_more(self) -> None:
        token = self.sign(GOOD)
        head, body, signature = token.split(".")
        for broken in (
            token + "=", token + "A", token + ".", token + " ", " " + token, token + "\n", "\x00" + token, token + "é", "é" * 50,
            f"{head}=.{body}.{signature}", f"{head}.{body}==.{signature}", f"{head} .{body}.{signature}",
            token.replace("_", "/").replace("-", "+") + "/", f"{head}.{body}", head, "", ".", "..", "...", f"{token}.{signature}",
            "\ud800", "a" * 5000, "a" * 4096 + "." + "b" * 4096,
        ):  # fmt: skip
            self.refused(broken)

    def test_five_kibibytes(self) -> None:
        self.refused(self.sign({**GOOD, "x": "y" * 5000}))

    @settings(max_examples=300, deadline=None)
    @given(
        st.text(max_size=200)
        | st.from_regex(r"[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{86}", fullmatch=True)
    )
    def test_any_text(self, token: str) -> None:
        self.refused(token)

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=300))
    def test_any_header(self, header: bytes) -> None:
        self.refused(f"{b64(header) or 'A'}.{b64(b'{}')}.{'A' * 86}")

    def test_deep_json(self) -> None:
        self.refused(f"{b64(b'[' * 2800)}.{b64(b'{}')}.{'A' * 86}")
        self.refused(self.sign(b"[" * 2500))


class ClaimTests(CredentialCase):
    """C3: required and typed."""

    BAD: tuple[Any, ...] = (None, "1", 1.5, -1, 10**18, 2**70, [], {}, True, float(NOW))

    def test_required(self) -> None:
        for name in ("sub", "scope", "jti", "iat", "aud"):
            self.refused(self.sign({key: value for key, value in GOOD.items() if key != name}))

    def test_moments(self) -> None:
        for value in self.BAD:
            self.refused(self.sign({**GOOD, "iat": value}))
            if value is not None:
                self.refused(self.sign({**GOOD, "exp": value}))
                self.refused(self.sign({**GOOD, "nbf": value}))

    def test_numbers_that_are_none(self) -> None:
        for number in (b"NaN", b"Infinity", b"1e400", b"1e3", b"01", b"-0", b"1" * 500):
            text = json.dumps(GOOD).encode().replace(str(GOOD["exp"]).encode(), number)
            self.refused(self.sign(text))

    def test_texts(self) -> None:
        texts: tuple[Any, ...] = (None, "", 1, [], {}, True, "x" * 256, "a\x00b", "a\nb")
        for name in ("sub", "jti"):
            for value in texts:
                self.refused(self.sign({**GOOD, name: value}))
        for value in (1, [], True, "", "x" * 256, "a\rb"):
            self.refused(self.sign({**GOOD, "name": value}))
        scopes: tuple[Any, ...] = (None, 1, ["terminals"], True)
        for value in scopes:
            self.refused(self.sign({**GOOD, "scope": value}))
        for value in (None, 1, "true", "false", 0):
            self.refused(self.sign({**GOOD, "admin": value}))

    def test_lone_surrogates(self) -> None:
        self.refused(self.sign(json.dumps(GOOD).replace("alice", "\\ud800").encode()))

    def test_not_before(self) -> None:
        self.refused(self.sign({**GOOD, "nbf": int(NOW) + 120}))
        self.refused(self.sign({**GOOD, "iat": int(NOW) + 120}))
        self.credentials.verify(self.sign({**GOOD, "nbf": int(NOW), "iat": int(NOW) + 30}))


class ScopeTests(CredentialCase):
    """C4: an unknown scope grants nothing."""

    def test_variants(self) -> None:
        for scope in (
            "Terminals",
            "terminal",
            "terminals:x",
            "sessions",
            "sessions:*",
            "*",
            "admin",
            "terminals\tx",
            "",
        ):
            caller = self.credentials.verify(self.sign({**GOOD, "scope": scope})).caller
            self.assertEqual(caller.scopes, frozenset(), scope)

    def test_beside_known_ones(self) -> None:
        caller = self.credentials.verify(self.sign({**GOOD, "scope": "root  files:read  files:read nothing"})).caller
        self.assertEqual(caller.scopes, {Scope.FILES_READ})


class TimeTests(CredentialCase):
    def test_expiry_is_asked_each_time(self) -> None:
        token = self.issuer.mint(ttl=10).token
        self.credentials.verify(token)
        self.issuer.wall.now += 10
        self.refused(token)
        self.assertIsNone(self.credentials.known(token))

    def test_revocation_is_asked_each_time(self) -> None:
        minted = self.issuer.mint()
        self.credentials.verify(minted.token)
        self.issuer.revocations.revoke(minted.token_id)
        self.refused(minted.token)

    def test_revoking_a_member(self) -> None:
        """C7."""
        old = self.issuer.mint("bob").token
        self.issuer.wall.now += 5
        self.issuer.revocations.members["bob"] = NOW + 4
        self.refused(old)
        self.credentials.verify(self.issuer.mint("bob").token)

    def test_the_key_is_asked_each_time(self) -> None:
        """C8: a removed key's tokens fail at once."""
        token = self.issuer.mint().token
        verified = self.credentials.verify(token)
        self.issuer.signer = Signer.ephemeral("", os.urandom)
        self.issuer.keys.reload()
        self.refused(token)
        self.assertIsNotNone(self.credentials.problem(verified))

    def test_memory_is_bounded(self) -> None:
        for _ in range(1100):
            self.credentials.verify(self.issuer.mint().token)
        self.assertLessEqual(len(self.credentials._remembered), 1024)

    def test_what_is_known_costs_no_signature(self) -> None:
        token = self.issuer.mint().token
        self.assertIsNone(self.credentials.known(token))
        verified = self.credentials.verify(token)
        self.assertEqual(self.credentials.known(token), verified)
        self.assertIsNone(self.credentials.known("\ud800" * 10))


class NoKeyTests(SynchronousTestCase):
    def test_unavailable_until_it_appears(self) -> None:
        clock = Clock()
        issuer = Issuer(clock.seconds)
        there: list[bool] = []

        def source() -> list[Any]:
            if not there:
                raise NoKeyYet(None, "not yet")
            return [issuer.signer.key.public_key()]

        ring = KeyRing(source, clock.seconds)
        ring.open()
        credentials = Credentials(ring, FakeRevocations(), Wall())
        token = issuer.mint().token
        error = self.assertRaises(ApiError, credentials.verify, token)
        self.assertEqual((error.code, error.retry_after_ms), (Code.UNAVAILABLE, 2000))
        # what can't be a token needs no key to be refused
        self.assertRaises(Forged, credentials.verify, "x")
        there.append(True)
        clock.advance(2)
        self.assertEqual(credentials.verify(token).caller.member.id, "alice")


class LocalTests(CredentialCase):
    def test_a_key_of_this_process(self) -> None:
        local = Signer.ephemeral("local", os.urandom)
        self.credentials.own["local"] = local.key.public_key()
        minted = local.mint("root", name=None, email=None, admin=True, scopes=Scope, ttl=10, now=NOW, random=os.urandom)
        self.credentials.trust(minted, "local")
        verified = self.credentials.known(minted.token)
        assert verified is not None
        self.assertTrue(verified.caller.admin)
        self.issuer.wall.now += 10
        self.assertIsNone(self.credentials.known(minted.token))
