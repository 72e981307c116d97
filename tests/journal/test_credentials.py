"""Issued credentials and revocations, from two processes."""

from __future__ import annotations

import os
import sys
import time

from twisted.internet import reactor, task
from twisted.internet.utils import getProcessOutputAndValue
from twisted.trial.unittest import SynchronousTestCase

from computerd.api.credentials import Revocation
from computerd.journal import credentials
from computerd.journal.credentials import Issued
from computerd.journal.refusal import DamagedError, UnsafeFileError
from computerd.journal.revocations import Revocations
from computerd.journal.thread import POLL_SECONDS
from tests.journal.real import JournalCase

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def a_credential(token_id: str, member: str = "alice", issued_at: float = 1000.0) -> Issued:
    """A credential."""
    return Issued(token_id, member, "Al'ice", None, False, ("sessions:read", "terminals"), issued_at, issued_at + 60)


class FileTests(JournalCase):
    """On a path."""

    def test_there_and_back(self) -> None:
        self.assertEqual(credentials.issued(self.path), [])
        self.assertEqual(os.listdir(self.folder), [])
        first, second = a_credential("a"), a_credential("b", issued_at=2000.5)
        credentials.issue(self.path, first)
        credentials.issue(self.path, second)
        self.assertEqual(credentials.issued(self.path), [second, first])

    def test_revoke(self) -> None:
        for token_id, member, issued_at in (("a", "alice", 1000), ("b", "alice", 2000), ("c", "bob", 1000)):
            credentials.issue(self.path, a_credential(token_id, member, issued_at))
        self.assertEqual(credentials.revoke(self.path, token_id="c", at=1500), 1)
        self.assertEqual(credentials.revoke(self.path, token_id="c", at=1500), 0)
        self.assertEqual(credentials.revoke(self.path, member="alice", at=1500), 1)
        self.assertEqual(credentials.revoke(self.path, token_id="minted elsewhere", at=1500), 0)
        self.assertEqual(
            {item.token_id: item.revoked for item in credentials.issued(self.path)}, {"a": True, "b": False, "c": True}
        )

    def test_exactly_one_of_the_two(self) -> None:
        with self.assertRaises(ValueError):
            credentials.revoke(self.path, at=1)
        with self.assertRaises(ValueError):
            credentials.revoke(self.path, token_id="a", member="b", at=1)

    def test_a_damaged_file_is_left_alone(self) -> None:
        with open(self.path, "wb") as file:
            file.write(b"garbage " * 1000)
        os.chmod(self.path, 0o600)
        with self.assertRaises(DamagedError):
            credentials.revoke(self.path, token_id="a", at=1)
        self.assertEqual(os.listdir(self.folder), ["journal.db"])

    def test_a_link(self) -> None:
        os.symlink("/etc/passwd", self.path)
        with self.assertRaises(UnsafeFileError):
            credentials.issued(self.path)


class RevocationsTests(SynchronousTestCase):
    """In memory."""

    def setUp(self) -> None:
        self.revocations = Revocations()
        self.changes: list[str] = []

    def test_nothing_is_revoked(self) -> None:
        self.assertFalse(self.revocations.revoked("a", "alice", 0.0))

    def test_by_id(self) -> None:
        self.revocations.replace([Revocation("a", None, 5.0)])
        self.assertTrue(self.revocations.revoked("a", "alice", 9.0))
        self.assertFalse(self.revocations.revoked("b", "alice", 1.0))

    def test_by_member(self) -> None:
        self.revocations.replace([Revocation(None, "alice", 9.0), Revocation(None, "alice", 5.0)])
        revoked = [
            self.revocations.revoked("a", member, at) for member, at in (("alice", 9.0), ("alice", 9.1), ("bob", 1.0))
        ]
        self.assertEqual(revoked, [True, False, False])

    def test_everybody(self) -> None:
        self.revocations.replace([Revocation(None, None, 9.0)])
        self.assertEqual([self.revocations.revoked("a", "bob", at) for at in (9.0, 9.1)], [True, False])

    def test_watchers_hear_of_changes_only(self) -> None:
        changed = lambda: self.changes.append("changed")  # noqa: E731
        ends = [self.revocations.watch(changed), self.revocations.watch(changed)]
        self.revocations.replace([])
        self.assertEqual(self.changes, [])
        self.revocations.replace([Revocation("a", None, 5.0)])
        self.revocations.replace([Revocation("a", None, 5.0)])
        self.assertEqual(len(self.changes), 2)
        ends[0]()
        ends[0]()
        self.revocations.replace([])
        self.assertEqual(len(self.changes), 3)
        ends[1]()
        self.revocations.replace([Revocation("a", None, 5.0)])
        self.assertEqual(len(self.changes), 3)

    def test_a_watcher_may_end_itself(self) -> None:
        ends = [self.revocations.watch(lambda: ends[0]())]
        self.revocations.watch(lambda: self.changes.append("changed"))
        self.revocations.replace([Revocation("a", None, 5.0)])
        self.assertEqual(self.changes, ["changed"])


class TwoProcessTests(JournalCase):
    """`computerctl` writes, the daemon notices."""

    async def elsewhere(self, call: str) -> None:
        """Runs it in another process."""
        script = f"from computerd.journal import credentials; credentials.{call}"
        _, errors, code = await getProcessOutputAndValue(
            sys.executable, ["-c", script], env={"PYTHONPATH": ROOT}, path=os.getcwd()
        )
        self.assertEqual((code, errors), (0, b""))

    async def test_a_revocation_is_seen_within_a_second(self) -> None:
        self.assertLess(2 * POLL_SECONDS, 1)  # and below there is room for a busy machine
        journal = await self.started()
        session = await self.session(journal)
        seen: list[float] = []
        journal.revocations.watch(lambda: seen.append(time.monotonic()))
        await self.elsewhere(f"revoke({self.path!r}, token_id='a', at=5.0)")
        written = time.monotonic()
        while not seen:
            # the daemon is not idle meanwhile
            await journal.events(session, after=0, limit=1, types=None)
            self.assertLess(time.monotonic() - written, 3.0)
        self.assertTrue(journal.revocations.revoked("a", "alice", 1.0))

    async def test_an_idle_daemon_sees_it_too(self) -> None:
        journal = await self.started()
        seen: list[float] = []
        journal.revocations.watch(lambda: seen.append(time.monotonic()))
        await self.elsewhere(f"revoke({self.path!r}, member='alice', at=5.0)")
        written = time.monotonic()
        while not seen:
            await task.deferLater(reactor, 0.005)
            self.assertLess(time.monotonic() - written, 3.0)
        self.assertTrue(journal.revocations.revoked("x", "alice", 5.0))

    async def test_they_outlive_a_restart(self) -> None:
        first = await self.started()
        await self.elsewhere(f"revoke({self.path!r}, token_id='a', at=5.0)")
        await first.stop()
        second = await self.started()
        self.assertTrue(second.revocations.revoked("a", "alice", 1.0))

    async def test_they_are_known_when_the_start_is_done(self) -> None:
        credentials.revoke(self.path, token_id="a", at=5.0)
        journal = await self.started()
        self.assertTrue(journal.revocations.revoked("a", "alice", 1.0))

    async def test_the_daemon_goes_on_writing_meanwhile(self) -> None:
        journal = await self.started()
        await self.session(journal)
        work = self.elsewhere(f"issue({self.path!r}, credentials.Issued('a', 'm', None, None, False, (), 1.0, None))")
        await work
        credentials.revoke(self.path, token_id="a", at=5.0)
        await self.session(journal, 2)
        self.assertEqual([item.revoked for item in credentials.issued(self.path)], [True])
