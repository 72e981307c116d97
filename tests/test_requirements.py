"""`docs/project/requirements.md` and the tests agree: each requirement names its test, and each test that names one is known there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

TOP: Final = Path(__file__).resolve().parent.parent
PAGE: Final = TOP / "docs" / "project" / "requirements.md"
ID: Final = re.compile(r"\b(?:BR-\d{3}|[DIBCWJTFXSRLGK]\d{1,2})\b")
RANGE: Final = re.compile(rf"{ID.pattern} to {ID.pattern}")
ROW: Final = re.compile(rf"^\| ({ID.pattern}) \| (.+?) \| (.+?) \|$", re.M)
TEST: Final = re.compile(r"`(tests\.[\w.]+)`")
WANTED: Final = [
    *(f"BR-{n:03}" for n in range(1, 70)),
    *(f"{letter}{n}" for letter, last in (("D", 19), ("C", 16), ("W", 19), ("J", 8), ("T", 14)) for n in range(1, last + 1)),
    *("R4", "R5", "L1", "L2", "L4", "L5"),
]  # fmt: skip
NEVER_WRITTEN: Final = {"BR-023", "BR-028", "BR-031", "BR-034", "BR-054", "BR-055", "BR-068"}
"""Numbers that the collection of reports has left out."""


@frozen
class Row:
    """A line of the table.

    Attributes:
        tests: The tests that it names. None: it says why there is none.
    """

    id: str
    says: str
    tests: frozenset[str]


def rows() -> dict[str, Row]:
    """The page, by requirement."""
    found = [Row(one[1], one[2], frozenset(TEST.findall(one[3]))) for one in ROW.finditer(PAGE.read_text())]
    assert len({row.id for row in found}) == len(found), "a requirement has two rows"
    return {row.id: row for row in found}


def ids(text: str | None) -> set[str]:
    """The requirements that a docstring names. A range tells what a module is about; a test names each."""
    return set(ID.findall(RANGE.sub("", text or "")))


def named(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Tests of a module, with what their docstrings and their class's name."""
    module = ".".join(path.relative_to(TOP).with_suffix("").parts)
    for case in (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)):
        whole = ids(ast.get_docstring(case))
        for test in case.body:
            if isinstance(test, (ast.FunctionDef, ast.AsyncFunctionDef)) and test.name.startswith("test"):
                yield f"{module}.{case.name}.{test.name}", whole | ids(ast.get_docstring(test))


def all_named() -> dict[str, set[str]]:
    """Every test that names a requirement."""
    found = {}
    for path in sorted((TOP / "tests").rglob("test_*.py")):
        found.update({test: its for test, its in named(path) if its})
    return found


class Requirements(SynchronousTestCase):
    def test_every_one_has_a_row(self) -> None:
        self.assertEqual([one for one in WANTED if one not in rows() and one not in NEVER_WRITTEN], [])

    def test_every_test_of_the_table_names_its_requirement(self) -> None:
        tests = all_named()
        for row in rows().values():
            for test in row.tests:
                self.assertIn(
                    row.id, tests.get(test, ()), f"{test} does not name {row.id} in its docstring, or is not there"
                )

    def test_every_requirement_that_a_test_names_is_in_the_table_with_a_test(self) -> None:
        table = rows()
        for test, its in all_named().items():
            for one in its:
                self.assertIn(one, table, test)
                self.assertTrue(table[one].tests, f"{one} has no test by its row, but {test} names it")

    def test_so_is_every_one_that_a_module_is_about(self) -> None:
        for path in sorted((TOP / "tests").rglob("*.py")):
            about = set(ID.findall(ast.get_docstring(ast.parse(path.read_text())) or ""))
            self.assertLessEqual(about, set(rows()) | NEVER_WRITTEN, path)

    def test_a_row_without_a_test_says_why(self) -> None:
        for row in rows().values():
            if not row.tests:
                self.assertRegex(PAGE.read_text(), rf"(?m)^\| {row.id} \|.*\| (Not now|Not here|Elsewhere): ", row.id)


if __name__ == "__main__":
    by_id: dict[str, list[str]] = {}
    for name, its in all_named().items():
        for one in its:
            by_id.setdefault(one, []).append(name)
    for one in sorted(by_id):
        print(one, *by_id[one])
