"""Files by the program that is there for it, as a Unix user, and how its process lives."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from time import monotonic

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred

from computerd.contract.errors import ApiError, Code
from computerd.host import worker_life
from computerd.host.files import HostFiles
from computerd.workspace.port import Listing, Upload
from tests.host.people import processes_of, status
from tests.host.played_worker import PLACE, WorkerCase
from tests.host.real import SESSION_ID, children
from tests.host.taken import Taken
from tests.host.test_cgroup import CgroupCase
from tests.host.waiting import reactor, until

LISTS = """
while True:
    number, kind, payload = get()
    if kind == b"C": say(number, b"R", page)
"""


def listed(files: HostFiles, path: str = "", session_id: str = SESSION_ID) -> Deferred[Listing]:
    return files.list(evolve(PLACE, session_id=session_id), path, depth=1, limit=100, cursor=None)


def read(pid: int, name: str) -> bytes:
    """A file of proc(5)."""
    return Path(f"/proc/{pid}/{name}").read_bytes()


class FilesTests(WorkerCase):
    """The port, from one end to the other."""

    async def setUp(self) -> None:  # type: ignore[override]
        await super().setUp()
        self.files = HostFiles.by(self.spawner, reactor)
        await listed(self.files)
        self.workspace = self.root / SESSION_ID

    def put(self, name: str, data: bytes) -> Path:
        file = self.workspace / name
        file.write_bytes(data)
        shutil.chown(file, self.uid)
        return file

    async def read(self, name: str, start: int, length: int) -> bytes:
        opened = await self.files.open(PLACE, name)
        taken = Taken()
        opened.read(start, length).start(taken)
        self.assertIsNone(await taken.finish())
        return bytes(taken.text)

    async def packed(self, path: str) -> bytes:
        packed = await self.files.pack(PLACE, path, "identity")
        taken = Taken()
        packed.source.start(taken)
        self.assertIsNone(await taken.finish())
        return bytes(taken.text)

    async def upload(self, path: str, *, replace: bool = False) -> Upload:
        return await self.files.unpack(PLACE, path, replace=replace, coding="identity")

    async def give(self, upload: Upload, data: bytes) -> None:
        rooms: list[Deferred[None]] = []
        upload.begin(lambda: rooms.pop().callback(None), lambda: None)
        for at in range(0, len(data), 65536):
            if not upload.write(data[at : at + 65536]):
                rooms.append(Deferred())
                await rooms[0]

    async def test_a_listing(self) -> None:
        self.put("b", b"12345")
        (self.workspace / "a").symlink_to("b")
        entries = (await listed(self.files)).entries
        self.assertEqual(
            [("a", "symlink", "b"), ("b", "file", None)], [(one.name, one.type, one.target) for one in entries]
        )

    async def test_refusals(self) -> None:
        for path, code in (("no", Code.PATH_NOT_FOUND), ("../..", Code.INVALID_PATH), ("/etc", Code.INVALID_PATH)):
            with self.assertRaises(ApiError) as caught:
                await self.files.open(PLACE, path)
            self.assertEqual(code, caught.exception.code)

    async def test_reading(self) -> None:
        data = os.urandom(5_000_001)
        self.put("a", data)
        self.assertEqual(data, await self.read("a", 0, len(data)))
        self.assertEqual(data[7:4_000_000], await self.read("a", 7, 3_999_993))
        self.assertEqual(b"", await self.read("a", 7, 0))

    async def test_an_archive_there_and_back(self) -> None:
        data = os.urandom(3_000_000)
        self.put("a", data)
        archive = await self.packed("")
        upload = await self.upload("new")
        await self.give(upload, archive)
        landed = await upload.finish()
        self.assertEqual(("new", 1, len(data), False), (landed.path, landed.files, landed.bytes, landed.replaced))
        self.assertEqual(data, (self.workspace / "new/a").read_bytes())
        with self.assertRaises(ApiError) as caught:
            await self.upload("new")
        self.assertEqual(Code.PATH_EXISTS, caught.exception.code)
        again = await self.upload("new", replace=True)
        await self.give(again, archive)
        self.assertTrue((await again.finish()).replaced)

    async def test_an_upload_that_is_given_up_leaves_nothing(self) -> None:
        self.put("a", os.urandom(1_000_000))
        archive = await self.packed("")
        before = sorted(os.listdir(self.workspace))
        upload = await self.upload("new")
        await self.give(upload, archive[:600_000])
        upload.abort()
        await until(lambda: sorted(os.listdir(self.workspace)) == before, "nothing is left")
        self.assertEqual(1, self.workers())

    async def test_an_upload_that_is_cut_off(self) -> None:
        self.put("a", os.urandom(1_000_000))
        archive = await self.packed("")
        before = sorted(os.listdir(self.workspace))
        upload = await self.upload("new")
        await self.give(upload, archive[:600_000])
        with self.assertRaises(ApiError) as caught:
            await upload.finish()
        self.assertEqual(Code.INVALID_ARCHIVE, caught.exception.code)
        self.assertEqual(before, sorted(os.listdir(self.workspace)))

    async def test_the_session_ends_in_the_midst_of_an_upload(self) -> None:
        self.put("a", os.urandom(1_000_000))
        archive = await self.packed("")
        before = sorted(os.listdir(self.workspace))
        upload = await self.upload("new")
        await self.give(upload, archive[:600_000])
        await self.spawner.end_session(SESSION_ID)
        self.assertEqual(before, sorted(os.listdir(self.workspace)))
        with self.assertRaises(ApiError) as caught:
            await upload.finish()
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, caught.exception.code)

    async def test_forty_requests_at_once(self) -> None:
        data = os.urandom(700_000)
        self.put("a", data)
        reads = [Deferred.fromCoroutine(self.read("a", at, 600_000)) for at in range(40)]
        for at, one in enumerate(reads):
            self.assertEqual(data[at : at + 600_000], await one)

    async def test_a_reader_that_goes_away(self) -> None:
        self.put("a", bytes(20_000_000))
        for _ in range(20):
            opened = await self.files.open(PLACE, "a")
            source = opened.read(0, 20_000_000)
            taken = Taken(source=source, stop_after=1)
            source.start(taken)
            await until(lambda taken=taken: taken.text, "some of it")  # type: ignore[misc]
        self.assertEqual(20_000_000, len(await self.read("a", 0, 20_000_000)))
        self.assertEqual(1, self.workers())

    async def test_it_is_the_user_and_has_no_secrets(self) -> None:
        (pid,) = processes_of(self.uid)
        self.assertEqual([str(self.uid)] * 4, status(pid, "Uid").split())
        self.assertEqual("1", status(pid, "NoNewPrivs"))
        self.assertEqual("0000000000000000", status(pid, "CapEff"))
        environment = read(pid, "environ").split(b"\0")
        self.assertEqual(
            [b"HOME", b"LANG", b"LOGNAME", b"PATH", b"PWD", b"SHELL", b"TERM", b"USER", b""],
            sorted((one.partition(b"=")[0] for one in environment), key=lambda name: name or b"~"),
        )
        self.assertEqual(str(self.workspace), os.readlink(f"/proc/{pid}/cwd"))
        held = {os.readlink(f"/proc/{pid}/fd/{name}").partition(":")[0] for name in os.listdir(f"/proc/{pid}/fd")}
        self.assertEqual({"socket", "pipe", str(self.workspace)}, held)


class LifeTests(WorkerCase):
    """F13."""

    async def test_one_for_all_requests_of_a_session(self) -> None:
        files = self.play(LISTS)
        for _ in range(3):
            self.assertEqual("a", (await listed(files)).entries[0].name)
            self.assertEqual(1, len(processes_of(self.uid)))
        await listed(files, session_id="cs_9999999999999999")
        self.assertEqual(2, len(processes_of(self.uid)))

    async def test_idle_ones_end(self) -> None:
        self.patch(worker_life, "IDLE_SECONDS", 0.2)
        files = self.play(LISTS)
        await listed(files)
        await until(lambda: not self.workers(), "it has ended", 3)
        self.assertEqual([], processes_of(self.uid))
        await listed(files)

    async def test_they_end_with_their_session(self) -> None:
        files = self.play(LISTS)
        await listed(files)
        await listed(files, session_id="cs_9999999999999999")
        await self.spawner.end_session(SESSION_ID)
        self.assertEqual(1, len(processes_of(self.uid)))
        await self.spawner.end_session("cs_9999999999999999")
        self.assertEqual([], processes_of(self.uid))
        await listed(files)

    async def test_one_that_stays_is_killed_with_its_session(self) -> None:
        files = self.play('get(); say(1, b"R", page); signal.signal(signal.SIGHUP, signal.SIG_IGN); time.sleep(1000)')
        await listed(files)
        began = monotonic()
        await self.spawner.end_session(SESSION_ID)
        self.assertLess(monotonic() - began, 5.5)
        self.assertEqual([], processes_of(self.uid))

    async def test_what_is_starting_fails_with_its_session(self) -> None:
        files = self.play(LISTS)
        asked = listed(files)
        await self.spawner.end_session(SESSION_ID)
        await self.assertFailure(asked, ApiError)
        self.assertEqual(0, self.workers())

    async def test_they_end_with_the_daemon(self) -> None:
        files = self.play(LISTS)
        await listed(files)
        await listed(files, session_id="cs_9999999999999999")
        starting = listed(files, session_id="cs_8888888888888888")
        await self.spawner.shutdown()
        await self.assertFailure(starting, ApiError)
        await until(lambda: not processes_of(self.uid), "what was starting is dead, too", 2)
        error = await self.assertFailure(listed(files), ApiError)
        self.assertIn("stopping", str(error))

    async def test_the_caller_goes_while_it_starts(self) -> None:
        files = self.play(LISTS)
        asked = listed(files)
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        await listed(files)
        self.assertEqual(1, self.workers())

    async def test_a_workspace_that_the_user_cant_enter(self) -> None:
        files = self.play(LISTS)
        await listed(files)
        await self.spawner.end_session(SESSION_ID)
        (self.root / SESSION_ID).chmod(0)
        os.chown(self.root / SESSION_ID, 0, 0)
        with self.assertRaises(ApiError) as caught:
            await listed(files)
        self.assertEqual(Code.COMPUTER_NOT_SET_UP, caught.exception.code)
        await until(lambda: set(children()) <= self.born, "no child is left")

    async def test_many_lives_leave_nothing(self) -> None:
        files = self.play(LISTS)
        for _ in range(20):
            await listed(files)
            await self.spawner.end_session(SESSION_ID)


class CgroupTests(CgroupCase):
    """F13: in the session's cgroup, in a place of its own."""

    async def test_its_place(self) -> None:
        files = HostFiles.by(self.spawner, reactor)
        await listed(files)
        (pid,) = processes_of(self.uid)
        self.assertIn(f"/{SESSION_ID}/tm_", read(pid, "cgroup").decode())
        await self.spawner.end_session(SESSION_ID)
        self.assertEqual([], processes_of(self.uid))
        await until(lambda: not (self.base / SESSION_ID).exists(), "its cgroup is gone")


class PythonLauncherTests(LifeTests):
    """By the other launcher."""

    launcher = "python"


class OrdinaryUserTests(WorkerCase):
    """A daemon that isn't root."""

    as_root = False

    async def test_its_own_user(self) -> None:
        files = HostFiles.by(self.spawner, reactor)
        await listed(files)
        self.assertEqual(1, self.workers())
        await self.spawner.end_session(SESSION_ID)
        self.assertEqual(0, self.workers())
