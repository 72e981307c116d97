"""The delegated part of the cgroup tree, with a real one where the machine has one to spare."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from computerd.host import cgroup
from computerd.host.cgroup import Cgroups, own_cgroup
from computerd.host.settings import CgroupLimits
from tests.host.real import SESSION_ID, RealCase
from tests.host.waiting import until


def _hierarchy() -> Path:
    """Where test cgroups can be made."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4])
        if after.startswith("cgroup2 ") and os.access(point, os.W_OK) and (point / "cgroup.procs").exists():
            return point
    raise SkipTest("needs a cgroup tree of version 2 that may be written")


class CgroupCase(RealCase):
    """Terminals in cgroups below one that the test makes. The test's own process stays where it is."""

    kill_leftovers = False

    async def setUp(self) -> None:  # type: ignore[override]
        self.base = _hierarchy() / f"computerd-test-{os.getpid()}"
        self.base.mkdir()
        self.addCleanup(self._remove)
        await super().setUp()
        self.spawner.configure(self.settings(kill_leftovers=self.kill_leftovers))
        self.cgroups = self.spawner.cgroups = Cgroups.find(CgroupLimits(processes=50), self.base)
        self.assertIn(str(self.base), self.cgroups.describe())

    def _remove(self) -> None:
        for session in self.base.iterdir():
            if session.is_dir():
                for terminal in session.iterdir():
                    if terminal.is_dir():
                        terminal.rmdir()
                session.rmdir()
        self.base.rmdir()

    def folders(self) -> list[str]:
        return sorted(str(path.relative_to(self.base)) for path in self.base.rglob("*") if path.is_dir())

    def inside(self) -> int:
        return sum(len((path / "cgroup.procs").read_text().split()) for path in self.base.rglob("tm_*"))


class CgroupTests(CgroupCase):
    async def test_a_program_is_born_in_its_terminals(self) -> None:
        for size in ((80, 24), None):
            text = (
                await self.run_command("cat /proc/self/cgroup; sleep 0.01 & cat /proc/$!/cgroup; wait", size)
            ).decode()
            places = [line for line in text.split() if line.startswith("0::")]
            self.assertEqual(2, len(places))
            for place in places:
                self.assertRegex(place, rf"/{self.base.name}/{SESSION_ID}/tm_\w+$")
            await until(lambda: self.folders() == ["main"], "the folders are removed", 2)

    async def test_the_user_cant_leave(self) -> None:
        text = await self.run_command(f"echo $$ >{self.base}/cgroup.procs || echo no", None)
        self.assertIn(b"no", text)

    async def test_what_nohup_keeps_stays_in_it_and_goes_with_the_session(self) -> None:
        process, recorder = await self.open("setsid sh -c 'echo go; exec sleep 1401 >/dev/null 2>&1' & wait", None)
        await recorder.see(b"go")
        await until(lambda: self.inside() == 2, "both run")
        process.hang_up()
        await recorder.finish()
        self.assertEqual(1, self.inside())
        await self.spawner.end_session(SESSION_ID)
        await until(lambda: self.inside() == 0, "it is killed", 2)
        await self.run_command("true")
        await until(lambda: self.folders() == ["main"], "the folders are removed", 2)

    async def test_a_place_that_is_gone(self) -> None:
        def nowhere(session: str, terminal: str) -> str:
            return str(self.base / "cs_none/cgroup.procs")

        self.patch(Cgroups, "place", lambda cgroups, session, terminal: nowhere(session, terminal))
        failure = await self.assertFailure(self.spawner.spawn(self.begin("true")), Exception)
        self.assertIn("cgroup", str(failure))

    async def test_leftovers_of_an_earlier_run(self) -> None:
        """L1, L9: killed and removed, and nothing else."""
        _, recorder = await self.open("exec sleep 1402", None)
        (self.base / "other").mkdir()
        again = Cgroups.find(CgroupLimits(), self.base)
        self.assertEqual((None, "SIGKILL"), await recorder.finish())
        again.vacate(SESSION_ID, "tm_0123456789ab")
        await until(lambda: self.folders() in (["main", "other"], ["main", "other", SESSION_ID]), "it is cleared", 2)


class KillLeftoversTests(CgroupCase):
    kill_leftovers = True

    async def test_at_the_end_of_a_command(self) -> None:
        await self.run_command("setsid nohup sleep 1403 >/dev/null 2>&1 &", None)
        await until(lambda: self.inside() == 0, "nothing is left", 2)

    async def test_five_seconds_after_a_hang_up(self) -> None:
        """T11: whatever it does, the whole terminal goes."""
        process, recorder = await self.open(
            "trap '' HUP TERM; (setsid sh -c 'trap \"\" HUP; sleep 1404 & sleep 1405; sleep 1406') & (sleep 1407; sleep 1) & echo go; wait", None
        )  # fmt: skip
        await recorder.see(b"go")
        await until(lambda: self.inside() >= 5, "all of them run")
        process.hang_up()
        self.assertEqual((None, "SIGKILL"), await recorder.finish(6.5))
        await until(lambda: self.inside() == 0, "nothing is left", 1)


