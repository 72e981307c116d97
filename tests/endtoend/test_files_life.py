"""The process that works on the files: its life, its death and that of others (F5, F12, F13, I9, I10)."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time

from tests.endtoend import folders
from tests.endtoend.client import WAIT, Reply
from tests.endtoend.client import http as ask
from tests.endtoend.computer import Computer, alive, eventually
from tests.endtoend.files_case import SOON, FilesCase, staged, workers
from tests.endtoend.folders import Remote, tree
from tests.endtoend.test_life import LifeCase


class LifeTests(FilesCase):
    """Sessions that are suspended or archived, and the worker's life (F13)."""

    def test_suspended_and_archived(self) -> None:
        """F13: their worker ends with them; a suspended one's files are there without waking it; an archived one's can be read."""
        client = self.connect()
        self.write("f", b"mine")
        self.assertEqual(self.remote.get("file", "f").body, b"mine")
        self.assertEqual(len(workers(self.remote)), 1)
        client.ask("sessions.suspend", sessionId=self.session)
        eventually(lambda: not workers(self.remote), "the worker is gone")
        self.assertEqual(self.remote.put("up", folders.of_files(n=b"new")).status, 201)
        self.assertEqual(self.remote.get("file", "up/n").body, b"new")
        self.assertEqual(self.computer.get(self.session)["status"], "suspended")
        client.ask("sessions.update", sessionId=self.session, archived=True)
        eventually(lambda: not workers(self.remote), "the worker is gone")
        self.assertEqual(self.remote.get("file", "up/n").body, b"new")
        self.assertEqual(self.remote.get("archive", "up").status, 200)
        self.refused(self.remote.put("more", folders.of_files(n=b"new")), 409, "feature_unavailable")
        self.assertFalse((self.top / "more").exists())

    def test_one_each_and_a_dead_one_is_replaced(self) -> None:
        """F13, I9: however many ask; a worker that is killed in an upload costs that one, and leaves nothing that is seen."""
        self.write("f", b"x")
        done: list[int] = []
        asking = [threading.Thread(target=lambda: done.append(self.remote.get("files").status)) for _ in range(10)]
        for one in asking:
            one.start()
        for one in asking:
            one.join()
        self.assertEqual(done, [200] * 10)
        (worker,) = workers(self.remote)
        if self.agent is not None:
            self.assertEqual(os.stat(f"/proc/{worker}").st_uid, self.agent.uid)
        raw = self.remote.begin("d")
        raw.sendall(folders.chunk(folders.of_files(new=b"x" * 500_000)[:300_000]))
        eventually(lambda: staged(self.top), "it is on its way")
        os.kill(worker, signal.SIGKILL)
        raw.settimeout(WAIT)
        self.assertIn(b"computer_unavailable", raw.recv(65536))
        raw.close()
        self.assertEqual(self.remote.names(), ["f"])
        self.assertNotEqual(workers(self.remote), [worker])
        self.assertEqual(self.remote.put("d", folders.of_files(new=b"x")).status, 201)

    def test_a_stopped_worker(self) -> None:
        """I9, I10: the one who asks is told within the deadline, and meanwhile nobody else waits."""
        other = Remote(self.computer, self.computer.session())
        self.assertEqual(other.get("files").status, 200)
        (worker,) = workers(self.remote)
        os.kill(worker, signal.SIGSTOP)
        told: list[Reply] = []
        asking = threading.Thread(target=lambda: told.append(self.remote.get("files")))
        began = time.monotonic()
        asking.start()
        while asking.is_alive():
            moment = time.monotonic()
            self.assertEqual(other.get("files").status, 200)
            self.assertLess(time.monotonic() - moment, SOON)
            self.assertLess(moment, began + 15)
            asking.join(0.2)
        self.refused(told[0], 503, "computer_unavailable")
        eventually(lambda: not alive(worker), "it is killed")
        self.assertEqual(self.remote.get("files").status, 200)


class DeathTests(LifeCase):
    """The daemon dies, and the disk is full."""

    timeout = 120

    def test_a_killed_daemon(self) -> None:
        """F5, L1: the workspace is as it was, and its worker ends; so after a stop in order."""
        computer = self.computer()
        remote = Remote(computer, computer.session())
        self.assertEqual(remote.put("d", folders.of_files(old=b"old")).status, 201)
        before = tree(remote.folder)
        for number in (signal.SIGKILL, signal.SIGTERM):
            raw = remote.begin("d", replace=True)
            raw.sendall(folders.chunk(folders.of_files(new=b"x" * 500_000)[:300_000]))
            eventually(lambda: staged(remote.folder), "it is on its way")
            (worker,) = workers(remote)
            computer.stop(number)
            raw.close()
            eventually(lambda worker=worker: not alive(worker), "the worker ends")
            self.assertEqual(before, tree(remote.folder))
            computer.start()
            self.assertEqual(remote.names(depth=2), ["d", "d/old"])
        self.assertEqual(len([e for e in computer.journal(remote.session) if e["type"] == "files.pushed"]), 1)

    def test_a_full_disk(self) -> None:
        """F5, F12: `unavailable`, nothing half, what was there is whole, and the journal goes on."""
        if os.geteuid() != 0:
            self.skipTest("needs root: it mounts a small file system")
        computer = Computer(agent=self.agent)
        self.addCleanup(computer.remove)
        disk = computer.folder / "workspaces"
        disk.mkdir(mode=0o755)
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", str(disk)], capture_output=True, check=False
        )
        if made.returncode:
            self.skipTest("needs a kernel that lets it mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=True)
        computer.start()
        remote = Remote(computer, computer.session())
        self.assertEqual(remote.put("d", folders.of_files(old=b"old")).status, 201)
        before = tree(remote.folder)
        for path, replace in (("d", True), ("e", False)):
            reply = remote.put(path, folders.of_files(new=os.urandom(12 << 20)), replace=replace)
            self.assertEqual((reply.status, reply.code), (503, "unavailable"), reply.body)
            self.assertEqual(before, tree(remote.folder))
            self.assertEqual(staged(remote.folder), [])
        self.assertEqual(remote.put("e", folders.of_files(new=os.urandom(4 << 20))).status, 201)
        free = os.statvfs(disk)
        (remote.folder / "filler").write_bytes(bytes((free.f_bavail - 10) * free.f_bsize))
        self.assertEqual(remote.put("f", folders.of_files(new=b"x")).code, "unavailable")
        self.assertEqual(remote.get("file", "d/old").body, b"old")
        self.assertEqual(ask(f"{computer.base}/sessions/{computer.session()}", token=computer.token()).status, 200)
