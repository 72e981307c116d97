"""The records in memory."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from computerd.session.drafts import stamp
from computerd.session.known import Known
from tests.session.fake_journal import seeded
from tests.session.journal_interface import NOW, a_record, opened, session_id


class KnownTests(SynchronousTestCase):
    """Bounded, and up to date."""

    def test_the_one_used_longest_ago_goes(self) -> None:
        known = Known(2)
        known.put(a_record(1))
        known.put(a_record(2))
        known.get(session_id(1))
        known.put(a_record(3))
        self.assertEqual(
            [known.get(session_id(number)) is not None for number in (1, 2, 3)],
            [True, False, True],
        )

    def test_metadata_counts(self) -> None:
        """R10. A thousand records with as much metadata as is allowed were 240 MiB."""
        known = Known(metadata=1000)
        large = [attrs.evolve(a_record(number), metadata={"key": "x" * 397}) for number in (1, 2, 3)]
        known.put(large[0])
        for _ in range(5):
            known.put(large[1])
        self.assertIsNotNone(known.get(session_id(1)))
        known.put(large[2])
        self.assertEqual([known.get(session_id(number)) is None for number in (1, 2, 3)], [False, True, False])
        known.put(attrs.evolve(a_record(4), metadata={"key": "x" * 2000}))
        self.assertIsNone(known.get(session_id(4)))
        known.put(large[0])
        self.assertIsNotNone(known.get(session_id(1)))

    def test_advance(self) -> None:
        known = Known()
        known.put(a_record(1))
        event = stamp(opened(), lambda: NOW + 7.25, seeded()).event(session_id(1), 3)
        known.advance(session_id(1), [event])
        record = known.get(session_id(1))
        assert record is not None
        self.assertEqual((record.last_seq, record.active_at), (3, NOW + 7.25))

    def test_what_is_older_than_the_record_changes_nothing(self) -> None:
        known = Known()
        known.put(a_record(1))
        event = stamp(opened(), lambda: NOW - 7, seeded()).event(session_id(1), 2)
        known.advance(session_id(1), [event])
        self.assertEqual(known.get(session_id(1)), a_record(1))

    def test_trimmed(self) -> None:
        known = Known()
        known.put(a_record(1))
        for first_seq, expected in ((2, 2), (1, 2), (9, 9)):
            known.trimmed(session_id(1), first_seq)
            record = known.get(session_id(1))
            assert record is not None
            self.assertEqual((record.first_seq, record.last_seq), (expected, 2))
        known.trimmed(session_id(2), 5)
        self.assertIsNone(known.get(session_id(2)))

    def test_clear_forgets_the_characters_too(self) -> None:
        known = Known(metadata=1000)
        large = attrs.evolve(a_record(1), metadata={"key": "x" * 900})
        known.put(large)
        known.clear()
        self.assertIsNone(known.get(session_id(1)))
        known.put(large)
        self.assertEqual(known.get(session_id(1)), large)

    def test_an_unknown_session(self) -> None:
        known = Known()
        known.advance(session_id(1), [stamp(opened(), lambda: NOW, seeded()).event(session_id(1), 3)])
        self.assertIsNone(known.get(session_id(1)))
