"""A disk that is full (S3): on a small tmpfs."""

from __future__ import annotations

import os
import subprocess

from twisted.internet import reactor, task
from twisted.trial.unittest import SkipTest

from computerd.contract.errors import ApiError, Code
from computerd.journal import reserve
from computerd.journal.engine import Engine
from computerd.journal.journal import Journal
from tests.journal.real import JournalCase
from tests.session.journal_interface import all_events, closed, opened, session_id

LARGE = "x" * 10_000


class FullDiskCase(JournalCase):
    """Has its folder on a tmpfs of its own."""

    size_of_disk = "2m"

    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            raise SkipTest("only root can mount a small file system")
        mount = [
            "mount",
            "-t",
            "tmpfs",
            "-o",
            f"size={self.size_of_disk},mode=700",
            "tmpfs",
            os.path.abspath(self.folder),
        ]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SkipTest(f"no small file system can be mounted here: {done.stderr.strip()}")
        # cleanups run in reverse: the journal is stopped before
        self.addCleanup(subprocess.run, ["umount", "-l", os.path.abspath(self.folder)], check=True)
        self.reports: list[str] = []
        self.patch(Engine, "_report", lambda journal, text: self.reports.append(text))

    @property
    def filler(self) -> str:
        """A file that takes the space."""
        return os.path.join(self.folder, "filler")

    def fill(self) -> None:
        """Takes all the space that is left."""
        with open(self.filler, "ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while file.write(b"x" * size):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        """Gives the space back."""
        os.unlink(self.filler)

    async def use_up(self, journal: Journal) -> int:
        """Appends until the journal refuses, and returns how many events it took."""
        for number in range(10_000):
            try:
                await journal.append(session_id(1), [opened(number, LARGE)])
            except ApiError as error:
                self.assertEqual((error.code, error.retry_after_ms), (Code.UNAVAILABLE, 1000))
                return number
        raise self.failureException("the disk is never full")


class FullDiskTests(FullDiskCase):
    """Too small for a reserve."""

    async def test_refuses_reads_and_recovers(self) -> None:
        """S3."""
        journal = await self.started()
        session = await self.session(journal)
        self.fill()
        taken = await self.use_up(journal)
        self.assertFalse(journal.stalled)
        self.assertEqual(len(await all_events(journal)), taken + 2)
        self.assertIsNotNone(await journal.session(session))
        self.free()
        (event,) = await journal.append(session, [opened(5_000, LARGE)])
        self.assertEqual(event.seq, taken + 3)
        self.assertEqual([event.seq for event in await all_events(journal)], list(range(1, taken + 4)))
        self.assertEqual(self.query("PRAGMA quick_check"), [("ok",)])
        self.assertEqual(len(self.reports), 2)

    async def test_closing_waits_for_room(self) -> None:
        journal = await self.started()
        await self.session(journal)
        await journal.append(session_id(1), [opened(9_000)])
        self.fill()
        await self.use_up(journal)
        # a small one may still fit into a page, so let it be large
        done = journal.append(session_id(1), [closed(9_000), opened(9_001, LARGE)], patient=True)
        with self.assertRaises(ApiError):
            await journal.append(session_id(1), [opened(9_002, LARGE)])
        self.assertNoResult(done)
        self.free()
        self.assertEqual((await done)[0].data["terminalId"], "tm_000000009000")

    async def test_many_refusals_make_one_line(self) -> None:
        journal = await self.started()
        await self.session(journal)
        self.fill()
        await self.use_up(journal)
        for number in range(50):
            with self.assertRaises(ApiError):
                await journal.append(session_id(1), [opened(number, LARGE)])
        self.assertEqual(len(self.reports), 1)


class ReserveTests(FullDiskCase):
    """Large enough for a reserve of 16 MiB."""

    size_of_disk = "64m"

    async def test_what_ends_may_use_the_reserve(self) -> None:
        """S3."""
        journal = await self.started()
        await self.session(journal)
        self.assertEqual(os.path.getsize(os.path.join(self.folder, "reserve.bin")), reserve.BYTES)  # noqa: ASYNC240
        await journal.append(session_id(1), [opened(9_000)])
        self.fill()
        await self.use_up(journal)
        (event,) = await journal.append(session_id(1), [closed(9_000)], patient=True)
        self.assertEqual(event.type, "terminal.closed")
        self.free()
        while os.path.getsize(os.path.join(self.folder, "reserve.bin")) < reserve.BYTES:  # noqa: ASYNC240
            await task.deferLater(reactor, 0.01)
        await journal.append(session_id(1), [opened(9_001, LARGE)])

    async def test_a_start_on_a_full_disk_may_use_it_too(self) -> None:
        first = await self.started()
        await self.session(first)
        await first.append(session_id(1), [opened(9_000)])
        await first.stop()
        self.fill()
        second = await self.started()
        self.assertEqual((await all_events(second))[-1].type, "terminal.closed")
