"""What the operator configures reaches terminals and the listener (section 1, section 5, B1)."""

from __future__ import annotations

from typing import ClassVar

from tests.endtoend.case import ComputerCase
from tests.endtoend.client import http, raw
from tests.endtoend.computer import Account
from tests.endtoend.test_life import LifeCase


class ConfiguredTests(ComputerCase):
    """A daemon whose options all differ from the built-in values."""

    environ: ClassVar[dict[str, str]] = {
        "COMPUTERD_AGENT_PATH": "/bin:/usr/bin",
        "COMPUTERD_AGENT_LANG": "C",
        "COMPUTERD_AGENT_UMASK": "077",
        "COMPUTERD_AGENT_NOFILE_SOFT": "200",
        "COMPUTERD_AGENT_NOFILE_HARD": "300",
        "COMPUTERD_AGENT_NO_NEW_PRIVILEGES": "false",
        "COMPUTERD_ALLOWED_ORIGINS": "https://term.example http://other.example:8080",
        "COMPUTERD_ALLOWED_HOSTS": "term.example",
    }

    def test_terminals(self) -> None:
        client = self.connect()
        command = "echo $PATH $LANG; umask; ulimit -Sn; ulimit -Hn; grep NoNewPrivs /proc/self/status"
        for tty in (True, False):
            words = client.run(self.session, command, tty=tty)[0].split()
            self.assertEqual(words, [b"/bin:/usr/bin", b"C", b"0077", b"200", b"300", b"NoNewPrivs:", b"0"])

    def test_origins(self) -> None:
        token = self.computer.token()
        for origin, status in (
            ("https://term.example", 200),
            ("http://other.example:8080", 200),
            ("http://term.example", 403),
            ("https://term.example:443", 403),
            ("https://term.example.evil.example", 403),
        ):
            reply = http(self.computer.base + "/sessions", token=token, Origin=origin)
            self.assertEqual(reply.status, status, origin)
        socket = raw(
            self.computer.url,
            origin="https://term.example",
            subprotocols=["opc.v1", f"opc.bearer.{token}"],
        )
        self.addCleanup(socket.close)
        self.assertEqual(socket.subprotocol, "opc.v1")

    def test_hosts(self) -> None:
        token = self.computer.token()
        for host, status in (("term.example", 200), (f"localhost:{self.computer.port}", 200), ("evil.example", 400)):
            self.assertEqual(http(self.computer.base + "/sessions", token=token, Host=host).status, status, host)


class OwnersTests(LifeCase):
    """`agent.users`: owners on one host with a Unix user each."""

    def test_each_owner_has_its_own_user(self) -> None:
        """I5: and none reads what is the other's, nor does an admin's terminal run as anybody but the owner's user."""
        if self.agent is None:
            self.skipTest("needs root: it makes Unix users")
        bobs = Account.make()
        self.addCleanup(bobs.remove)
        computer = self.computer(COMPUTERD_AGENT_USERS=f"bob={bobs.name}")
        for member, user in (("alice", self.agent.name), ("bob", bobs.name)):
            session = computer.session(member)
            with computer.client(member) as client:
                self.assertEqual(client.run(session, "id -un; echo mine > f")[0].split(), [user.encode()])
            with computer.client("root", "--admin") as client:
                self.assertEqual(client.run(session, "id -un; cat f")[0].split(), [user.encode(), b"mine"])
            other = "bob" if member == "alice" else "alice"
            with computer.client(other) as client:
                out, code, _ = client.run(computer.session(other), f"cat {computer.folder}/workspaces/{session}/f")
                self.assertNotEqual(code, 0)
                self.assertIn(b"denied", out)
