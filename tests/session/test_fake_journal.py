"""The fake journal keeps the promises of the port."""

from __future__ import annotations

from twisted.trial.unittest import TestCase

from computerd.contract.errors import ApiError, Code
from tests.session.fake_journal import FakeJournal
from tests.session.journal_interface import JournalInterface, all_events, opened, session_id


class FakeJournalTests(JournalInterface, TestCase):
    """The interface tests, in memory."""

    def setUp(self) -> None:
        self.fake = self.journal = FakeJournal()

    async def test_refusing(self) -> None:
        await self.made()
        self.fake.refusing = ApiError(Code.UNAVAILABLE, "no")
        with self.assertRaises(ApiError):
            await self.fake.append(session_id(1), [opened()])
        patient = self.fake.append(session_id(1), [opened()], patient=True)
        self.assertNoResult(patient)
        self.fake.heal()
        self.assertEqual((await patient)[0].seq, 3)

    async def test_holding(self) -> None:
        await self.made()
        self.fake.holding = True
        done = self.fake.append(session_id(1), [opened()])
        self.assertNoResult(done)
        self.fake.release()
        self.assertEqual((await done)[0].seq, 3)
        self.assertEqual(len(await all_events(self.fake)), 3)
