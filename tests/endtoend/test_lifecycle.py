"""Sessions that sleep, wake and are put away (L1 of the threat model)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, RefusedError, Reply, Shell, http
from tests.endtoend.computer import alive, eventually
from tests.endtoend.delegated import Delegated
from tests.endtoend.test_life import LifeCase

IDLE_SECONDS = 1


class SleepTests(ComputerCase):
    """`sessions.suspend`, `sessions.resume`, `sessions.update` with `archived`."""

    def setUp(self) -> None:
        super().setUp()
        self.client = self.connect()

    def refused(self, method: str, **params: object) -> tuple[str | None, int]:
        """Code and status of a refusal on this session."""
        with self.assertRaises(RefusedError) as caught:
            self.client.ask(method, sessionId=self.session, **params)
        return caught.exception.slug, caught.exception.data["status"]

    def put(self, verb: str, **body: object) -> Reply:
        """`POST` on a route of the session."""
        url = f"{self.computer.base}/sessions/{self.session}/{verb}"
        return http(url, "POST", token=self.computer.token(), body=body)

    def status(self) -> str:
        """The session's."""
        status: str = self.computer.get(self.session)["status"]
        return status

    def since(self, seq: int) -> list[tuple[str, Any]]:
        """Types and data of the events after a number."""
        return [(event["type"], event["data"]) for event in self.computer.journal(self.session) if event["seq"] > seq]

    def test_suspend_and_resume(self) -> None:
        """Over WebSocket and HTTP. What it is already costs no event."""
        last = self.computer.get(self.session)["lastSeq"]
        done = self.client.ask("sessions.suspend", sessionId=self.session)
        self.assertEqual((done["session"]["status"], done["seq"]), ("suspended", last + 2))
        self.assertEqual(
            self.since(last),
            [
                ("runtime.suspended", {"reason": "requested"}),
                ("session.status_changed", {"from": "idle", "to": "suspended"}),
            ],
        )
        again = self.put("suspend")
        self.assertEqual(
            (again.status, again.json["seq"], again.json["session"]["status"]), (200, last + 2, "suspended")
        )
        done = self.client.ask("sessions.resume", sessionId=self.session)
        self.assertEqual((done["session"]["status"], done["seq"]), ("idle", last + 3))
        self.assertEqual(self.put("resume").json["seq"], last + 3)
        self.client.ask("sessions.suspend", sessionId=self.session)
        self.assertEqual(self.client.attach(self.session)["session"]["status"], "suspended")
        self.assertEqual(self.client.attach(self.session, resume=True)["session"]["status"], "idle")

    def test_terminals_end_first(self) -> None:
        """Each client hears of its terminal's end, and the journal has it before the session sleeps."""
        other = self.connect()
        shells = [
            client.open(self.session, "echo go; exec cat", tty=tty)
            for client in (self.client, other)
            for tty in (True, False)
        ]
        for shell in shells:
            shell.expect(b"go")
        last = self.computer.get(self.session)["lastSeq"]
        self.connect().ask("sessions.suspend", sessionId=self.session)
        self.assertEqual([shell.wait(2)[1] for shell in shells], ["SIGHUP"] * 4)
        types = [type_ for type_, _ in self.since(last)]
        self.assertEqual(types, ["terminal.closed"] * 4 + ["runtime.suspended", "session.status_changed"])
        self.assertEqual(self.status(), "suspended")

    def test_one_that_ignores_the_hangup(self) -> None:
        """It is killed 5 s later, and the session sleeps then."""
        shell = self.client.open(self.session, "trap '' HUP TERM; echo go; while :; do sleep 1; done")
        shell.expect(b"go")
        number = self.client.send("sessions.suspend", sessionId=self.session)
        with self.assertRaises(RefusedError) as caught:
            self.connect().open(self.session, "true")
        self.assertEqual((caught.exception.slug, caught.exception.data["retryable"]), ("session_busy", True))
        self.assertEqual(self.client.answer(number)["session"]["status"], "suspended")
        self.assertEqual(shell.wait(2)[1], "SIGKILL")

    def test_if_idle(self) -> None:
        shell = self.client.open(self.session, "exec cat", tty=False)
        self.assertEqual(self.refused("sessions.suspend", ifIdle=True), ("session_busy", 409))
        reply = self.put("suspend", ifIdle=True)
        self.assertEqual((reply.status, reply.code, reply.json["error"]["retryable"]), (409, "session_busy", True))
        shell.eof()
        shell.wait()
        eventually(lambda: self.put("suspend", ifIdle=True).status == 200, "it sleeps")
        self.assertEqual(self.status(), "suspended")
        self.assertEqual(self.put("suspend", ifIdle=True).status, 200)

    def test_the_same_key_suspends_once(self) -> None:
        """Also when somebody has worked since: nothing of his is ended."""
        first = self.client.ask("sessions.suspend", sessionId=self.session, idempotencyKey="night")
        shell = self.client.open(self.session, "stty raw -echo; echo go; cat")
        shell.expect(b"go")
        self.assertEqual(self.client.ask("sessions.suspend", sessionId=self.session, idempotencyKey="night"), first)
        shell.type(b"alive")
        shell.expect(b"alive")
        self.assertEqual(self.status(), "idle")
        self.assertEqual(
            self.refused("sessions.suspend", ifIdle=True, idempotencyKey="night"), ("idempotency_conflict", 409)
        )
        # for another method it is another key, and for another member
        self.client.ask("sessions.update", sessionId=self.session, title="x", idempotencyKey="night")

    def test_a_terminal_wakes_it(self) -> None:
        last = self.client.ask("sessions.suspend", sessionId=self.session)["seq"]
        shell = self.client.open(self.session, "exec cat", tty=False)
        self.assertEqual(
            self.since(last),
            [
                ("session.status_changed", {"from": "suspended", "to": "idle"}),
                ("terminal.opened", {"terminalId": shell.id, "command": "exec cat"}),
            ],
        )
        self.assertEqual(self.status(), "idle")

    def test_archived(self) -> None:
        """It is put away whole: what runs ends, it sleeps, and nothing wakes it until it is taken out again."""
        shell = self.client.open(self.session, "exec cat", tty=False)
        done = self.client.ask("sessions.update", sessionId=self.session, archived=True)
        self.assertEqual((done["session"]["archived"], done["session"]["status"]), (True, "suspended"))
        self.assertEqual(shell.wait(2)[1], "SIGHUP")
        self.assertEqual(self.refused("terminals.open", cols=80, rows=24), ("feature_unavailable", 409))
        self.assertEqual(self.refused("sessions.resume"), ("feature_unavailable", 409))
        self.assertEqual(self.refused("sessions.attach", resume=True), ("feature_unavailable", 409))
        self.assertEqual(self.put("resume").code, "feature_unavailable")
        self.client.attach(self.session, after=0)
        self.assertIn(self.session, self.listed("true"))
        self.assertNotIn(self.session, self.listed("false"))
        url = f"{self.computer.base}/sessions/{self.session}"
        reply = http(url, "PATCH", token=self.computer.token(), body={"archived": False, "title": "back"})
        self.assertEqual((reply.status, reply.json["session"]["status"]), (200, "suspended"))
        self.assertIn(self.session, self.listed("false"))
        self.assertEqual(self.client.run(self.session, "exit 6")[1], 6)
        self.assertEqual(self.status(), "idle")

    def listed(self, archived: str) -> list[str]:
        """The ids of a list."""
        reply = http(f"{self.computer.base}/sessions?archived={archived}&limit=100", token=self.computer.token())
        return [session["id"] for session in reply.json["sessions"]]


