"""What can be told of a path alone."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.workspace.paths import refuse_impossible


class PathTests(SynchronousTestCase):
    """F3: `refuse_impossible`."""

    def test_no_place_in_any_workspace(self) -> None:
        for path in ("/", "/a", "//", "..", "../a", "a/..", "a/../b", "a\0b", "\0", "/proc/self/root/etc"):
            error = self.assertRaises(ApiError, refuse_impossible, path)
            self.assertEqual((error.code, error.field), (Code.INVALID_PATH, "path"), path)

    def test_what_only_the_workspace_can_tell(self) -> None:
        for path in ("", "a", "a/b", ".", "...", "a..b", "..a", "a/", "a//b", "é", "%2e%2e", "a\\..\\b", "x" * 5000):
            refuse_impossible(path)
