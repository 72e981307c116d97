"""`opc sessions show, update, suspend, resume, archive, unarchive`, and what happens when the daemon does not answer."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from computerd.opc.session import described
from tests.opc.fake_journal import session
from tests.opc.person import Daemon

ID = session(1)["id"]
LOST: dict[str, Any] = {}
"""The request is carried out, and the connection reset before the answer."""
UNAVAILABLE = {"status": 503, "code": "unavailable", "retryAfterMs": 100}


class Sessions(SynchronousTestCase):
    def setUp(self) -> None:
        self.daemon = Daemon.start(session(1), session(2, archived=True))
        self.addCleanup(self.daemon.stop)

    def state(self) -> dict[str, Any]:
        return self.daemon.tell("/_/state")

    def done(self, *words: str) -> dict[str, Any]:
        """What `--json` prints."""
        done = self.daemon.run("sessions", *words, "--json")
        self.assertEqual((done.returncode, done.stderr, done.stdout.count(b"\n")), (0, b"", 1))
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def fault(self, what: str, *faults: dict[str, Any]) -> None:
        self.daemon.tell("/_/fault", what=what, faults=list(faults))

    def test_the_list_has_two_spellings(self) -> None:
        spellings: tuple[tuple[str, ...], ...] = ((), ("list",))
        for words in spellings:
            lines = self.daemon.run("sessions", *words).stdout.decode().splitlines()
            self.assertEqual([line.split()[0] for line in lines], ["ID", ID])
        for words in (
            ("--json", "--all", "--limit", "1"),
            ("--json", "--all", "--limit", "1", "list"),
            ("list", "--json", "--all", "--limit", "1"),
            ("--all", "list", "--limit=1", "--json"),
        ):
            told = json.loads(self.daemon.run("sessions", *words).stdout)
            self.assertEqual([one["id"] for one in told["sessions"]], [session(2)["id"]], words)

    def test_show(self) -> None:
        self.assertEqual(self.done("show", ID), {"session": session(1)})
        lines = self.daemon.run("sessions", "show", ID).stdout.decode().splitlines()
        self.assertEqual(lines[:5], [
            f"id           {ID}",
            "title        session 1",
            "status       idle",
            "owner        Me (me)",
            "origin       opc opc/1.0",
        ])  # fmt: skip
        self.assertIn("model        -", lines)
        self.assertIn("events       1 to 0 of le_000000000001", lines)

    def test_nothing_in_it_steers_the_terminal(self) -> None:
        strange = session(1) | {
            "title": "a\x1b]0;b\x07\nid c",
            "metadata": {"k\n": "\u202ev"},
            "owner": 1,
            "settings": None,
        }
        lines = described(strange)
        self.assertTrue(all(line.isprintable() for line in lines))
        self.assertIn("metadata     k\\x0a=\\u202ev", lines)

    def test_update(self) -> None:
        told = self.done(
            "update", ID, "--title", "né \x1b", "--speed", "fast", "--model", "m", "--effort", "high", "--mode", "plan"
        )
        self.assertEqual(told["seq"], 1)
        self.assertEqual(told["session"]["title"], "né \x1b")
        self.assertEqual(told["session"]["settings"], {"model": "m", "effort": "high", "mode": "plan", "speed": "fast"})
        self.assertEqual(
            self.state()["changes"][0].keys(), {"method", "sessionId", "title", "speed", "model", "effort", "mode"}
        )
        shown = self.daemon.run("sessions", "update", ID, "--title", "x").stdout.decode()
        self.assertIn("title        x\n", shown)
        self.assertIn("speed        fast\n", shown)

    def test_metadata_is_merged(self) -> None:
        def metadata(*words: str) -> Any:
            return self.done("update", ID, *words)["session"]["metadata"]

        self.assertEqual(
            metadata("--metadata", "a=1", "--metadata", "b=x=y", "--metadata", "c="), {"a": "1", "b": "x=y", "c": ""}
        )
        self.assertEqual(metadata("--metadata", "a=2", "--unset", "b", "--unset", "nothing"), {"a": "2", "c": ""})
        self.assertEqual(self.done("update", ID, "--title", "t")["session"]["metadata"], {"a": "2", "c": ""})
        self.assertEqual(metadata("--no-metadata", "--metadata", "d=4"), {"d": "4"})
        shown = self.daemon.run("sessions", "show", ID).stdout.decode()
        self.assertIn("metadata     d=4\n", shown)
        self.assertEqual(metadata("--unset", "d", "--metadata", "d=5"), {"d": "5"})
        self.assertEqual(metadata("--no-metadata"), {})

    def test_the_short_verbs(self) -> None:
        for words, said in (
            (("suspend",), "suspended"),
            (("resume",), "idle"),
            (("archive",), "idle, archived"),
            (("unarchive",), "idle"),
            (("suspend", "--if-idle"), "suspended"),
        ):
            done = self.daemon.run("sessions", words[0], ID, *words[1:])
            self.assertEqual((done.returncode, done.stdout.decode(), done.stderr), (0, f"{ID} {said}\n", b""))
        self.assertEqual(self.done("resume", ID)["session"]["status"], "idle")
        changes = self.state()["changes"]
        self.assertEqual(
            [{k: v for k, v in one.items() if k != "sessionId"} for one in changes],
            [
                {"method": "sessions.suspend"},
                {"method": "sessions.resume"},
                {"method": "sessions.update", "archived": True},
                {"method": "sessions.update", "archived": False},
                {"method": "sessions.suspend", "ifIdle": True},
                {"method": "sessions.resume"},
            ],
        )
        self.assertEqual(len(set(self.state()["keys"])), 6)

    def test_a_change_is_made_once_however_often_it_is_asked_for(self) -> None:
        for verb, method, words in (
            ("PATCH", "sessions.update", ("update", ID, "--title", "t")),
            ("PATCH", "sessions.update", ("archive", ID)),
            ("POST", "sessions.suspend", ("suspend", ID)),
        ):
            before = self.state()
            limited = {"status": 429, "code": "rate_limited", "retryAfterMs": 100}
            self.fault(verb, LOST, UNAVAILABLE, limited, LOST)
            told = self.done(*words)
            after = self.state()
            self.assertEqual(told["seq"], told["session"]["lastSeq"])
            self.assertEqual([one["method"] for one in after["changes"][len(before["changes"]) :]], [method])
            keys = after["keys"][len(before["keys"]) :]
            self.assertEqual((len(keys), len(set(keys))), (3, 1))

    def test_the_metadata_that_is_read_first_is_asked_for_again(self) -> None:
        self.fault("GET", LOST, UNAVAILABLE)
        self.assertEqual(self.done("update", ID, "--metadata", "a=1")["session"]["metadata"], {"a": "1"})

    def test_a_daemon_that_comes_back(self) -> None:
        """It knows what it has done, but no local token of before."""
        self.fault("PATCH", {"away": {"code": 1012, "seconds": 1.0, "token": "another"}})
        self.assertEqual(self.done("update", ID, "--title", "t")["session"]["title"], "t")
        keys = self.state()["keys"]
        self.assertEqual((len(keys), len(set(keys)), len(self.state()["changes"])), (2, 1, 1))

    def test_refusals(self) -> None:
        for words, code, said in (
            (("show", "cs_none"), "session_not_found", "There is no such session"),
            (("show", "a/../../x y?z"), "session_not_found", "There is no such session"),
            (("update", ID, "--title", ""), "invalid_request", "title must be"),
            (("update", ID, "--model", "none-such"), "unsupported_model", "There is no such model."),
            (("suspend", "cs_none"), "session_not_found", "There is no such session"),
        ):
            done = self.daemon.run("sessions", *words)
            self.assertEqual((done.returncode, done.stdout), (1, b""), words)
            self.assertIn(said, done.stderr.decode())
            done = self.daemon.run("sessions", *words, "--json")
            self.assertEqual((done.returncode, done.stderr), (1, b""))
            self.assertEqual(json.loads(done.stdout)["error"]["code"], code)
            self.assertEqual(json.loads(done.stdout)["error"]["requestId"], "rq_1")

    def test_no_daemon_is_told_at_once(self) -> None:
        done = self.daemon.run("sessions", "suspend", ID, env={"OPC_URL": "ws://127.0.0.1:1", "OPC_TOKEN": "x"})
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"can't reach a daemon", done.stderr)

    def test_wrong_usage(self) -> None:
        for words in (
            ("update", ID),
            ("update", ID, "--metadata", "a"),
            ("update", ID, "--metadata", "=b"),
            ("update", ID, "--speed", "slow"),
            ("update", "--title", "x"),
            ("show",),
            ("show", ""),
            ("destroy", ID),
            ("suspend", ID, "--if"),
        ):
            done = self.daemon.run("sessions", *words)
            self.assertEqual((done.returncode, done.stdout), (2, b""), words)
            self.assertIn(b"usage: opc", done.stderr)
        self.assertEqual(self.state()["changes"], [])
