"""What tells two states of a file apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.workspace.port import Opened, Source
from computerd.workspace.validators import SETTLED_SECONDS, Validators

NOW = 1_800_000_000.0
THEN = 1_700_000_000


def opened(
    modified_ns: int = THEN * 10**9 + 5, size: int = 16, inode: int = 255, changed_ns: int = THEN * 10**9 + 9
) -> Opened:
    """A file."""

    def read(start: int, length: int) -> Source:
        raise NotImplementedError

    return Opened("a", size, modified_ns, changed_ns, inode, read, lambda: None)


class ValidatorTests(SynchronousTestCase):
    """`Validators`."""

    def setUp(self) -> None:
        self.known = Validators.of(opened(), NOW)

    def test_the_tag_is_of_what_changes(self) -> None:
        tags = {
            Validators.of(opened(**change), NOW).etag
            for change in ({}, {"changed_ns": THEN * 10**9 + 6}, {"size": 17}, {"inode": 256})
        }
        self.assertEqual(len(tags), 4)
        for tag in tags:
            self.assertRegex(tag, r'^"[0-9a-f]+-[0-9a-f]+-[0-9a-f]+"$')

    def test_a_file_that_was_just_changed_has_a_weak_tag(self) -> None:
        """It may be changed again within the same tick of the kernel's clock."""
        just = opened(changed_ns=int((NOW - SETTLED_SECONDS / 2) * 1e9))
        recent = Validators.of(just, NOW)
        self.assertTrue(recent.etag.startswith('W/"'))
        self.assertFalse(recent.strong)
        settled = Validators.of(just, NOW + SETTLED_SECONDS)
        self.assertEqual(recent.etag, f"W/{settled.etag}")
        self.assertTrue(settled.strong)
        self.assertTrue(settled.not_modified([recent.etag], None))

    def test_the_time_of_the_last_change(self) -> None:
        self.assertEqual(self.known.last_modified, "Tue, 14 Nov 2023 22:13:20 GMT")
        self.assertEqual(Validators.of(opened(int(2e9 * 1e9)), NOW).modified, int(NOW), "never later than the answer")
        self.assertEqual(Validators.of(opened(-5), NOW).modified, 0)

    def test_if_none_match(self) -> None:
        tag = self.known.etag
        for tags, same in (
            ([tag], True), (["W/" + tag], True), (['"x"', tag], True), (["*"], True), (['"x"'], False), ([tag.strip('"')], False),
        ):  # fmt: skip
            self.assertEqual(self.known.not_modified(tags, None), same, tags)

    def test_if_modified_since_counts_alone_only(self) -> None:
        for since, same in (
            ("Tue, 14 Nov 2023 22:13:20 GMT", True), ("Tue, 14 Nov 2023 22:13:19 GMT", False), ("Wed, 15 Nov 2023 00:00:00 GMT", True),
            ("Tuesday, 14-Nov-23 22:13:20 GMT", True), ("nonsense", False), (None, False),
        ):  # fmt: skip
            self.assertEqual(self.known.not_modified([], since), same, since)
            self.assertFalse(self.known.not_modified(['"x"'], since))

    def test_if_range(self) -> None:
        tag = self.known.etag
        for condition, still in (
            (None, True), (tag, True), (f"W/{tag}", False), ('"x"', False), ("Tue, 14 Nov 2023 22:13:20 GMT", True),
            ("Tue, 14 Nov 2023 22:13:21 GMT", False), ("", False),
        ):  # fmt: skip
            self.assertEqual(self.known.still(condition), still, condition)
        recent = Validators.of(opened(int(NOW * 1e9), changed_ns=int(NOW * 1e9)), NOW)
        for condition in (recent.etag, recent.etag.removeprefix("W/"), recent.last_modified):
            self.assertFalse(recent.still(condition))

    def test_if_match_and_if_unmodified_since(self) -> None:
        """RFC 9110, section 13.1: the second counts alone only; a weak tag never matches."""
        tag = self.known.etag
        for tags, since, failed in (
            ([], None, None), ([tag], None, None), (["*"], None, None), (['"x"', tag], None, None), (['"x"'], None, "If-Match"),
            ([f"W/{tag}"], None, "If-Match"), ([], "Tue, 14 Nov 2023 22:13:20 GMT", None), ([], "nonsense", None),
            ([], "Tue, 14 Nov 2023 22:13:19 GMT", "If-Unmodified-Since"), ([tag], "Tue, 14 Nov 2023 22:13:19 GMT", None),
        ):  # fmt: skip
            self.assertEqual(self.known.failed(tags, since), failed, (tags, since))
        recent = Validators.of(opened(changed_ns=int(NOW * 1e9)), NOW)
        self.assertEqual(recent.failed([recent.etag], None), "If-Match")

    @given(st.integers(-(2**63), 2**63 - 1), st.text(max_size=40))
    def test_any_time_and_any_header(self, modified_ns: int, text: str) -> None:
        known = Validators.of(opened(modified_ns), NOW)
        self.assertTrue(known.last_modified.endswith(" GMT"))
        known.not_modified([], text)
        known.still(text)
