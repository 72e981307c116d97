"""`computerctl install`, without touching the host: its changes as data, and what it refuses."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from twisted.trial.unittest import SkipTest

from computerd.ctl import install
from computerd.ctl.changes import File, Folder
from computerd.ctl.errors import CommandError
from tests.ctl.running import CtlTestCase


class Install(CtlTestCase):
    """What it would do."""

    def test_changes(self) -> None:
        files = {change.path: change for change in install.changes(self.state) if isinstance(change, File)}
        self.assertEqual(
            set(files),
            {
                "/etc/systemd/system/computerd.service",
                "/etc/systemd/system/computerd.socket",
                "/etc/sysctl.d/60-computerd.conf",
                "/etc/computerd/config.toml",
            },
        )
        self.assertFalse(files["/etc/computerd/config.toml"].replace)
        self.assertIn(f"ExecStart={sys.executable} -I ", files["/etc/systemd/system/computerd.service"].text)
        folders = [change.path for change in install.changes(self.state) if isinstance(change, Folder)]
        self.assertEqual(folders[0], str(self.state), "the record's folder comes first")

    def test_undo_without_a_record(self) -> None:
        self.assertEqual(self.ctl("install", "--undo").said, ["install has changed nothing here"])

    def test_only_root(self) -> None:
        if os.geteuid() == 0:
            raise SkipTest("only for ordinary users")
        ran = self.ctl("install")
        self.assertEqual((ran.status, ran.out), (1, []))

    def test_refuses_code_that_others_can_change(self) -> None:
        if os.geteuid() != 0:
            raise SkipTest("only root has files that only root can change")
        program = self.folder / "python"
        program.touch(0o755)
        os.chown(program, 12345, -1)
        self.assertIn(str(program), str(self.assertRaises(CommandError, install.check_owner, program)))
        os.chown(program, 0, -1)
        self.folder.chmod(0o777)
        self.assertIn(str(self.folder), str(self.assertRaises(CommandError, install.check_owner, program)))

    def test_refuses_a_path_that_a_unit_can_t_name(self) -> None:
        self.assertRaises(CommandError, install.check_owner, Path("/opt/with blank/python"))
