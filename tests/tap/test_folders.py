"""The daemon's folders."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from unittest import SkipTest

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from computerd.config import Config, ConfigError, load
from computerd.tap.parts import prepare_folders


def nothing(path: Path, _: int) -> str:
    """Reads configuration files where there are none."""
    raise FileNotFoundError(path)


class FolderTests(SynchronousTestCase):
    """Made where they are missing."""

    def config(self, state: Path, workspaces: Path) -> Config:
        config = load({}, {"HOME": "/nonexistent"}, os.geteuid(), read=nothing)
        return evolve(config, state_dir=state, workspace_root=workspaces)

    def test_modes_whatever_the_umask(self) -> None:
        self.addCleanup(os.umask, os.umask(0o077))
        top = Path(self.mktemp())
        prepare_folders(self.config(top / "a" / "state", top / "b"))
        modes = [stat.S_IMODE((top / name).stat().st_mode) for name in ("a", "a/state", "b")]
        self.assertEqual(modes, [0o755, 0o700, 0o755])

    def test_what_can_t_be_made_names_the_flag(self) -> None:
        top = Path(self.mktemp())
        file = top / "file"
        for state, workspaces, flag in ((file / "x", top / "w", "--state-dir"), (top, file / "x", "--workspace-root")):
            top.mkdir(exist_ok=True)
            file.touch()
            problem = self.assertRaises(ConfigError, prepare_folders, self.config(state, workspaces))
            self.assertIn(f"{file}/x: can't be made (Not a directory): name another folder with {flag}", str(problem))

    def test_folders_that_somebody_else_could_move(self) -> None:
        """K2. Root would make its own wherever a link of theirs leads, and find theirs in the place of its own."""
        if os.geteuid() != 0:
            raise SkipTest("only a daemon of root's has others to beware of")
        top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        for name in ("theirs", "open", "good"):
            (top / name).mkdir()
        os.chown(top / "theirs", 12345, -1)
        (top / "open").chmod(0o777)
        (top / "theirs" / "link").symlink_to(top / "good")
        (top / "good" / "through").symlink_to(top / "theirs" / "link")
        (top / "link").symlink_to(top / "good")
        os.chown(top / "link", 12345, -1, follow_symlinks=False)
        for bad, wrong in (
            ("theirs", "theirs"), ("open", "open"), ("theirs/link", "theirs"), ("good/through", "theirs"), ("link", "link"),
        ):  # fmt: skip
            for state, workspaces in ((f"{bad}/a", "good/b"), ("good/a", f"{bad}/b")):
                config = self.config(top / state, top / workspaces)
                problem = self.assertRaises(ConfigError, prepare_folders, config)
                self.assertEqual(problem.where, str(top / wrong))
        self.assertEqual(sorted(os.listdir(top / "good")), ["through"])
        prepare_folders(self.config(top / "good" / "x" / "a", top / "good" / "b"))
