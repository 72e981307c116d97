"""Plans: shown, made, recorded, taken back."""

from __future__ import annotations

import contextlib
import grp
import io
import json
import os
import pwd
import stat
import subprocess
from pathlib import Path

from twisted.trial.unittest import SkipTest

from computerd.ctl.changes import File, Folder, User, packed, tool, unpacked
from computerd.ctl.errors import CommandError
from computerd.ctl.main import main
from computerd.ctl.plan import Plan
from tests.ctl.running import CtlTestCase


class Plans(CtlTestCase):
    """With folders and files."""

    def setUp(self) -> None:
        super().setUp()
        self.said: list[str] = []
        self.place = self.folder / "place"

    def plan(self, *changes: Folder | File) -> Plan:
        return Plan(self.state / "record.json", [Folder(str(self.state), 0o700), *changes], self.said.append)

    def two(self, text: str = "new") -> Plan:
        return self.plan(Folder(str(self.place), 0o755), File(str(self.place / "file"), text))

    def test_dry_run_changes_nothing(self) -> None:
        self.assertTrue(self.two().carry_out(dry_run=True))
        self.assertEqual(list(self.folder.iterdir()), [])
        self.assertTrue(all(line.startswith("would: ") for line in self.said))
        self.assertEqual(len(self.said), 3)

    def test_made_and_taken_back(self) -> None:
        self.assertTrue(self.two().carry_out(dry_run=False))
        self.assertEqual((self.place / "file").read_text(), "new")
        self.assertEqual(stat.S_IMODE(self.place.stat().st_mode), 0o755)
        self.assertFalse(self.two().carry_out(dry_run=False))
        self.assertTrue(self.plan().take_back(dry_run=True))
        self.assertTrue(self.place.exists())
        self.assertTrue(self.plan().take_back(dry_run=False))
        self.assertEqual(list(self.folder.iterdir()), [])
        self.assertFalse(self.plan().take_back(dry_run=False))

    def test_modes_do_not_depend_on_the_umask(self) -> None:
        self.addCleanup(os.umask, os.umask(0o077))
        self.two().carry_out(dry_run=False)
        self.assertEqual(stat.S_IMODE(self.place.stat().st_mode), 0o755)
        self.assertEqual(stat.S_IMODE((self.place / "file").stat().st_mode), 0o644)
        self.assertEqual(stat.S_IMODE((self.state / "record.json").stat().st_mode), 0o600)

    def test_what_was_there_is_not_taken_away(self) -> None:
        self.place.mkdir()
        (self.place / "file").write_text("old")
        self.two().carry_out(dry_run=False)
        self.assertEqual((self.place / "file").read_text(), "new")
        self.plan().take_back(dry_run=False)
        self.assertEqual((self.place / "file").read_text(), "old")

    def test_a_file_of_the_operator_is_not_replaced(self) -> None:
        self.place.mkdir()
        (self.place / "file").write_text("old")
        plan = self.plan(File(str(self.place / "file"), "new", replace=False))
        plan.carry_out(dry_run=False)
        self.assertEqual((self.place / "file").read_text(), "old")

    def test_what_was_changed_since_stays(self) -> None:
        self.two().carry_out(dry_run=False)
        (self.place / "file").write_text("edited")
        self.plan().take_back(dry_run=False)
        self.assertEqual((self.place / "file").read_text(), "edited")
        self.assertIn("changed since", " ".join(self.said))

    def test_a_plan_that_broke_off_can_be_taken_back(self) -> None:
        blocked = self.plan(Folder(str(self.place), 0o755), Folder(str(self.folder / "none" / "deep"), 0o755))
        self.assertRaises(CommandError, blocked.carry_out, dry_run=False)
        self.assertTrue(self.place.is_dir())
        self.plan().take_back(dry_run=False)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_state_folder_in_use_stays(self) -> None:
        self.plan().carry_out(dry_run=False)
        (self.state / "journal.db").touch()
        self.plan().take_back(dry_run=False)
        self.assertEqual([path.name for path in self.state.iterdir()], ["journal.db"])

    def test_damaged_record(self) -> None:
        self.state.mkdir()
        for text in ("{", '[{"kind": "rocket"}]', '[{"kind": "folder", "path": "/x"}]'):
            (self.state / "record.json").write_text(text)
            self.assertRaises(CommandError, self.plan().take_back, dry_run=False)

    def test_record_tells_all(self) -> None:
        for change in (User("x", "/home/x", 1234), Folder("/x", 0o755), File("/x", "text", before="old")):
            self.assertEqual(unpacked(json.loads(json.dumps(packed(change)))), change)


