"""`opc events`, as scripts and people run it, against a daemon that goes away, forgets, repeats itself and changes its mind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.opc.fake_journal import EPOCH, session
from tests.opc.fake_server import TOKEN
from tests.opc.person import OPC, SHELL_OPC, WAIT, Daemon, wait_until

ID = session(1)["id"]


class Running:
    """`opc events -f`, and what it has printed."""

    def __init__(self, daemon: Daemon, *words: str, env: dict[str, str] | None = None, code: str | None = None) -> None:
        argv = (
            OPC if code is None else [OPC[0], "-c", f"{code}; import sys, computerd.opc.main as m; sys.exit(m.main())"]
        )
        self._out = daemon.folder / f"out-{len(words)}-{os.urandom(3).hex()}"
        self._err = self._out.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*argv, "events", "-f", *words],
                env=daemon.env(**(env or {})),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    @property
    def said(self) -> str:
        return self._err.read_text()

    def seqs(self) -> list[int]:
        return [json.loads(line)["seq"] for line in self.lines]

    def reach(self, seq: int) -> list[int]:
        """Waits for an event. Returns all until then."""

        def there() -> list[int]:
            if self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode}: {self.said}")
            return self.seqs() if f'"seq":{seq},' in self._out.read_text() else []

        found: list[int] = wait_until(there, f"event {seq} in {self.said!r}")
        return found

    def count(self, lines: int) -> None:
        wait_until(lambda: len(self.lines) >= lines, f"{lines} lines")

    def hear(self, words: str) -> None:
        wait_until(lambda: words in self.said, f"{words!r} in {self.said!r}")

    def end(self) -> int:
        return self.process.wait(WAIT)

    def leave(self) -> None:
        self.process.kill()
        self.process.wait()


class Case(SynchronousTestCase):
    """Each test has a daemon with one session."""

    def setUp(self) -> None:
        self.daemon = Daemon.start(session(1))
        self.addCleanup(self.daemon.stop)

    def tell(self, what: str, /, **body: Any) -> dict[str, Any]:
        return self.daemon.tell(f"/_/{what}", **body)

    def follow(self, *words: str, env: dict[str, str] | None = None, code: str | None = None) -> Running:
        running = Running(self.daemon, "--json", *words, env=env, code=code)
        self.addCleanup(running.leave)
        return running

    def following(self, count: int = 1) -> None:
        """Waits until somebody is attached."""
        wait_until(lambda: self.tell("state")["following"] >= count, "an attachment")

    def fault(self, what: str, *faults: dict[str, Any]) -> None:
        self.tell("fault", what=what, faults=list(faults))

    def events(self, count: int, **more: Any) -> None:
        self.tell("events", count=count, **more)

    def check(self) -> None:
        self.assertEqual(self.tell("state")["violations"], [])


class PrintingTests(Case):
    """Without -f."""

    def seqs(self, *words: str) -> list[int]:
        done = self.daemon.run("events", "--json", *words)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return [json.loads(line)["seq"] for line in done.stdout.splitlines()]

    def test_all_of_it_page_by_page(self) -> None:
        self.events(1234)
        self.assertEqual(self.seqs(ID), list(range(1, 1235)))
        self.assertEqual(self.daemon.requests().count(f"GET /sessions/{ID}/events"), 3)

    def test_the_newest_session_is_the_default(self) -> None:
        self.events(2)
        self.assertEqual(self.seqs(), [1, 2])
        self.assertNotIn("POST /sessions", self.daemon.requests())

    def test_none_is_made(self) -> None:
        daemon = Daemon.start(session(1, "you"))
        self.addCleanup(daemon.stop)
        done = daemon.run("events")
        self.assertEqual((done.returncode, done.stdout), (255, b""))
        self.assertIn(b"opc: you have no session.", done.stderr)
        self.assertNotIn("POST /sessions", daemon.requests())

    def test_without_a_credential_it_says_so_rather_than_that_there_is_no_session(self) -> None:
        for more, said in (({}, b"No token was found"), ({"OPC_TOKEN": "a.b.c"}, b"not valid")):
            done = self.daemon.run("events", env={"OPC_URL": self.daemon.url, **more})
            self.assertEqual((done.returncode, done.stdout), (255, b""))
            self.assertIn(said, done.stderr)
            self.assertNotIn(b"you have no session", done.stderr)

    def test_a_daemon_that_is_not_there_is_told_also_without_a_credential(self) -> None:
        done = self.daemon.run("events", "-f", env={"OPC_URL": "ws://127.0.0.1:1"})
        self.assertEqual((done.returncode, done.stdout), (255, b""))
        self.assertIn(b"can't reach a daemon", done.stderr)

    def test_an_empty_journal(self) -> None:
        self.assertEqual(self.seqs(ID), [])
        self.assertEqual(self.seqs(ID, "--tail", "5"), [])

    def test_a_part_of_it(self) -> None:
        self.events(20)
        self.assertEqual(self.seqs(ID, "--after", "17"), [18, 19, 20])
        self.assertEqual(self.seqs(ID, "--tail", "2"), [19, 20])
        self.assertEqual(self.seqs(ID, "--tail", "0"), [])
        self.assertEqual(self.seqs(ID, "--tail", "100"), list(range(1, 21)))

    def test_some_types(self) -> None:
        self.events(600, type="a.b")
        self.events(3, type="c.d")
        self.events(3, type="e.f")
        self.assertEqual(self.seqs(ID, "--type", "c.d", "--type", "e.f"), list(range(601, 607)))
        self.assertEqual(self.seqs(ID, "--type", "a.b"), list(range(1, 601)))
        self.assertEqual(self.seqs(ID, "--type", "none.such"), [])
        self.assertEqual(self.seqs(ID, "--type", "c.d", "--tail", "4"), [603])

    def test_json_is_what_the_api_gave(self) -> None:
        data = {"title": "a\x1b]0;b\x07\n\u009b1mä ✓ 🙂\u2028", "deep": [{"x": None, "y": 1.5, "z": True}]}
        self.events(1, type="other.kind", data=data, more={"extra": 7})
        done = self.daemon.run("events", "--json")
        self.assertEqual(done.stdout.count(b"\n"), 1)
        event = json.loads(done.stdout)
        self.assertEqual(event["data"], data)
        self.assertEqual(
            list(event), ["id", "seq", "createdAt", "sessionId", "turnId", "actor", "type", "data", "extra"]
        )
        self.assertTrue(done.stdout.decode()[:-1].isprintable())
        self.assertNotIn(b'": ', done.stdout)

    def test_for_a_person(self) -> None:
        self.events(1, type="session.status_changed", data={"from": "idle", "to": "running"})
        self.events(1, data={"terminalId": "tm_1", "command": "printf '\x1b[2J'\nrm x"})
        self.events(1, type="new.kind", data={"x": "\x9b"}, more={"actor": None})
        done = self.daemon.run("events", env={"TZ": "UTC"})
        self.assertEqual(
            done.stdout.decode().splitlines(),
            [
                "2026-11-13 09:30:00       1  session.status_changed  Me        idle → running",
                "2026-11-13 09:30:00       2  terminal.opened         Me        tm_1 printf '\\x1b[2J'\\x0arm x",
                '2026-11-13 09:30:00       3  new.kind                -         {"x":"\\u009b"}',
            ],
        )
        local = self.daemon.run("events", env={"TZ": "XYZ-2"}).stdout
        self.assertTrue(local.startswith(b"2026-11-13 11:30:00 "), local)

    def test_what_is_not_kept_is_told(self) -> None:
        self.events(20)
        self.tell("forget", last=12)
        done = self.daemon.run("events", "--json")
        self.assertEqual(done.stderr, b"opc: events 1 to 12 are not kept any longer.\n")
        self.assertEqual([json.loads(line)["seq"] for line in done.stdout.splitlines()], list(range(13, 21)))
        self.assertEqual(self.seqs("--tail", "3"), [18, 19, 20])

    def test_refusals(self) -> None:
        self.events(3)
        for words, said in (
            (("cs_nonsense",), b"There is no such session"),
            (("--after", "9"), b"The session's last event is 3"),
        ):
            for form in ((), ("--json",)):
                done = self.daemon.run("events", *words, *form)
                self.assertEqual((done.returncode, done.stdout), (255, b""))
                self.assertIn(said, done.stderr)

    def test_wrong_usage(self) -> None:
        for words in (
            ("--after", "1", "--tail", "1"),
            ("--after", "-1"),
            ("--type", "a,b"),
            ("--tail", "x"),
            ("a", "b"),
        ):
            done = self.daemon.run("events", *words)
            self.assertEqual((done.returncode, done.stdout), (2, b""), words)

    def test_a_break_between_pages(self) -> None:
        self.events(1100)
        self.fault("GET", {}, {"status": 503, "code": "unavailable", "retryAfterMs": 50}, {})
        self.assertEqual(self.seqs(ID), list(range(1, 1101)))

    def test_a_full_disk(self) -> None:
        self.events(3)
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [*OPC, "events"], env=self.daemon.env(), stdout=full, stderr=subprocess.PIPE, timeout=WAIT, check=False
            )
        self.assertEqual(done.returncode, 255)
        self.assertIn(b"opc: can't write the events: No space left", done.stderr)


class FollowingTests(Case):
    """With -f."""

    def test_from_the_beginning_and_on(self) -> None:
        self.events(3)
        running = self.follow(ID)
        running.reach(3)
        self.events(2)
        self.assertEqual(running.reach(5), [1, 2, 3, 4, 5])
        self.assertEqual(running.said, "")
        self.check()

    def test_only_what_is_new(self) -> None:
        self.events(5)
        running = self.follow("--tail", "0")
        self.following()
        self.events(1)
        self.assertEqual(running.reach(6), [6])
        other = self.follow("--tail", "2")
        self.assertEqual(other.reach(6), [5, 6])
        third = self.follow("--after", "3")
        self.assertEqual(third.reach(6), [4, 5, 6])

    def test_types_are_filtered_and_all_is_acknowledged(self) -> None:
        running = self.follow(ID, "--type", "b.b")
        self.following()
        self.events(150, type="a.a")
        self.events(1, type="b.b")
        self.assertEqual(running.reach(151), [151])
        wait_until(lambda: self.tell("state")["acks"][-1:] == [151], "the last acknowledgement")
        self.check()

    def test_acknowledgements_are_few_and_soon(self) -> None:
        running = self.follow(ID)
        self.following()
        self.events(1000)
        running.reach(1000)
        wait_until(lambda: self.tell("state")["acks"][-1:] == [1000], "the last acknowledgement")
        acks = self.tell("state")["acks"]
        self.assertLessEqual(len(acks), 40)
        self.assertEqual(acks, sorted(set(acks)))
        self.events(1)
        wait_until(lambda: self.tell("state")["acks"][-1:] == [1001], "one for a single event")
        self.check()

    def test_a_long_history_within_the_backlog(self) -> None:
        self.tell("set", backlog=2000)
        self.events(30_000)
        running = self.follow(ID)
        self.assertEqual(running.reach(30_000), list(range(1, 30_001)))
        self.check()

    def test_restarts(self) -> None:
        """Closed, reset, refused while it is away; nothing is lost or doubled."""
        running = self.follow(ID)
        self.following()
        seq = 0
        for code, seconds in ((1012, 0.5), (None, 0.3), (1012, 0.0), (1001, 1.0)):
            self.events(7)
            seq += 7
            self.tell("away", code=code, seconds=seconds, append=5)
            seq += 5
            self.assertEqual(running.reach(seq), list(range(1, seq + 1)))
        said = running.said.splitlines()
        self.assertIn(
            "opc: the daemon closed the connection (1012: the server is restarting); connecting again until it works.",
            said,
        )
        self.assertIn("opc: following again, after event 7.", said)
        self.assertEqual(len(said), 8, said)
        self.check()

    def test_a_restart_in_the_middle_of_a_flood(self) -> None:
        running = self.follow(ID)
        self.following()
        for _ in range(5):
            self.events(3000)
            self.tell("away", code=None, seconds=0.1, append=10)
            wait_until(lambda: self._back(), "the daemon")
        self.assertEqual(running.reach(15_050), list(range(1, 15_051)))
        self.check()

    def _back(self) -> bool:
        try:
            return bool(self.tell("state")["following"])
        except OSError:
            return False

    def test_quiet(self) -> None:
        running = self.follow("-q", ID)
        self.following()
        self.tell("away", code=1012, seconds=0.1, append=1)
        running.reach(1)
        self.assertEqual(running.said, "")
        self.tell("away", code=1012, seconds=0.1, append=3, forget=2)
        running.reach(4)
        self.assertEqual(running.said, "opc: event 2 is not kept any longer.\n")

    def test_a_daemon_that_comes_back_knows_no_old_local_token(self) -> None:
        running = self.follow(ID)
        self.following()
        self.events(1)
        running.reach(1)
        self.tell("away", code=1012, seconds=0.1, append=1, token=TOKEN[::-1].swapcase())
        self.assertEqual(running.reach(2), [1, 2])

    def test_a_token_that_was_given_is_good_or_not(self) -> None:
        running = self.follow(ID, env={"OPC_URL": self.daemon.url, "OPC_TOKEN": TOKEN})
        self.following()
        self.tell("away", code=1012, seconds=0.1, token="another")
        self.assertEqual(running.end(), 255)
        self.assertIn("opc: The token is not valid.", running.said)

    def test_refusals_that_pass(self) -> None:
        self.events(2)
        self.fault(
            "handshake",
            {"status": 503, "code": "unavailable", "retryAfterMs": 100},
            {"status": 429, "code": "rate_limited"},
        )
        self.fault(
            "greeted",
            {"code": 4503, "reason": '{"retryAfterMs":300}'},
            {"code": 4029, "reason": ""},
            {"code": 1011, "reason": ""},
        )
        self.fault(
            "sessions.attach",
            {"code": "unavailable", "more": {"retryAfterMs": 100}},
            {"code": "internal", "more": {}},
            {"code": "too_many_attached", "more": {}},
        )
        running = self.follow(ID)
        self.assertEqual(running.reach(2), [1, 2])
        self.assertEqual(running.said.count("connecting again"), 1)
        self.check()

    def test_the_daemon_says_when_to_come_back(self) -> None:
        self.events(1)
        self.fault("greeted", {"code": 4503, "reason": '{"retryAfterMs":1500}'})
        running = self.follow(ID)
        wait_until(lambda: self.tell("state")["connected"] == 1, "a connection")
        self.assertEqual(self.tell("state")["connected"], 1)
        before = time.monotonic()
        running.reach(1)
        self.assertGreater(time.monotonic() - before, 1.0)

    def test_what_does_not_pass(self) -> None:
        for what, fault, said in (
            ("handshake", {"status": 401, "code": "unauthenticated"}, "Not now."),
            ("handshake", {"status": 403, "code": "forbidden"}, "Not now."),
            ("greeted", {"code": 4001, "reason": ""}, "credential expired or was revoked"),
            ("greeted", {"code": 4400, "reason": ""}, "(4400"),
            ("greeted", {"code": 1009, "reason": ""}, "(1009"),
            ("sessions.attach", {"code": "session_not_found", "more": {}}, "Not now."),
            ("sessions.attach", {"code": "forbidden", "more": {}}, "Not now."),
        ):
            self.fault(what, fault)
            running = self.follow(ID)
            self.assertEqual(running.end(), 255, what)
            self.assertEqual(running.lines, [])
            self.assertIn(said, running.said)
            self.assertEqual(running.said.count("\n"), 1)

    def test_a_credential_that_ends_while_following(self) -> None:
        running = self.follow(ID)
        self.following()
        self.tell("end", code=4001, reason="")
        self.assertEqual(running.end(), 255)

    def test_a_local_credential_that_has_run_out_is_renewed(self) -> None:
        self.tell("set", expires_in_ms=0)
        running = self.follow(ID)
        self.following()
        self.tell("end", code=4001, reason="")
        self.events(1)
        self.assertEqual(running.reach(1), [1])

    def test_no_daemon_at_first(self) -> None:
        done = self.daemon.run("events", "-f", ID, env={"OPC_URL": "ws://127.0.0.1:1", "OPC_TOKEN": "x"})
        self.assertEqual((done.returncode, done.stdout), (255, b""))
        self.assertIn(b"can't reach a daemon", done.stderr)

    def test_detached(self) -> None:
        running = self.follow(ID)
        self.following()
        for reason in ("too_far_behind", "unavailable", "what.is.this"):
            self.events(1)
            self.following()
            self.tell("detach", reason=reason)
            self.events(1)
        self.assertEqual(running.reach(6), [1, 2, 3, 4, 5, 6])
        self.following()
        self.tell("detach", reason="access_lost")
        self.assertEqual(running.end(), 255)
        self.assertIn(f"you may not follow {ID} any longer", running.said)
        self.check()

    def test_too_far_behind_over_the_same_connection(self) -> None:
        running = self.follow(ID)
        self.following()
        self.events(1)
        running.reach(1)
        self.tell("detach", reason="too_far_behind")
        self.events(1)
        running.reach(2)
        self.assertEqual((self.tell("state")["connected"], running.said), (1, ""))

    def test_detached_again_and_again(self) -> None:
        """It never spins."""
        self.tell("set", backlog=0)
        self.events(5)
        running = self.follow(ID)
        running.hear("again and again")
        connected = self.tell("state")["connected"]
        self.assertLess(connected, 20)
        self.tell("set", backlog=100)
        self.assertEqual(running.reach(5), [1, 2, 3, 4, 5])

    def test_a_half_open_link(self) -> None:
        quick = "import computerd.opc.pulse as p; p.PING_SECONDS, p.SILENCE_SECONDS = 0.2, 0.8"
        self.events(1)
        running = self.follow(ID, code=quick)
        running.reach(1)
        self.daemon.process.send_signal(signal.SIGSTOP)
        running.hear("does not answer any more; connecting again")
        self.daemon.process.send_signal(signal.SIGCONT)
        self.events(1)
        self.assertEqual(running.reach(2), [1, 2])


class HistoryTests(Case):
    """What is not as it was."""

    def start(self, count: int) -> Running:
        self.events(count)
        running = self.follow(ID)
        running.reach(count)
        return running

    def test_another_epoch_is_told_while_following(self) -> None:
        for told in ("all", "that"):
            with self.subTest(told=told):
                daemon = self.daemon
                running = self.start(10)
                self.tell("renew", keep=6, told=told)
                self.events(2)
                running.count(12)
                self.assertEqual(running.seqs(), [*range(1, 11), 7, 8])
                self.assertIn(f"its epoch was {EPOCH.format(1)} and is {EPOCH.format(2)} now", running.said)
                self.assertIn("Events 7 to 10 are not what was printed; going on from event 7.", running.said)
                self.assertEqual(running.said.count("replaced"), 1)
                self.check()
                running.leave()
                daemon.stop()
                self.setUp()

    def test_another_epoch_behind_our_cursor(self) -> None:
        """`cursor_ahead` at the next attach."""
        running = self.start(10)
        self.tell("renew", keep=4)
        self.tell("away", code=None, seconds=0.2, append=2)
        running.count(12)
        self.assertEqual(running.seqs(), [*range(1, 11), 5, 6])
        self.assertEqual(running.said.count("replaced"), 1)
        self.check()

    def test_another_epoch_that_has_grown_past_our_cursor(self) -> None:
        """The attach works, and would leave out the first of the new events."""
        running = self.start(10)
        self.tell("renew", keep=4)
        self.tell("away", code=None, seconds=0.2, append=20)
        running.count(30)
        self.assertEqual(running.seqs(), [*range(1, 11), *range(5, 25)])
        self.assertEqual(running.said.count("replaced"), 1)
        self.assertEqual(self.tell("state")["attaches"], [0, 10, 4])
        self.check()

    def test_another_epoch_of_which_nothing_was_printed_is_lost(self) -> None:
        running = self.start(3)
        self.tell("renew", keep=3, told="all")
        self.events(1)
        self.assertEqual(running.reach(4), [1, 2, 3, 4])
        self.assertEqual(running.said.count("\n"), 1)
        self.assertNotIn("are not what was printed", running.said)

    def test_a_cursor_beyond_the_end_is_wrong_at_first(self) -> None:
        self.events(3)
        running = self.follow(ID, "--after", "7")
        self.assertEqual(running.end(), 255)
        self.assertIn("The session's last event is 3", running.said)

    def test_a_session_that_is_gone(self) -> None:
        running = self.start(1)
        self.fault("sessions.attach", {"code": "session_not_found", "more": {}})
        self.tell("away", code=1012, seconds=0.1)
        self.assertEqual(running.end(), 255)

    def test_events_that_are_not_kept(self) -> None:
        self.events(20)
        self.tell("forget", last=12)
        running = self.follow(ID)
        self.assertEqual(running.reach(20), list(range(13, 21)))
        self.assertEqual(running.said, "opc: events 1 to 12 are not kept any longer.\n")
        self.tell("away", code=1012, seconds=0.2, append=10, forget=15)
        self.assertEqual(running.reach(30), list(range(13, 31)))
        self.assertEqual(running.said.count("not kept"), 1)

    def test_a_gap_while_it_was_away(self) -> None:
        running = self.start(5)
        self.tell("away", code=1012, seconds=0.2, append=10, forget=12)
        self.assertEqual(running.reach(15), [1, 2, 3, 4, 5, 13, 14, 15])
        self.assertIn("opc: events 6 to 12 are not kept any longer.\n", running.said)
        self.assertEqual(running.said.count("not kept"), 1)

    def test_a_hole_that_nobody_accounts_for(self) -> None:
        """It is asked for again first, and told when there is no other way on."""
        running = self.start(5)
        self.tell("hole", seq=7)
        self.events(5)
        self.assertEqual(running.reach(10), [1, 2, 3, 4, 5, 6, 8, 9, 10])
        self.assertIn("opc: event 7 is not kept any longer.", running.said)
        self.assertGreater(self.tell("state")["connected"], 2)

    def test_a_repeated_event(self) -> None:
        running = self.start(3)
        event = json.loads(running.lines[1])
        self.tell("emit", **event)
        self.events(2)
        self.assertEqual(running.reach(5), [1, 2, 3, 4, 5])
        self.assertIn("in another order", running.said)
        self.check()

    def test_an_event_too_early(self) -> None:
        running = self.start(3)
        self.tell("emit", **(json.loads(running.lines[2]) | {"seq": 5}))
        self.events(3)
        self.assertEqual(running.reach(6), [1, 2, 3, 4, 5, 6])
        self.assertIn("in another order", running.said)

    def test_strange_events(self) -> None:
        running = self.start(1)
        event = json.loads(running.lines[0])
        for seq in (None, "2", True, 2.0, -1):
            self.following()
            self.tell("emit", **(event | {"seq": seq}))
        self.following()
        self.tell("emit", **(event | {"seq": 2, "sessionId": "cs_other"}))
        self.events(1)
        self.assertEqual(running.reach(2), [1, 2])


class LeavingTests(Case):
    """How it ends."""

    def test_control_c(self) -> None:
        self.events(1)
        running = self.follow(ID)
        running.reach(1)
        running.process.send_signal(signal.SIGINT)
        self.assertEqual((running.end(), running.said), (130, ""))

    def test_control_c_while_the_daemon_is_away(self) -> None:
        running = self.follow(ID)
        self.following()
        self.tell("away", code=1012, seconds=60)
        running.hear("connecting again")
        running.process.send_signal(signal.SIGINT)
        self.assertEqual(running.end(), 130)
        self.assertEqual(running.said.count("\n"), 1)

    def test_a_reader_that_leaves(self) -> None:
        self.events(10)
        done = subprocess.run(
            ["bash", "-c", f"{SHELL_OPC} events -f {ID} | head -3; echo ${{PIPESTATUS[0]}}"],
            env=self.daemon.env(),
            capture_output=True,
            timeout=WAIT,
            check=False,
        )
        lines = done.stdout.splitlines()
        self.assertEqual((len(lines), lines[-1], done.stderr), (4, b"141", b""))

    def test_a_reader_that_leaves_while_nothing_happens(self) -> None:
        for away in (False, True):
            read, write = os.pipe()
            process = subprocess.Popen(
                [*OPC, "events", "-f", ID], env=self.daemon.env(), stdout=write, stderr=subprocess.PIPE
            )
            self.addCleanup(process.kill)
            os.close(write)
            self.following()
            if away:
                self.tell("away", code=1012, seconds=60)
                assert process.stderr is not None
                self.assertIn(b"connecting again", process.stderr.readline())
            os.close(read)
            self.assertEqual(process.wait(WAIT), 141)
            assert process.stderr is not None
            with process.stderr as stderr:
                self.assertEqual(stderr.read(), b"")

    def test_a_reader_that_is_slow(self) -> None:
        """Nothing piles up here, nothing is lost, and the connection lives."""
        quick = "import computerd.opc.pulse as p; p.PING_SECONDS, p.SILENCE_SECONDS = 0.2, 0.8"
        self.tell("set", backlog=3000)
        self.events(2000, data={"x": "y" * 500}, type="big.one")
        read, write = os.pipe()
        process = subprocess.Popen(
            [
                *(OPC[0], "-c", f"{quick}; import sys, computerd.opc.main as m; sys.exit(m.main())"),
                *("events", "-f", "--json", ID),
            ],
            env=self.daemon.env(),
            stdout=write,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(write)
        with open(read, "rb") as file:
            first = file.readline()
            self.events(4000, data={"x": "y" * 500}, type="big.one")
            # while it can't listen to pings, it says that it lives
            wait_until(lambda: self.tell("state")["pongs"] >= 6, "pongs")
            self.assertEqual(self.tell("state")["connected"], 1)
            seqs = [json.loads(first)["seq"]] + [json.loads(file.readline())["seq"] for _ in range(5999)]
        self.assertEqual(seqs, list(range(1, 6001)))
        self.check()
        assert process.stderr is not None
        process.stderr.close()

    def test_lines_come_at_once_on_a_pipe(self) -> None:
        process = subprocess.Popen(
            [*OPC, "events", "-f", ID], env=self.daemon.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.following()
        assert process.stdout is not None
        with process.stdout as stdout:
            for number in range(1, 4):
                self.events(1)
                self.assertEqual(stdout.readline().split()[2], str(number).encode())

    def test_closed_streams(self) -> None:
        self.events(1)
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            done = subprocess.run(
                ["sh", "-c", f"{SHELL_OPC} events {ID} {closed}"],
                env=self.daemon.env(),
                capture_output=True,
                timeout=WAIT,
                check=False,
            )
            self.assertEqual((done.returncode, done.stderr), (0, b""), closed)
