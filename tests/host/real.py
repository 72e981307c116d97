"""What every test with real processes begins and ends with."""

from __future__ import annotations

import gc
import os
import pwd
import shutil
import tempfile
from pathlib import Path
from typing import Literal

from twisted.internet.task import deferLater
from twisted.trial.unittest import SkipTest, TestCase

from computerd.contract.identifiers import TERMINAL
from computerd.host.settings import HostSettings
from computerd.host.spawner import HostSpawner
from computerd.terminal.port import Process, Start
from tests.host.people import kill_all, person
from tests.host.waiting import Recorder, reactor, until

SESSION_ID = "cs_0123456789abcdef"
PLAIN = "PATH=/usr/bin:/bin; "


def descriptors() -> dict[str, str]:
    """The open descriptors of this process, apart from the one that lists them."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


def children() -> list[int]:
    """Children of this process, zombies too."""
    own = os.getpid()
    found: list[int] = []
    for task in os.listdir(f"/proc/{own}/task"):
        found += map(int, Path(f"/proc/{own}/task/{task}/children").read_text().split())
    return found


class RealCase(TestCase):
    """Real processes of a Unix user made for the tests, and a check afterwards that nothing is left.

    Attributes:
        as_root: The daemon is root, and the user one that was made. False: it is who runs the tests. None: whichever it is.
        fork: See `HostSettings`.
    """

    timeout = 60
    launcher: Literal["perl", "python"] | None = None
    as_root: bool | None = True
    fork = False

    async def setUp(self) -> None:  # type: ignore[override]
        await deferLater(reactor, 0)  # so that the reactor runs, and has opened what it needs
        if self.as_root is False and os.geteuid() == 0:
            raise SkipTest("is about a daemon that isn't root: run as an ordinary user")
        self.as_root = os.geteuid() == 0 if self.as_root is None else self.as_root
        self.person = person("a") if self.as_root else pwd.getpwuid(os.getuid())
        self.uid = self.person.pw_uid
        self.before = descriptors()
        self.born = set(children())
        self.root = Path(tempfile.mkdtemp(prefix="computerd-test-"))
        self.root.chmod(0o755)
        self.spawner = self.make_spawner()
        self.recorders: list[Recorder] = []

    def settings(self, **more: object) -> HostSettings:
        chosen: dict[str, object] = {
            "workspace_root": self.root,
            "agent_user": self.person.pw_name,
            "launcher": self.launcher,
            "fork": self.fork,
            "spare_terminals": 0,
            "cgroups": False,
        }
        return HostSettings(**{**chosen, **more})  # type: ignore[arg-type]

    def make_spawner(self) -> HostSpawner:
        return HostSpawner(reactor, self.settings())

    def begin(
        self,
        command: str | None,
        size: tuple[int, int] | None = (80, 24),
        term: str = "xterm",
        session: str = SESSION_ID,
    ) -> Start:
        return Start(session, TERMINAL.new(os.urandom), "mb_owner", command, term, size)

    async def open(
        self,
        command: str | None,
        size: tuple[int, int] | None = (80, 24),
        term: str = "xterm",
        session: str = SESSION_ID,
        full_after: float = float("inf"),
    ) -> tuple[Process, Recorder]:
        """Starts a program and watches it."""
        process = await self.spawner.spawn(self.begin(command, size, term, session))
        recorder = Recorder(process=process, full_after=full_after)
        self.recorders.append(recorder)
        process.start(recorder)
        return process, recorder

    async def run_command(self, command: str, size: tuple[int, int] | None = (80, 24), term: str = "xterm") -> bytes:
        """Runs a command that exits with 0, and returns its output."""
        _, recorder = await self.open(command, size, term)
        self.assertEqual((0, None), await recorder.finish(), bytes(recorder.text + recorder.errors))
        return bytes(recorder.text)

    async def tearDown(self) -> None:  # type: ignore[override]
        for recorder in self.recorders:
            if recorder.process is not None and recorder.end is None:
                recorder.process.hang_up()
                recorder.process.discard()
        self._kill_all()
        await self.spawner.shutdown()
        for recorder in self.recorders:
            self.assertEqual(1, recorder.ends)
        shutil.rmtree(self.root)
        gc.collect()
        await until(lambda: set(children()) <= self.born, "no child is left")
        self._kill_all()
        self.assertEqual({}, self._opened())

    def _kill_all(self) -> None:
        if self.as_root:
            kill_all(self.uid)

    def _opened(self) -> dict[str, str]:
        now = descriptors()
        return {number: to for number, to in now.items() if number not in self.before}
