"""Where sessions live."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import evolve
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.host.accounts import invoking_user
from computerd.host.settings import HostError
from computerd.host.workspaces import Workspaces
from tests.host.real import SESSION_ID


class WorkspacesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp()).absolute()
        self.root.mkdir(0o755)
        self.account = invoking_user()

    def open(self, *, hand_over: bool = False) -> Workspaces:
        found = Workspaces.open(self.root, hand_over=hand_over)
        self.addCleanup(found.close)
        return found

    def test_made_for_the_user_alone(self) -> None:
        if os.geteuid() != 0:
            raise SkipTest("hands a folder over: run as root")
        path = self.open(hand_over=True).make(SESSION_ID, evolve(self.account, uid=1234, gid=2345))
        found = os.stat(path)
        self.assertEqual((1234, 2345, 0o40700), (found.st_uid, found.st_gid, found.st_mode))
        self.assertEqual(str(self.root / SESSION_ID), path)

    def test_an_existing_one_is_left_alone(self) -> None:
        (self.root / SESSION_ID).mkdir(0o750)
        (self.root / SESSION_ID / "file").touch()
        self.open(hand_over=True).make(SESSION_ID, evolve(self.account, uid=1234))
        found = (self.root / SESSION_ID).stat()
        self.assertEqual((os.geteuid(), 0o40750), (found.st_uid, found.st_mode))

    def test_a_link_is_left_alone(self) -> None:
        other = self.root / "other"
        other.mkdir()
        (self.root / SESSION_ID).symlink_to(other)
        self.open(hand_over=True).make(SESSION_ID, evolve(self.account, uid=1234))
        self.assertEqual(os.geteuid(), other.stat().st_uid)

    def test_half_made_is_unmade(self) -> None:
        def full(*arguments: object, **named: object) -> None:
            raise OSError(122, "Disk quota exceeded")

        self.patch(os, "chown", full)
        error = self.assertRaises(ApiError, self.open(hand_over=True).make, SESSION_ID, self.account)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
        self.assertIn("quota", error.message)
        self.assertEqual([], os.listdir(self.root))

    def test_no_room(self) -> None:
        def full(*arguments: object, **named: object) -> None:
            raise OSError(28, "No space left on device")

        self.patch(os, "mkdir", full)
        error = self.assertRaises(ApiError, self.open().make, SESSION_ID, self.account)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
        self.assertNotIn(str(self.root), error.message)

    def test_nothing_but_an_id(self) -> None:
        for name in ("..", "cs_../../etc/passwd", "", "cs_0123456789abcdef\n", "x"):
            self.assertRaises(ValueError, self.open().make, name, self.account)

    def test_a_root_that_wont_do(self) -> None:
        link = self.root / "link"
        link.symlink_to(self.root)
        for path, what in ((self.root / "none", "No such file"), (link, "can't be opened")):
            error = self.assertRaises(HostError, Workspaces.open, path, hand_over=False)
            self.assertIn(what, str(error))
            self.assertNotIn("\n", str(error))
        for mode in (0o775, 0o757, 0o1777):
            self.root.chmod(mode)
            error = self.assertRaises(HostError, Workspaces.open, self.root, hand_over=False)
            self.assertIn("chmod go-w", str(error))

    def test_a_root_of_somebody_else(self) -> None:
        if os.geteuid() != 0:
            raise SkipTest("gives a folder away: run as root")
        os.chown(self.root, 1234, 0)
        self.assertRaises(HostError, Workspaces.open, self.root, hand_over=False)

    def test_renamed_parents_dont_move_it(self) -> None:
        found = self.open()
        moved = self.root.with_name(self.root.name + "-moved")
        self.root.rename(moved)
        found.make(SESSION_ID, self.account)
        self.assertEqual([SESSION_ID], os.listdir(moved))
