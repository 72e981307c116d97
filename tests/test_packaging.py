"""The built wheel: what is in it, and that it works where nothing of the source tree is near."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

TOP = Path(__file__).resolve().parent.parent
SECONDS = 300.0
"""For one step; a build takes about five seconds, an installation from the network up to a minute."""
SOURCES = ("computerd", "twisted", "systemd", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")


@functools.cache
def build(folder: Path) -> Path:
    """The wheel, built once, from a copy, so that nothing lands in the tree. All is within trial's temporary folder."""
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        if (TOP / name).is_dir():
            shutil.copytree(
                TOP / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "dropin.cache", ".*_cache")
            )
        else:
            shutil.copy(TOP / name, source / name)
    # Without isolation: the build tools are those that the tests were installed with.
    problem = run(
        folder,
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder / "dist"),
        str(source),
    )
    assert not problem, problem
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def run(folder: Path, *command: str) -> str:
    """Runs a program in a folder. What it said, if it failed."""
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
        env=environ,
    )
    return f"{done.stdout[-3000:]}\nstatus {done.returncode}" if done.returncode else ""


class Wheel(SynchronousTestCase):
    """What users install."""

    timeout = 600

    def setUp(self) -> None:
        self.folder = Path("wheel").absolute()
        self.wheel = build(self.folder)

    def test_contents(self) -> None:
        with zipfile.ZipFile(self.wheel) as archive:
            names = set(archive.namelist())
        self.assertEqual([name for name in names if name.startswith("twisted/") and name.endswith("__init__.py")], [])
        for name in (
            "twisted/plugins/computerd_plugin.py",
            "computerd/py.typed",
            "computerd/contract/computer-api.v1.json",
            "computerd/host/launch.pl",
        ):
            self.assertIn(name, names)
        for name in ("computerd.service", "computerd.socket", "60-computerd.conf"):
            self.assertEqual(len([n for n in names if n.endswith(f"/data/share/computerd/systemd/{name}")]), 1, name)
        self.assertEqual([name for name in names if name.split("/")[0] in ("tests", "docs", "build")], [])
        self.assertEqual([name for name in names if "__pycache__" in name], [])

    def test_every_file_of_the_package_is_in_it(self) -> None:
        with zipfile.ZipFile(self.wheel) as archive:
            names = set(archive.namelist())
        here = {str(path.relative_to(TOP)) for path in (TOP / "computerd").rglob("*") if path.is_file()}
        here = {name for name in here if "__pycache__" not in name and "_cache/" not in name}
        self.assertEqual(here - names, set())

    def test_installed(self) -> None:
        """In a fresh environment, from another folder: the plugin, both programs, and what `install` needs."""
        place = self.folder / "fresh"
        venv.create(place, with_pip=True)
        python = str(place / "bin" / "python")
        problem = run(
            self.folder,
            python,
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "install",
            str(self.wheel),
        )
        if "status" in problem and (
            "Could not find a version" in problem or "Temporary failure" in problem or "NewConnectionError" in problem
        ):
            raise SkipTest("no network: the wheel's dependencies can't be fetched")
        self.assertEqual(problem, "")
        self.assertEqual(run(self.folder, str(place / "bin" / "twistd"), "-n", "computerd", "--help"), "")
        self.assertEqual(run(self.folder, str(place / "bin" / "opc"), "--version"), "")
        self.assertEqual(run(self.folder, str(place / "bin" / "opc"), "schema", "Session"), "")
        self.assertEqual(run(self.folder, str(place / "bin" / "computerctl"), "--version"), "")
        self.assertEqual(
            run(
                self.folder, python, "-I", "-c", "from computerd.ctl import install; install.unit('computerd.service')"
            ),
            "",
        )
        self.assertEqual(run(self.folder, python, "-m", "pip", "check"), "")
        # Taking it away must leave Twisted whole.
        self.assertEqual(run(self.folder, python, "-m", "pip", "--quiet", "uninstall", "--yes", "computerd"), "")
        self.assertEqual(run(self.folder, str(place / "bin" / "twistd"), "-n", "web", "--help"), "")
