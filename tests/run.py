"""Runs the tests with trial, streams what it prints and ends with one line: `N passed, N failed`.

Ends with 0 only when at least one test ran and none failed. The temporary folder is outside the tree and is removed again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import BinaryIO

SUMMARY = re.compile(r"^(?:PASSED|FAILED)(?: \((?P<counts>[^)]*)\))?\s*$")
TOP = Path(__file__).resolve().parent.parent
APART = "tests.endtoend.test_files_traced"
"""It runs many of the others of its package once more."""
SLOW = (("tests.endtoend",), ("tests.opc", "tests.journal", "tests.ctl", APART))
"""Each takes about as long as everything else."""
FAILURES = ("failures", "errors", "unexpectedSuccesses")


def parts(arguments: list[str], processors: int) -> list[list[str]]:
    """What is run side by side: all tests in three parts, where there are two processors; what was named in one.

    The parts take about as long as each other, and wait about as much as they work.
    """
    if [argument for argument in arguments if not argument.startswith("-")] != ["tests"] or processors < 2:
        return [arguments]
    options = [argument for argument in arguments if argument.startswith("-")]
    others = sorted(
        f"tests.{path.stem}"
        for path in (TOP / "tests").iterdir()
        if (path / "__init__.py").exists() or (path.suffix == ".py" and path.stem.startswith("test_"))
    )
    rest = [name for name in others if not any(name in part for part in SLOW)]
    together = [name for name in modules("tests.endtoend") if name != APART]
    return [[*options, *part] for part in (together, SLOW[1], rest)]


def modules(package: str) -> list[str]:
    """The modules of tests in a package."""
    return sorted(f"{package}.{path.stem}" for path in (TOP / package.replace(".", "/")).glob("test_*.py"))


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


def run(arguments: list[str], output: BinaryIO, figures: dict[str, int]) -> int:
    """Runs trial in the project's top folder, passes on what it prints, and adds its counts to `figures`. Returns its status."""
    folder = Path(tempfile.mkdtemp(prefix="cd-"))  # short: a Unix socket's path has 108 bytes at most
    folder.chmod(0o755)  # Unix users of the tests have to get through
    try:
        with subprocess.Popen(
            command(arguments, folder),
            cwd=TOP,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as child:
            assert child.stdout is not None
            told: dict[str, int] = {}
            for raw in child.stdout:
                output.write(raw)
                output.flush()
                told = counts(raw.decode("utf-8", "replace")) or told
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, number in told.items():
        figures[name] = figures.get(name, 0) + number
    return child.returncode


def main(arguments: list[str]) -> int:
    """Runs what is named. Of several parts, the first one's output comes as it is written, the others' follow when all have ended."""
    first, *rest = parts(arguments, os.cpu_count() or 1)
    figures: dict[str, int] = {}
    statuses: list[int] = []
    with ExitStack() as files:
        kept = [files.enter_context(tempfile.TemporaryFile()) for _ in rest]
        threads = [
            Thread(target=lambda part=part, file=file: statuses.append(run(part, file, figures)))
            for part, file in zip(rest, kept, strict=True)
        ]
        for thread in threads:
            thread.start()
        statuses.append(run(first, sys.stdout.buffer, figures))
        for thread, file in zip(threads, kept, strict=True):
            thread.join()
            file.seek(0)
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    line, status = closing(figures, max(statuses, key=abs))
    print(line, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
