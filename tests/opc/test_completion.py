"""The completion scripts are what shtab makes of the parser. `python -m tests.opc.test_completion` writes them anew."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from computerd.opc import completion
from computerd.opc.arguments import parser

try:
    import shtab
except ImportError:  # only who changes the command line needs it
    shtab = None  # type: ignore[assignment]


def generated(shell: str) -> str:
    """The script for `shell`."""
    return str(shtab.complete(parser(), shell=shell)).rstrip("\n") + "\n"


class CompletionTests(SynchronousTestCase):
    def test_they_are_up_to_date(self) -> None:
        if shtab is None:
            raise SkipTest("needs shtab")
        for shell in completion.SHELLS:
            self.assertEqual(completion.script(shell), generated(shell), f"run python -m {__name__}")

    def test_bash_completes(self) -> None:
        if shutil.which("bash") is None:
            raise SkipTest("needs bash")
        script = completion.script("bash") + (
            "\ncomplete -p opc; COMP_WORDS=(opc sh); COMP_CWORD=1; _shtab_opc; echo ${COMPREPLY[*]}\n"
            "COMP_WORDS=(opc exec --no); COMP_CWORD=2; _shtab_opc; echo ${COMPREPLY[*]}\n"
        )
        done = subprocess.run(["bash", "--norc"], input=script, capture_output=True, text=True, check=True)
        self.assertIn("-F _shtab_opc opc", done.stdout)
        self.assertIn("\nshell\n", done.stdout)
        self.assertIn("--no-tty --no-input", done.stdout)


if __name__ == "__main__":
    folder = Path(sys.modules[completion.__name__].__file__ or "").parent
    for name in completion.SHELLS:
        (folder / completion.file_name(name)).write_text(generated(name))