class LeftoverTests(LifeCase):
    """With a delegated cgroup: what terminals have left behind."""

    def test_suspending_ends_it(self) -> None:
        """L1: `nohup` and `setsid` outlive their terminal and the connection, and not the session's sleep; other sessions keep theirs."""
        if self.agent is None:
            self.skipTest("needs root: its programs run as a Unix user that has no others")
        computer = Delegated(agent=self.agent)
        self.addCleanup(computer.remove)
        computer.start()
        sessions = [computer.session() for _ in range(3)]
        with computer.client() as client:
            pids = {session: self.leave(client, session) for session in sessions}
        self.assertTrue(all(alive(pid) for left in pids.values() for pid in left))
        with computer.client() as client:
            client.ask("sessions.suspend", sessionId=sessions[0], ifIdle=True)
            eventually(lambda: not any(map(alive, pids[sessions[0]])), "the first one's are gone", 2)
            client.ask("sessions.update", sessionId=sessions[1], archived=True)
            eventually(lambda: not any(map(alive, pids[sessions[1]])), "the second one's are gone", 2)
            self.assertTrue(all(map(alive, pids[sessions[2]])))
            # and it works again
            self.assertEqual(client.run(sessions[0], "exit 3")[1], 3)

    def leave(self, client: Client, session: str) -> list[int]:
        """Programs that stay when their terminal has ended."""
        shell = client.open(
            session,
            "nohup sleep 1601 >/dev/null 2>&1 & echo p=$!=; setsid sh -c 'trap \"\" HUP TERM; echo p=$$=; exec sleep 1602 >/dev/null 2>&1' & wait",
        )
        pids = [_pid(shell) for _ in range(2)]
        eventually(lambda: all(map(_sleeps, pids)), "they can't hear the hang-up any more")
        shell.close()
        shell.wait()
        return pids


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0")


