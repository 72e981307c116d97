"""Writes what is derived from the contract: the published schema, and the reference pages of the documentation.

`python -m computerd.contract.reference` writes all of it into the source tree that it runs from; with `--check` it writes nothing
and ends with 1 when a file differs from what it would write.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from computerd.contract import pages, published, schema

ROOT: Final = Path(__file__).resolve().parents[2]
"""The source tree."""
PAGES: Final = Path("docs", "reference")
SCHEMA: Final = Path("computerd", "contract", published.FILE)


def render() -> dict[Path, str]:
    """The text of every derived file, by its path inside the source tree."""
    text = schema.render()
    written = {PAGES / f"{name}.md": page for name, page in pages.render(json.loads(text)).items()}
    return {SCHEMA: text, **written}


def differences(root: Path) -> list[Path]:
    """The files that are missing, that differ, or that nothing is derived for any more, in order."""
    derived = render()
    stale = [path for path, text in derived.items() if not _is(root / path, text)]
    stray = [path.relative_to(root) for path in (root / PAGES).glob("*.md") if path.relative_to(root) not in derived]
    return sorted(stale + stray)


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def write(root: Path) -> None:
    """Writes every derived file, and removes pages that nothing is derived for any more."""
    derived = render()
    for path in differences(root):
        if path not in derived:
            (root / path).unlink()
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(derived[path], encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m computerd.contract.reference", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; say what differs, and end with 1 if anything does"
    )
    if not parser.parse_args(arguments).check:
        write(ROOT)
        return 0
    changed = differences(ROOT)
    for path in changed:
        sys.stderr.write(f"{path} differs from the contract: run python -m computerd.contract.reference\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
