"""Runs the tests with trial, streams what it prints and ends with one line: `N passed, N failed`.

Ends with 0 only when at least one test ran and none failed. The temporary folder is outside the tree and is removed again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SUMMARY = re.compile(r"^(?:PASSED|FAILED)(?: \((?P<counts>[^)]*)\))?\s*$")
FAILURES = ("failures", "errors", "unexpectedSuccesses")


def command(arguments: list[str], folder: Path) -> list[str]:
    """What runs trial. Arguments that begin with a dash go to trial, the others name what to run."""
    options = [argument for argument in arguments if argument.startswith("-")]
    names = [argument for argument in arguments if not argument.startswith("-")] or ["tests"]
    return [sys.executable, "-m", "twisted.trial", f"--temp-directory={folder / 't'}", *options, *names]


def counts(line: str) -> dict[str, int] | None:
    """The figures of trial's closing line; None when it is another line."""
    found = SUMMARY.match(line)
    if not found:
        return None
    pairs = (part.split("=") for part in (found["counts"] or "").split(", ") if part)
    return {name: int(number) for name, number in pairs}


def closing(figures: dict[str, int], status: int) -> tuple[str, int]:
    """The last line, and the exit status."""
    passed = figures.get("successes", 0) + figures.get("expectedFailures", 0)
    failed = sum(figures.get(name, 0) for name in FAILURES)
    if status != 0 and not failed:
        failed = 1  # trial itself broke down
    skipped = figures.get("skips", 0)
    line = f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")
    return line, 1 if failed or not passed else 0


def main(arguments: list[str]) -> int:
    """Runs trial in the project's top folder."""
    top = Path(__file__).resolve().parent.parent
    folder = Path(tempfile.mkdtemp(prefix="cd-"))  # short: a Unix socket's path has 108 bytes at most
    folder.chmod(0o755)  # Unix users of the tests have to get through
    figures: dict[str, int] = {}
    try:
        with subprocess.Popen(
            command(arguments, folder),
            cwd=top,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as child:
            assert child.stdout is not None
            for raw in child.stdout:
                sys.stdout.buffer.write(raw)
                sys.stdout.buffer.flush()
                figures = counts(raw.decode("utf-8", "replace")) or figures
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    line, status = closing(figures, child.returncode)
    print(line, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
