"""The audit trail of a running daemon, and what is not in it, nor in the journal or the log (G1, G4, C12)."""

from __future__ import annotations

import json
import os
import signal
import socket
from typing import Any

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, RefusedError, http
from tests.endtoend.computer import eventually


class AuditCase(ComputerCase):
    """Reads the trail as the administrator does."""

    own = True

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """What `computerctl audit --json` prints, while the daemon runs."""
        text = self.computer.ctl("audit", "--json", "--limit", "100000", *words).stdout
        return [json.loads(line) for line in text.splitlines()]

    def wait_for(self, action: str, *words: str, **fields: object) -> dict[str, Any]:
        """The newest row with that action and those fields."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            rows = self.rows("--action", action, *words)
            found[:] = [row for row in rows if fields.items() <= row.items()]
            return bool(found)

        eventually(there, f"{action} {fields} is in the trail", on_failure=lambda: str(self.rows()))
        return found[-1]


class TrailTests(AuditCase):
    """One row for each thing that was done."""

    def test_a_session_with_a_terminal(self) -> None:
        """G4."""
        client = self.connect()
        token = self.wait_for("token.created", member="alice")["tokenId"]
        shell = client.open(self.session, "exec cat")
        shell.close()
        shell.wait()
        client.socket.close()
        who = {"member": "alice", "tokenId": token, "result": "ok"}
        connection = client.notifications[0]["params"]["connectionId"]
        self.wait_for("sessions.create", sessionId=self.session, **who)
        self.wait_for("connection.opened", subject=f"{connection} local", **who)
        for action in ("terminals.open", "terminals.close", "terminal.closed"):
            self.wait_for(action, sessionId=self.session, subject=shell.id, **who)
        self.wait_for("connection.closed", subject=f"{connection} local", **who)
        actions = [row["action"] for row in self.rows("--session", self.session)]
        self.assertEqual(actions, ["sessions.create", "terminals.open", "terminals.close", "terminal.closed"])

    def test_a_terminal_whose_connection_breaks(self) -> None:
        """G4: who opened it is known at its end."""
        client = self.connect("bob", "--admin")
        shell = client.open(self.session, "exec sleep 1000")
        client.socket.socket.shutdown(socket.SHUT_RDWR)
        self.wait_for("terminal.closed", subject=shell.id, member="bob", sessionId=self.session)

    def test_refusals(self) -> None:
        """G4."""
        client = self.connect("mallory")
        with self.assertRaises(RefusedError):
            client.open(self.session, "true")
        self.wait_for("terminals.open", member="mallory", sessionId=self.session, result="forbidden")
        for _ in range(50):
            self.assertEqual(http(self.computer.base + "/sessions", token="x.y.z").status, 401)
        self.wait_for("credential.refused", result="forged", subject="local", count=1)
        self.assertLessEqual(len(self.rows("--action", "credential.refused")), 2)

    def test_a_revocation(self) -> None:
        """G4, C7."""
        client = self.connect("eve")
        token = self.wait_for("token.created", member="eve")["tokenId"]
        self.computer.ctl("token", "revoke", token)
        self.assertEqual(client.closed()[0], 4001)
        self.wait_for("token.revoked", tokenId=token, result="ok")
        self.wait_for("connection.closed", tokenId=token, result="4001")

    def test_start_stop_and_reload(self) -> None:
        """G4."""
        self.wait_for("daemon.started")
        (key,) = self.rows("--action", "key.loaded")
        before = len(self.rows("--action", "config.loaded", "--since", "1h"))
        self.assertGreaterEqual(before, 1)
        assert self.computer.process is not None
        self.computer.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(self.rows("--action", "config.loaded")) == before + 1, "the reload is in the trail")
        self.assertEqual(self.rows("--action", "key.changed"), [])
        keys = self.computer.folder / "state" / "keys"
        (keys / "host_ed25519").rename(keys / "old")
        (keys / "host_ed25519.pub").rename(keys / "old.pub")
        self.computer.ctl("key", "init")
        self.wait_for("key.created")
        self.computer.process.send_signal(signal.SIGHUP)
        changed = self.wait_for("key.changed", result="ok")
        self.assertEqual(len(changed["subject"].split()), 2)
        self.assertIn(key["subject"], changed["subject"])
        self.computer._tokens.clear()
        self.computer.stop()
        self.assertEqual(self.rows()[-1]["action"], "daemon.stopped")
        self.computer.start()
        eventually(lambda: len(self.rows("--action", "daemon.started")) == 2, "the new start is in the trail")

    def test_a_configuration_that_is_wrong(self) -> None:
        """G4."""
        assert self.computer.process is not None
        # computerctl would not read it either
        self.computer.configuration.write_text("nonsense = true\n")
        try:
            self.computer.process.send_signal(signal.SIGHUP)
            eventually(lambda: "stays as it was" in self.computer.log, "the configuration is refused")
        finally:
            self.computer.configuration.write_text("")
        self.wait_for("config.loaded", result="invalid")


class CanaryTests(AuditCase):
    """Secrets that go through the daemon, and are nowhere afterwards."""

    environ = {"CANARY_VARIABLE": "canary-0f-the-environment", "AWS_SECRET_ACCESS_KEY": "canary-0f-the-cloud"}  # noqa: RUF012  # as declared

    def everything(self) -> dict[str, bytes]:
        """All that the daemon has written: log, journal with its write-ahead log, and whatever else is in the state folder but keys."""
        found = {"log": (self.computer.folder / "log").read_bytes()}
        for folder, _, files in os.walk(self.computer.folder / "state"):
            for name in files:
                path = os.path.join(folder, name)
                if not path.endswith(("/keys/host_ed25519", "-shm")):
                    with open(path, "rb") as file:
                        found[path] = file.read()
        found["trail"] = json.dumps(self.rows()).encode()
        found["trail for people"] = self.computer.ctl("audit", "--limit", "100000").stdout.encode()
        return found

    def test_canaries_are_nowhere(self) -> None:
        """G1, C12: a token, a cookie, typed input with echo and without, output, variables, what a client gets wrong."""
        token = self.computer.token("canary")
        session = self.computer.session("canary", title="A title")
        client = Client.to(self.computer.url, token, headers={"Cookie": "session=canary-0f-the-cookie"})
        self.addCleanup(client.socket.close)
        shell = client.open(session, "bash --norc")
        shell.type(b"export PS1=; echo in''put: canary-of-typed-input\n")
        shell.expect(b"input: canary-of-typed-input")
        # typed blind, and then said by a program: neither the text of a command, nor of an echo
        shell.type(
            b"read -rs secret; echo o''k; printf '%s' \"$secret\" | rev; echo; echo se''en; env | grep -c canary-0f\n"
        )
        shell.type(b"canary-of-the-password\n")
        shell.expect(b"ok")
        shell.expect(b"drowssap-eht-fo-yranac")
        shell.expect(b"seen")
        # the daemon's variables are not the terminal's
        self.assertIn(b"0", shell.expect(b"\n") + shell.expect(b"\n"))
        shell.type(b"exit\n")
        shell.wait()
        for attempt in (
            {"token": "canary.of.a.wrong.token"},
            {"token": token, "Cookie": "session=canary-0f-the-cookie"},
            {"token": token[:-8] + "AAAAAAAA"},
        ):
            http(f"{self.computer.base}/sessions/{session}", **attempt)
        http(f"{self.computer.base}/sessions?token=canary-in-the-url")
        http(f"{self.computer.base}/canary-in-the-path", token=token)
        http(f"{self.computer.base}/sessions/canary-for-an-id", "PATCH", token=token, body={"title": "t"})
        http(f"{self.computer.base}/sessions", "POST", token=token, body={"title": 5, "canary-field": "canary-value"})
        http(self.computer.base + "/sessions", token=token, User_Agent="canary-0f-the-program\x1b[2J")
        for method, params in (
            ("terminals.close", {"terminalId": "canary-for-a-terminal"}),
            ("sessions.update", {"sessionId": "canary-for-a-session", "title": "t"}),
            ("canary.method", {}),
        ):
            with self.assertRaises(RefusedError):
                client.ask(method, **params)
        client.socket.send('{"canary-nonsense')
        client.socket.close()
        self.wait_for("connection.closed", "--member", "canary")
        self.computer.stop()
        self.addCleanup(self.computer.start)
        forbidden = [
            b"canary-0f", b"canary-of", b"drowssap", b"canary.of", b"canary-in", b"canary-for", b"canary-field",
            b"canary-value", b"canary.method", b"canary-nonsense", token.rpartition(".")[2].encode(),
        ]  # fmt: skip
        for where, text in self.everything().items():
            for canary in forbidden:
                self.assertNotIn(canary, text, where)
        # so that this finds anything at all: what may be there is
        self.assertIn(b"bash --norc", b"".join(self.everything().values()))
        self.assertIn(b"canary", self.everything()["trail"])
