"""`computerctl audit`, and what computerctl writes down of its own doings."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pwd
import sqlite3
from typing import Any

from computerd.api.audit import Entry
from computerd.ctl.main import main
from computerd.journal import audit
from computerd.journal.database import FILE
from tests.ctl.running import NOW, CtlTestCase

SESSION = "cs_0123456789abcdef"


class AuditCase(CtlTestCase):
    """A journal with rows that a test writes."""

    def setUp(self) -> None:
        super().setUp()
        self.state.mkdir(mode=0o700)
        self.file = str(self.state / FILE)

    def write(self, action: str, at: float = NOW, **fields: Any) -> None:
        """One row."""
        audit.append(self.file, Entry(at=at, action=action, **fields))

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """What `computerctl audit --json` prints."""
        return [json.loads(line) for line in self.good("audit", "--json", *words)]

    def change(self, statement: str, *values: object) -> None:
        """Does what nobody should: writes into the table."""
        with contextlib.closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute(statement, values)


class ShowTests(AuditCase):
    """What is shown, and how."""

    def test_nothing_yet(self) -> None:
        ran = self.ctl("audit")
        self.assertEqual((ran.status, ran.out, len(ran.said)), (0, [], 1))

    def test_a_table_like_a_log(self) -> None:
        self.write("terminals.open", member="ada", token_id="tk_1", session_id=SESSION, subject="tm_1")
        self.write("credential.refused", NOW + 1, result="forged", subject="192.0.2.1", count=7)
        head, first, second = self.good("audit")
        self.assertEqual(head.split(), ["TIME", "ACTION", "RESULT", "MEMBER", "TOKEN", "SESSION", "SUBJECT"])
        self.assertEqual(
            first.split(), ["2027-01-15T08:00:00.000Z", "terminals.open", "ok", "ada", "tk_1", SESSION, "tm_1"]
        )
        self.assertEqual(
            second.split()[1:], ["credential.refused", "forged", "-", "-", "-", "192.0.2.1", "(7", "times)"]
        )
        self.assertEqual(head.index("RESULT"), first.index("ok"))

    def test_one_json_object_a_line(self) -> None:
        self.write("terminals.open", member="ada", token_id="tk_1", session_id=SESSION, subject="tm_1")
        self.assertEqual(
            self.rows(),
            [
                {
                    "number": 1, "time": "2027-01-15T08:00:00.000Z", "action": "terminals.open", "result": "ok",
                    "member": "ada", "tokenId": "tk_1", "sessionId": SESSION, "subject": "tm_1", "count": 1, "sound": True,
                }
            ],
        )  # fmt: skip

    def test_the_newest_of_many_and_the_newest_last(self) -> None:
        for number in range(5):
            self.write("ping", NOW + number, subject=str(number))
        self.assertEqual([row["subject"] for row in self.rows("--limit", "2")], ["3", "4"])

    def test_what_is_asked_for(self) -> None:
        self.write("terminals.open", NOW - 7201, member="ada", session_id=SESSION)
        self.write("terminals.open", NOW - 7200, member="bob", session_id=SESSION)
        self.write("sessions.create", NOW - 60, member="ada", session_id="cs_other")
        for words, found in (
            (("--since", "2h"), [2, 3]),
            (("--since", "2027-01-15T06:00:00Z"), [2, 3]),
            (("--since", "2027-01-15T07:00:00+01:00"), [2, 3]),
            (("--since", "2027-01-15"), [1, 2, 3]),
            (("--until", "1m"), [1, 2]),
            (("--until", "2027-01-15T06:00"), [1]),
            (("--member", "ada"), [1, 3]),
            (("--session", SESSION), [1, 2]),
            (("--action", "sessions.create"), [3]),
            (("--member", "ada", "--session", SESSION, "--since", "1w"), [1]),
            (("--member", "eve"), []),
        ):
            self.assertEqual([row["number"] for row in self.rows(*words)], found, words)

    def test_nothing_that_was_written_steers_a_terminal(self) -> None:
        """G2."""
        evil = "a\x1b[2J\nb\u2028c\x9b\u202e"
        self.write("x", member=evil, subject=evil, session_id=evil, token_id=evil)
        for words in ((), ("--json",)):
            for line in self.good("audit", *words):
                self.assertTrue(line.isprintable(), line)
                self.assertEqual(len(line.splitlines()), 1)
        self.assertEqual(self.rows()[0]["member"], evil)

    def test_wrong_usage(self) -> None:
        for words in (["--since", "yesterday"], ["--until", "2h ago"], ["--limit", "0"], ["--limit", "x"]):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(self.assertRaises(SystemExit, main, ["audit", *words]).code, 2, words)


class DamageTests(AuditCase):
    """Rows that are not what was written. Whoever changes them hopes that nobody looks."""

    def setUp(self) -> None:
        super().setUp()
        for member in ("ada", "bob", "eve"):
            self.write("terminals.open", member=member)

    def test_a_changed_row(self) -> None:
        """G4."""
        self.change("UPDATE audit SET member = 'mallory' WHERE member = 'bob'")
        ran = self.ctl("audit")
        self.assertEqual((ran.status, len(ran.said)), (1, 1))
        self.assertEqual([("DAMAGED" in line) for line in ran.out], [False, False, True, False])
        ran = self.ctl("audit", "--json")
        self.assertEqual((ran.status, [json.loads(line)["sound"] for line in ran.out]), (1, [True, False, True]))
        self.assertEqual(self.ctl("audit", "--member", "ada").status, 0)

    def test_a_missing_row(self) -> None:
        """G4."""
        self.change("DELETE FROM audit WHERE member = 'bob'")
        ran = self.ctl("audit")
        self.assertEqual((ran.status, len(ran.out)), (1, 3))
        self.assertIn("1 rows are missing", ran.said[0])
        self.assertEqual(self.ctl("audit", "--action", "terminals.open").status, 0)

    def test_old_rows_that_were_cleared_away_are_not_missing(self) -> None:
        self.change("DELETE FROM audit WHERE member = 'ada'")
        self.assertEqual(self.ctl("audit").status, 0)

    def test_a_time_that_is_none(self) -> None:
        self.change("UPDATE audit SET at = ? WHERE member = 'bob'", 2**61)
        ran = self.ctl("audit")
        self.assertEqual((ran.status, ran.out[2].split()[0]), (1, "?"))


class OwnTests(AuditCase):
    """What computerctl did is on the disk before it says so (G4)."""

    def test_keys_and_credentials(self) -> None:
        self.good("token", "create", "--member", "ada", "--scope", "terminals")
        (issued,) = json.loads("\n".join(self.good("token", "list", "--json")))
        self.good("token", "revoke", issued["id"])
        self.good("token", "revoke", "--member", "bob")
        made, *rest = self.rows()
        me = f"by {pwd.getpwuid(os.geteuid()).pw_name} (uid {os.geteuid()})"
        self.assertEqual((made["action"], made["member"]), ("key.created", None))
        self.assertRegex(made["subject"], r"^[\w-]{43}, by ")
        self.assertEqual(
            [(row["action"], row["member"], row["tokenId"], row["result"]) for row in rest],
            [
                ("token.created", "ada", issued["id"], "ok"),
                ("token.revoked", None, issued["id"], "ok"),
                ("token.revoked", "bob", None, "ok"),
            ],
        )
        for row in (made, *rest):
            self.assertIn(me, row["subject"])
        self.assertEqual([row["action"] for row in self.rows("--member", "ada")], ["token.created"])

    def test_a_key_is_made_once(self) -> None:
        self.good("key", "init")
        self.good("key", "init")
        self.assertEqual([row["action"] for row in self.rows()], ["key.created"])

    def test_the_credential_is_not_in_it(self) -> None:
        """G1."""
        (token,) = self.good("token", "create", "--member", "ada", "--scope", "terminals")
        self.assertNotIn(token.rpartition(".")[2], json.dumps(self.rows()))
