"""Which Python a worker runs on."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.host import program
from computerd.host.program import Program, interpreter, libraries
from tests.host.people import needs_root


class InterpreterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path("/var/tmp") / f"computerd-test-{os.getpid()}"  # every user can pass
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self.python = self.folder / "python"
        self.python.write_text("#!/bin/sh\n")
        self.python.chmod(0o755)
        self.addCleanup(self._remove)

    def _remove(self) -> None:
        self.folder.chmod(0o755)
        for file in self.folder.iterdir():
            file.unlink()
        self.folder.rmdir()

    def found(self, *candidates: object, privileged: bool = False) -> str | None:
        try:
            return interpreter(map(str, candidates), privileged=privileged)
        except ApiError as error:
            self.assertEqual(Code.COMPUTER_NOT_SET_UP, error.code)
            return None

    def test_one_that_will_do(self) -> None:
        self.assertEqual(str(self.python), self.found(self.python))

    def test_the_first_that_will_do(self) -> None:
        self.assertEqual(str(self.python), self.found("", "/no/such/python", self.folder, self.python))

    def test_behind_a_link(self) -> None:
        link = self.folder / "link"
        link.symlink_to("python")
        self.assertEqual(str(self.python), self.found(link))

    def test_what_others_cant_run_or_read(self) -> None:
        for mode in (0o750, 0o754, 0o751, 0o644):
            self.python.chmod(mode)
            self.assertIsNone(self.found(self.python), oct(mode))

    def test_what_others_cant_reach(self) -> None:
        self.folder.chmod(0o750)
        self.assertIsNone(self.found(self.python))

    def test_what_others_could_change(self) -> None:
        needs_root()
        self.assertEqual(str(self.python), self.found(self.python, privileged=True))
        for path, mode in ((self.python, 0o775), (self.python, 0o757), (self.folder, 0o777)):
            before = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode)
            self.assertIsNone(self.found(self.python, privileged=True), f"{path} {mode:o}")
            self.assertEqual(str(self.python), self.found(self.python))
            path.chmod(before)
        os.chown(self.python, 12345, 0)
        self.assertIsNone(self.found(self.python, privileged=True))

    def test_there_is_one_here(self) -> None:
        python = interpreter(privileged=os.geteuid() == 0)
        subprocess.run([python, "-I", "-S", "-E", "-c", "import json, zlib, ctypes"], check=True)


class ProgramTests(SynchronousTestCase):
    def test_it_holds_nothing_secret_and_fits(self) -> None:
        found = Program.find(privileged=os.geteuid() == 0)
        self.assertLess(len(found.command), 4096)
        self.assertLess(len(found.first), 1 << 20)
        self.assertTrue(found.command.startswith("exec /"))

    def test_no_python(self) -> None:
        self.patch(sys, "executable", "/no/such/python")
        self.patch(sys, "_base_executable", None)
        self.patch(program, "_SYSTEM_PYTHON", "/no/such/python")
        error = self.assertRaises(ApiError, Program.find, privileged=False)
        self.assertEqual(Code.COMPUTER_NOT_SET_UP, error.code)

    def test_libraries_of_another_version_are_none(self) -> None:
        self.assertEqual([], libraries("/usr/bin/python2.7"))
