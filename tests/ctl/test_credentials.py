"""`computerctl key` and `computerctl token`."""

from __future__ import annotations

import contextlib
import io
import json
import stat

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from computerd.ctl.main import main
from tests.ctl.running import NOW, CtlTestCase

SCOPES = ("--scope", "terminals", "--scope", "sessions:read")


class Keys(CtlTestCase):
    """`computerctl key init`."""

    def test_makes_the_pair_once(self) -> None:
        first = self.good("key", "init")
        self.assertEqual(self.good("key", "init"), first)
        private, public = self.state / "keys" / "host_ed25519", self.state / "keys" / "host_ed25519.pub"
        self.assertEqual(stat.S_IMODE(private.stat().st_mode), 0o600)
        self.assertTrue(public.read_text().startswith("-----BEGIN PUBLIC KEY-----"))
        self.assertEqual(stat.S_IMODE(self.state.stat().st_mode), 0o700)
        self.assertIn(str(private), first[0])

    def test_a_key_that_others_can_read_is_refused(self) -> None:
        self.good("key", "init")
        (self.state / "keys" / "host_ed25519").chmod(0o644)
        ran = self.ctl("token", "create", "--member", "ada")
        self.assertEqual((ran.status, ran.out), (1, []))
        self.assertIn("host_ed25519", ran.said[-1])

    def test_not_where_credentials_are_made_elsewhere(self) -> None:
        ran = self.ctl("key", "init", environ={"COMPUTERD_AUTH_PUBLIC_KEY": "/k.pub"})
        self.assertEqual(ran.status, 1)
        self.assertFalse((self.state / "keys").exists())


class Create(CtlTestCase):
    """`computerctl token create`."""

    def claims(self, token: str) -> dict[str, object]:
        key = load_pem_public_key((self.state / "keys" / "host_ed25519.pub").read_bytes())
        assert isinstance(key, Ed25519PublicKey)
        claims: dict[str, object] = jwt.decode(
            token, key, algorithms=["EdDSA"], audience="computerd", options={"verify_exp": False, "verify_iat": False}
        )
        return claims

    def test_prints_one_token_and_nothing_else(self) -> None:
        out = self.good(
            "token", "create", "--member", "ada", "--name", "Ada L", "--email", "a@b", "--admin", *SCOPES, "--ttl", "8h"
        )
        self.assertEqual(len(out), 1)
        claims = self.claims(out[0])
        self.assertEqual(
            (claims["sub"], claims["name"], claims["email"], claims["admin"]), ("ada", "Ada L", "a@b", True)
        )
        self.assertEqual(set(str(claims["scope"]).split()), {"terminals", "sessions:read"})
        self.assertEqual((claims["iat"], claims["exp"]), (int(NOW), int(NOW) + 8 * 3600))

    def test_without_ttl_it_does_not_end(self) -> None:
        self.assertNotIn("exp", self.claims(self.good("token", "create", "--member", "ada", *SCOPES)[0]))

    def test_without_scope_says_so_beside_the_token(self) -> None:
        ran = self.ctl("token", "create", "--member", "ada")
        self.assertEqual((ran.status, len(ran.out)), (0, 1))
        self.assertIn("no scope and opens nothing but GET /metrics", ran.said[-1])

    def test_a_token_that_can_t_be_written_down_is_not_given_out(self) -> None:
        self.good("key", "init")
        for file in self.state.glob("journal.db*"):
            file.unlink()
        (self.state / "journal.db").mkdir()
        ran = self.ctl("token", "create", "--member", "ada", *SCOPES)
        self.assertEqual((ran.status, ran.out), (1, []))

    def test_wrong_usage(self) -> None:
        for words in (
            [],
            ["--member", ""],
            ["--member", "a\nb"],
            ["--member", "ada", "--scope", "terminal"],
            ["--member", "ada", "--ttl", "0h"],
            ["--member", "ada", "--ttl", "8"],
            ["--member", "ada", "--ttl", "9999w"],
        ):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(self.assertRaises(SystemExit, main, ["token", "create", *words]).code, 2, words)

    def test_a_wrong_scope_names_the_right_ones(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertRaises(SystemExit, main, ["token", "create", "--member", "ada", "--scope", "terminal"])
        self.assertIn("must be one of sessions:read, sessions:write, ", said.getvalue())
        self.assertIn("not 'terminal'", said.getvalue())


class Revoke(CtlTestCase):
    """`computerctl token list` and `revoke`."""

    def states(self) -> dict[str, str]:
        rows = json.loads("\n".join(self.good("token", "list", "--json")))
        return {row["member"]: row["state"] for row in rows}

    def test_by_id_and_by_member(self) -> None:
        for member in ("ada", "bob", "eve"):
            self.good("token", "create", "--member", member, *SCOPES)
        rows = json.loads("\n".join(self.good("token", "list", "--json")))
        (identifier,) = [row["id"] for row in rows if row["member"] == "ada"]
        self.good("token", "revoke", identifier)
        self.good("token", "revoke", "--member", "bob")
        self.assertEqual(self.states(), {"ada": "revoked", "bob": "revoked", "eve": "good"})

    def test_expired(self) -> None:
        self.good("token", "create", "--member", "ada", *SCOPES, "--ttl", "1m")
        self.now += 61
        self.assertEqual(self.states(), {"ada": "expired"})

    def test_list_for_people(self) -> None:
        self.assertEqual(self.good("token", "list"), [])
        self.good("token", "create", "--member", "ada", "--admin", *SCOPES)
        head, row = self.good("token", "list")
        self.assertEqual(head.split(), ["JTI", "MEMBER", "STATE", "EXPIRES", "SCOPES"])
        self.assertEqual(row.split()[1:], ["ada", "good", "never", "admin", "sessions:read", "terminals"])

    def test_exactly_one_of_both(self) -> None:
        for words in ([], ["tk_1", "--member", "ada"]):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(self.assertRaises(SystemExit, main, ["token", "revoke", *words]).code, 2)

    def test_damaged_journal_is_one_line(self) -> None:
        self.good("token", "create", "--member", "ada", *SCOPES)
        (self.state / "journal.db").write_bytes(b"garbage" * 1000)
        ran = self.ctl("token", "list")
        self.assertEqual((ran.status, ran.out, len(ran.said)), (1, [], 1))