class Setup(CtlTestCase):
    """`computerctl setup`."""

    def test_folders(self) -> None:
        if os.geteuid() == 0:
            raise SkipTest("root's setup makes a Unix user too: see the next class")
        self.good("setup")
        self.assertEqual(stat.S_IMODE(self.state.stat().st_mode), 0o700)
        self.assertEqual(stat.S_IMODE((self.folder / "workspaces").stat().st_mode), 0o755)
        self.good("setup", "--undo")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_missing_folder_above_both_is_made_once(self) -> None:
        self.state = self.folder / "new" / "state"
        environ = {"COMPUTERD_WORKSPACE_ROOT": str(self.folder / "new" / "workspaces")}
        user = ["--user", "nobody"] if os.geteuid() == 0 else []  # who is there already
        self.good("setup", *user, environ=environ)
        self.assertTrue((self.folder / "new" / "workspaces").is_dir())
        self.good("setup", "--undo", environ=environ)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_only_root_makes_users(self) -> None:
        if os.geteuid() == 0:
            raise SkipTest("only for ordinary users")
        self.assertEqual(self.ctl("setup", "--user", "x").status, 1)


class UnixUser(CtlTestCase):
    """Makes and removes a real one."""

    def setUp(self) -> None:
        if os.geteuid() != 0:
            raise SkipTest("only root can make Unix users")
        super().setUp()
        self.name = f"ctltest{os.getpid()}"
        self.addCleanup(self.remove)

    def remove(self) -> None:
        if User(self.name).entry() is not None:
            tool("userdel", "--remove", self.name)

    def test_all_of_it(self) -> None:
        shown = self.good("setup", "--user", self.name, "--dry-run")
        self.assertIn(f"would: makes the Unix user {self.name}", "\n".join(shown))
        self.assertRaises(KeyError, pwd.getpwnam, self.name)

        self.good("setup", "--user", self.name)
        entry = pwd.getpwnam(self.name)
        self.assertGreaterEqual(entry.pw_uid, 1000)
        home = Path(entry.pw_dir)
        self.assertEqual((home.stat().st_uid, stat.S_IMODE(home.stat().st_mode)), (entry.pw_uid, 0o700))
        self.assertEqual([group.gr_name for group in grp.getgrall() if self.name in group.gr_mem], [])
        self.assertEqual(self.ctl("setup", "--user", self.name).said, ["everything is there already"])

        self.good("setup", "--undo")
        self.assertRaises(KeyError, pwd.getpwnam, self.name)
        self.assertRaises(KeyError, grp.getgrnam, self.name)
        self.assertFalse(home.exists())
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_password_is_none_and_the_account_not_locked(self) -> None:
        self.good("setup", "--user", self.name)
        fields = next(
            line.split(":") for line in Path("/etc/shadow").read_text().splitlines() if line.startswith(f"{self.name}:")
        )
        self.assertEqual(fields[1], "*")
        self.good("setup", "--undo")

    def test_a_user_who_was_there_stays(self) -> None:
        tool("useradd", "--no-create-home", self.name)
        self.good("setup", "--user", self.name)
        self.good("setup", "--undo")
        pwd.getpwnam(self.name)

    def test_another_user_of_that_name_stays(self) -> None:
        self.good("setup", "--user", self.name)
        home = pwd.getpwnam(self.name).pw_dir
        tool("usermod", "--uid", str(pwd.getpwnam(self.name).pw_uid + 7), self.name)
        said = self.good("setup", "--undo")
        self.assertIn("another uid", "\n".join(said))
        self.assertEqual(pwd.getpwnam(self.name).pw_dir, home)

    def test_a_user_who_is_at_work_stays_until_he_is_not(self) -> None:
        self.good("setup", "--user", self.name)
        work = subprocess.Popen(["sleep", "600"], user=self.name, extra_groups=[], start_new_session=True)
        self.addCleanup(work.kill)
        ran = self.ctl("setup", "--undo")
        self.assertEqual((ran.status, len(ran.said)), (1, 1))
        self.assertIn(f"used by process {work.pid}; stop the daemon", ran.said[0])
        self.assertEqual(ran.said[0].count("userdel"), 1)
        pwd.getpwnam(self.name)
        work.kill()
        work.wait()
        self.good("setup", "--undo")
        self.assertRaises(KeyError, pwd.getpwnam, self.name)

    def test_useradd_s_refusal_is_one_line(self) -> None:
        tool("groupadd", self.name)  # useradd --user-group then has no name for the group
        self.addCleanup(tool, "groupdel", self.name)
        ran = self.ctl("setup", "--user", self.name)
        self.assertEqual((ran.status, len(ran.said)), (1, 1))
        self.assertIn("useradd: ", ran.said[0])

    def test_a_name_that_no_user_can_have(self) -> None:
        for name in ("a b", "-rf", "a:b", "12"):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(self.assertRaises(SystemExit, main, ["setup", f"--user={name}"]).code, 2)
