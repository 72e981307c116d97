"""Who may be an agent's user."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.host import accounts
from computerd.host.accounts import Account, Accounts, expired, invoking_user
from computerd.host.settings import HostSettings

_DAY = 86400.0


class AccountsTests(SynchronousTestCase):
    """Over a password database of the test's own."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.users = {
            "agent": pwd.struct_passwd(("agent", "x", 1500, 1500, "", "/home/agent", "/bin/zsh")),
            "empty": pwd.struct_passwd(("empty", "x", 1501, 1500, "", "", "")),
            "zero": pwd.struct_passwd(("zero", "x", 0, 1500, "", "/", "/bin/sh")),
            "rootgroup": pwd.struct_passwd(("rootgroup", "x", 1502, 0, "", "/", "/bin/sh")),
            "daemon": pwd.struct_passwd(("daemon", "x", 1, 1, "", "/", "/bin/sh")),
            "nobody": pwd.struct_passwd(("nobody", "x", 2**32 - 1, 1500, "", "/", "/bin/sh")),
        }
        self.groups = {1500: "agent", 27: "sudo", 900: "docker", 6: "disk"}
        self.member_of: dict[str, list[int]] = {}
        self.looked_up: list[str] = []
        self.patch(pwd, "getpwnam", self._user)
        self.patch(grp, "getgrgid", self._group)
        self.patch(os, "getgrouplist", lambda name, gid: [gid, *self.member_of.get(name, [])])
        self.patch(accounts, "expired", lambda name, now: False)

    def _user(self, name: str) -> pwd.struct_passwd:
        self.looked_up.append(name)
        return self.users[name]

    def _group(self, gid: int) -> grp.struct_group:
        return grp.struct_group((self.groups[gid], "x", gid, []))

    def accounts(self, **settings: object) -> Accounts:
        chosen = HostSettings(**{"workspace_root": Path("/"), "agent_user": "agent", **settings})  # type: ignore[arg-type]
        return Accounts(chosen, True, self.clock.seconds, lambda: 1000 * _DAY)

    def refused(self, found: Accounts, owner: str = "mb_1") -> str:
        error = self.assertRaises(ApiError, found.of, owner)
        self.assertEqual(Code.COMPUTER_NOT_SET_UP, error.code)
        return str(error)

    def test_the_agents_user(self) -> None:
        self.member_of["agent"] = [1500, 2000]
        self.assertEqual(
            Account("agent", 1500, 1500, (1500, 2000), "/home/agent", "/bin/zsh"), self.accounts().of("mb_1")
        )

    def test_a_members_own_user(self) -> None:
        found = self.accounts(users={"mb_2": "empty"})
        self.assertEqual("agent", found.of("mb_1").name)
        self.assertEqual("empty", found.of("mb_2").name)

    def test_empty_fields(self) -> None:
        found = self.accounts(agent_user="empty").of("mb_1")
        self.assertEqual(("/", "/bin/sh"), (found.home, found.shell))

    def test_remembered_for_ten_seconds(self) -> None:
        found = self.accounts()
        found.of("mb_1")
        self.clock.advance(9.9)
        found.of("mb_1")
        self.assertEqual(["agent"], self.looked_up)
        self.clock.advance(0.2)
        del self.users["agent"]
        self.assertIn("does not exist", self.refused(found))
        self.assertEqual(["agent"] * 2, self.looked_up)

    def test_refused(self) -> None:
        """D3."""
        for name, why in (
            ("zero", "root"),
            ("rootgroup", "root"),
            ("daemon", "uid 1"),
            ("nobody", "root"),
            ("who", "exist"),
        ):
            message = self.refused(self.accounts(agent_user=name))
            self.assertIn(name, message)
            self.assertIn(why, message)
        self.assertIn("setup", self.refused(self.accounts(agent_user=None)))

    def test_root_is_refused_whatever_is_set(self) -> None:
        for name in ("zero", "rootgroup"):
            self.refused(self.accounts(agent_user=name, allow_system_user=True, allow_groups={"root"}))

    def test_a_system_user_that_is_allowed(self) -> None:
        self.groups[1] = "daemon"
        self.assertEqual(1, self.accounts(agent_user="daemon", allow_system_user=True).of("mb_1").uid)

    def test_groups_as_good_as_root(self) -> None:
        """D3."""
        for gid in (27, 900, 6):
            self.member_of["agent"] = [gid]
            self.assertIn(self.groups[gid], self.refused(self.accounts()))
            self.assertEqual(1500, self.accounts(allow_groups={self.groups[gid]}).of("mb_1").uid)

    def test_expired(self) -> None:
        self.patch(accounts, "expired", lambda name, now: True)
        self.assertIn("expired", self.refused(self.accounts()))

    def test_a_daemon_without_root_power_has_its_own_user_only(self) -> None:
        self.patch(pwd, "getpwuid", lambda uid: self.users["agent"])
        found = Accounts(HostSettings(Path("/"), "zero"), False, self.clock.seconds, lambda: 0)
        self.assertEqual("agent", found.of("mb_1").name)

    def test_a_uid_without_an_account(self) -> None:
        def nobody(uid: int) -> pwd.struct_passwd:
            raise KeyError(uid)

        self.patch(pwd, "getpwuid", nobody)
        self.assertEqual(
            (str(os.getuid()), "/", "/bin/sh"), (invoking_user().name, invoking_user().home, invoking_user().shell)
        )


class ExpiredTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.shadow = Path(self.mktemp())
        self.shadow.write_text("a:!:1:0:9:7::100:\nb:!:1:0:9:7:::\nshort:x\n")

    def test_the_day_after(self) -> None:
        self.assertFalse(expired("a", 100 * _DAY - 1, self.shadow))
        self.assertTrue(expired("a", 100 * _DAY, self.shadow))

    def test_never(self) -> None:
        for name in ("b", "short", "who"):
            self.assertFalse(expired(name, 1e12, self.shadow))

    def test_unreadable(self) -> None:
        self.assertFalse(expired("a", 1e12, self.shadow.with_name("none")))
