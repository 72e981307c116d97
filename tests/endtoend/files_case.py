"""A workspace with a whole daemon, and a second user whose files are his own."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from tests.endtoend import tracing
from tests.endtoend.case import ComputerCase
from tests.endtoend.client import Client, Reply, Shell
from tests.endtoend.computer import Account, alive
from tests.endtoend.folders import Remote
from tests.endtoend.test_opc import opc

SOON = 10.0 if tracing.VARIABLE in os.environ else 1.0
"""Seconds within which whatever a path names is answered (F4); each call costs more when it is traced."""
RACES = float(os.environ.get("COMPUTERD_RACES", "2"))
MANY = 2_000 if tracing.VARIABLE in os.environ else 100_000
"""Entries: as many as an archive may have. More of them are the same calls again."""
BIG = int(os.environ.get("COMPUTERD_BIG", str(256 << 20)))
"""Bytes of the file that is pulled while somebody types."""
CANARY = b"the canary of somebody else"


def workers(remote: Remote) -> list[int]:
    """The processes that work on a session's files."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not process.name.isdigit() or b"\0-I\0-S\0-E\0-c\0" not in (process / "cmdline").read_bytes():
                continue
            if os.readlink(process / "cwd") == str(remote.folder) and alive(int(process.name)):
                found.append(int(process.name))
    return found


def staged(top: Path) -> list[str]:
    """What is on its way anywhere in a folder, or was left there."""
    return [name for _, names, files in os.walk(top) for name in names + files if name.startswith(".computerd-")]


class FilesCase(ComputerCase):
    """Has a workspace. Its daemon is its own: workers outlive a test, and others want to see that nothing is left."""

    own = True
    timeout = 300

    def setUp(self) -> None:
        super().setUp()
        self.remote = Remote(self.computer, self.session)
        self.assertEqual(self.remote.get("files").status, 200)  # the workspace is made
        self.top = self.remote.folder
        self.here = Path(tempfile.mkdtemp(prefix="computerd-test-"))
        self.addCleanup(subprocess.run, ["rm", "-rf", str(self.here)], check=True)

    def echo(self, client: Client) -> Shell:
        """A terminal that sends back what it gets."""
        shell = client.open(self.session, "stty raw -echo; echo go; cat")
        shell.expect(b"go")
        return shell

    def give(self, *paths: Path) -> None:
        """Gives what the test has made to the agent."""
        if self.agent is not None:
            for path in paths:
                subprocess.run(["chown", "-hR", f"{self.agent.name}:", str(path)], check=True)

    def write(self, name: str, data: bytes = b"") -> Path:
        """A file of the agent's."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.give(self.top / name.partition("/")[0])
        return path

    def opc(
        self, *words: str, given: bytes = b"", status: int = 0, wait: float = 120
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs it to its end."""
        command, environ = opc(self.computer, *words)
        done = subprocess.run(
            command, input=given, env=environ, capture_output=True, check=False, timeout=wait, cwd=self.here
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def refused(self, reply: Reply, status: int, code: str, *words: str) -> str:
        """Checks a refusal and returns what it says."""
        self.assertEqual((reply.status, reply.code), (status, code), reply.body)
        message: str = reply.json["error"]["message"]
        for word in words:
            self.assertIn(word, message)
        return message

    def pushed(self, session: str | None = None) -> list[dict[str, Any]]:
        """The events of uploads that landed."""
        return [event for event in self.computer.journal(session or self.session) if event["type"] == "files.pushed"]


class TwoUsersCase(FilesCase):
    """Alice's and bob's files belong to Unix users of their own."""

    root_only = True
    bob: ClassVar[Account]

    @classmethod
    def arrange(cls, agent: Account) -> None:
        cls.bob = Account.make()
        cls.computer.environ["COMPUTERD_AGENT_USERS"] = f"bob={cls.bob.name}"
        atexit.register(cls.bob.remove)

    def setUp(self) -> None:
        super().setUp()
        self.bobs = Remote(self.computer, self.computer.session("bob"), "bob")
        self.assertEqual(self.bobs.get("files").status, 200)
        self.canary = self.bobs.folder / "canary"
        self.canary.write_bytes(CANARY)
        os.chown(self.canary, self.bob.uid, -1)
        (self.bobs.folder / "f").write_bytes(CANARY)
        self.rooted = self.here / "rooted"
        self.rooted.mkdir()
        for name in ("canary", "f"):
            (self.rooted / name).write_bytes(CANARY)
            (self.rooted / name).chmod(0o600)
        self.here.chmod(0o711)

    def intact(self) -> None:
        """Nobody has written where the canaries are."""
        for folder in (self.bobs.folder, self.rooted):
            self.assertEqual(sorted(os.listdir(folder)), ["canary", "f"])
            self.assertEqual({(folder / name).read_bytes() for name in ("canary", "f")}, {CANARY})