def _pid(shell: Shell) -> int:
    shell.expect(b"p=")
    return int(shell.expect(b"=")[:-1])


class IdleTests(ComputerCase):
    """`sessions.idle_suspend`."""

    environ: ClassVar[dict[str, str]] = {"COMPUTERD_SESSIONS_IDLE_SUSPEND": str(IDLE_SECONDS)}

    def status(self, session: str) -> str:
        """A session's."""
        status: str = self.computer.get(session)["status"]
        return status

    def asleep(self, session: str) -> bool:
        """Whether it sleeps."""
        return self.status(session) == "suspended"

    def test_a_quiet_session_sleeps(self) -> None:
        """But never while a terminal is open, however quiet; and not because the daemon was started anew."""
        client = self.connect()
        other = self.computer.session()
        shell = client.open(self.session, "stty raw -echo; echo go; cat")
        shell.expect(b"go")
        for _ in range(2):
            client.ask("sessions.resume", sessionId=other)
            self.assertEqual(self.status(other), "idle")
            eventually(lambda: self.asleep(other), "the other one sleeps", 4 * IDLE_SECONDS)
            self.assertEqual(self.status(self.session), "idle")
        shell.type(b"alive")
        shell.expect(b"alive")
        shell.close()
        eventually(lambda: self.asleep(self.session), "this one sleeps", 4 * IDLE_SECONDS)
        event = self.computer.events(self.session, query="&types=runtime.suspended")[-1]
        self.assertEqual((event["data"], event["actor"]), ({"reason": "idle"}, None))

    def test_work_keeps_it_awake(self) -> None:
        client = self.connect()
        other = self.computer.session()
        client.attach(self.session)
        number = 0

        def sleeps() -> bool:
            nonlocal number
            number += 1
            client.ask("sessions.update", sessionId=self.session, title=f"title {number}")
            return self.asleep(other)

        eventually(sleeps, "the other one sleeps", 4 * IDLE_SECONDS)
        self.assertEqual(self.status(self.session), "idle")
        eventually(lambda: self.asleep(self.session), "this one sleeps", 4 * IDLE_SECONDS)

    def test_after_a_restart(self) -> None:
        """Who was awake then is put to sleep too, once it has been quiet for that long."""
        sessions = [self.computer.session() for _ in range(3)]
        self.computer.stop()
        self.computer.start()
        self.assertEqual([self.status(session) for session in sessions], ["idle"] * 3)
        eventually(lambda: all(map(self.asleep, sessions)), "all sleep", 4 * IDLE_SECONDS)