class LimitTests(SynchronousTestCase):
    """What a session may use. The files are ordinary ones."""

    def setUp(self) -> None:
        self.base = Path(self.mktemp()).absolute()
        self.base.mkdir()
        self.cgroups = Cgroups(self.base, "", CgroupLimits(processes=256, memory=1 << 30, weight=50))
        self.cgroups._controllers = frozenset({"pids", "memory", "cpu"})

    def written(self, terminal: str) -> dict[str, str]:
        """What a session's files say once a terminal has its place."""
        place = self.cgroups.place(SESSION_ID, terminal)
        self.assertEqual(place, str(self.base / SESSION_ID / terminal / "cgroup.procs"))
        return {path.name: path.read_text() for path in (self.base / SESSION_ID).iterdir() if path.is_file()}

    def test_each_session_has_them(self) -> None:
        wanted = {"pids.max": "256", "memory.max": str(1 << 30), "cpu.weight": "50"}
        self.assertEqual(self.written("tm_0123456789ab"), wanted)

    def test_read_anew(self) -> None:
        self.written("tm_0123456789ab")
        self.cgroups.limits = CgroupLimits(processes=None, memory=1 << 20)
        wanted = {"pids.max": "max", "memory.max": str(1 << 20), "cpu.weight": "100"}
        self.assertEqual(self.written("tm_0123456789ac"), wanted)

    def test_only_where_there_is_a_controller(self) -> None:
        self.cgroups._controllers = frozenset({"pids"})
        self.assertEqual(self.written("tm_0123456789ab"), {"pids.max": "256"})


class NotDelegatedTests(SynchronousTestCase):
    """Where there is nothing to divide, nothing happens."""

    def setUp(self) -> None:
        self.base = Path(self.mktemp()).absolute()
        self.base.mkdir()

    def test_none_of_version_2(self) -> None:
        self.patch(cgroup, "own_cgroup", lambda: None)
        found = Cgroups.find(CgroupLimits())
        self.assertIn("no cgroup of version 2", found.describe())
        self.assertEqual("", found.place(SESSION_ID, "tm_0123456789ab"))
        found.vacate(SESSION_ID, "tm_0123456789ab")
        self.assertFalse(found.kill(SESSION_ID))

    def test_the_root_cgroup(self) -> None:
        self.assertIn("root cgroup", Cgroups.find(CgroupLimits(), self.base).describe())

    def test_shared_with_others(self) -> None:
        for name in ("cgroup.type", "cgroup.kill", "cgroup.subtree_control"):
            (self.base / name).touch()
        (self.base / "cgroup.procs").write_text(f"{os.getpid()}\n1\n")
        self.assertIn("shares", Cgroups.find(CgroupLimits(), self.base).describe())
        self.assertFalse((self.base / "main").exists())

    def test_an_old_kernel(self) -> None:
        (self.base / "cgroup.type").touch()
        self.assertIn("cgroup.kill", Cgroups.find(CgroupLimits(), self.base).describe())

    def test_names_that_are_no_ids(self) -> None:
        self.assertRaises(ValueError, Cgroups(self.base).place, "..", "tm_0123456789ab")


class OwnCgroupTests(SynchronousTestCase):
    def place(self, own: str, mounts: str) -> Path | None:
        proc = Path(self.mktemp())
        proc.mkdir()
        (proc / "cgroup").write_text(own)
        (proc / "mountinfo").write_text(mounts)
        return own_cgroup(proc)

    def test_systemd(self) -> None:
        mounts = "30 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
        self.assertEqual(
            Path("/sys/fs/cgroup/system.slice/computerd.service"),
            self.place("0::/system.slice/computerd.service\n", mounts),
        )

    def test_hybrid(self) -> None:
        mounts = "1 2 0:1 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n2 2 0:2 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n"
        self.assertEqual(Path("/sys/fs/cgroup/unified/a"), self.place("8:pids:/b\n0::/a\n", mounts))

    def test_a_container(self) -> None:
        mounts = "30 24 0:27 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        self.assertEqual(Path("/sys/fs/cgroup/x"), self.place("0::/docker/abc/x\n", mounts))
        self.assertIsNone(self.place("0::/elsewhere\n", mounts))

    def test_version_1(self) -> None:
        self.assertIsNone(self.place("8:pids:/b\n", "1 2 0:1 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"))
