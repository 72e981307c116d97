"""The committed schema and pages are what the contract says now."""

from __future__ import annotations

import io
from pathlib import Path
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import pages, reference, schema


class Drift(SynchronousTestCase):
    def test_nothing_differs(self) -> None:
        if not (reference.ROOT / reference.PAGES).is_dir():
            self.skipTest("not a source tree: there are no pages")
        self.assertEqual(reference.differences(reference.ROOT), [])

    def test_the_same_contract_gives_the_same_text(self) -> None:
        self.assertEqual(reference.render(), reference.render())


class Writing(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp())
        reference.write(self.root)

    def check(self) -> tuple[int, str]:
        said = io.StringIO()
        with patch.object(reference, "ROOT", self.root), patch("sys.stderr", said):
            result = reference.main(["--check"])
        return result, said.getvalue()

    def test_what_was_written_does_not_differ(self) -> None:
        self.assertEqual(self.check(), (0, ""))

    def test_a_changed_a_missing_and_a_stray_page_are_named(self) -> None:
        folder = self.root / reference.PAGES
        (folder / "errors.md").write_text("x")
        (folder / "limits.md").unlink()
        (folder / "stray.md").write_text("x")
        status, said = self.check()
        self.assertEqual(status, 1)
        for name in ("errors.md", "limits.md", "stray.md"):
            self.assertIn(name, said)
        self.assertNotIn("methods.md", said)

    def test_writing_again_mends_all(self) -> None:
        folder = self.root / reference.PAGES
        (folder / "stray.md").write_text("x")
        (self.root / reference.SCHEMA).write_text("{}")
        with patch.object(reference, "ROOT", self.root):
            self.assertEqual(reference.main([]), 0)
        self.assertEqual(reference.differences(self.root), [])
        self.assertFalse((folder / "stray.md").exists())


class Links(SynchronousTestCase):
    def test_every_link_has_its_target(self) -> None:
        whole = "\n".join(pages.render(schema.build()).values())
        targets = {line[1:-2] for line in whole.split("\n") if line.startswith("(") and line.endswith(")=")}
        links = {part.split(")")[0] for part in whole.split("](#")[1:]}
        self.assertEqual(links - targets, set())
