"""The fake journal keeps the promises of the port."""

from __future__ import annotations

from twisted.trial.unittest import TestCase

from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import Event
from tests.session.fake_journal import FakeJournal
from tests.session.journal_interface import NOW, Heard, JournalInterface, all_events, opened, session_id, suspending


class FakeJournalTests(JournalInterface, TestCase):
    """The interface tests, in memory."""

    def setUp(self) -> None:
        self.now = NOW
        self.fake = self.journal = FakeJournal(seconds=lambda: self.now)
        self.heard = Heard()
        self.fake.listen(self.heard)

    def later(self, seconds: float) -> None:
        self.now += seconds

    def kept_keys(self) -> list[str]:
        return [key for _, _, key in self.fake.keys]

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

    async def test_doubtful(self) -> None:
        await self.made()
        self.fake.doubtful = ApiError(Code.UNAVAILABLE, "no")
        late: list[Event] = []
        with self.assertRaises(ApiError):
            await self.fake.decide(session_id(1), suspending, late=late.extend)
        self.assertEqual(late, [])
        self.fake.release()
        self.assertEqual([event.seq for event in late], [3])
        self.assertEqual(self.heard.seqs(), [1, 2, 3])

    async def test_renew(self) -> None:
        await self.made()
        self.fake.renew("le_111111111111")
        self.assertEqual((self.fake.log_epoch, self.heard.told[-1]), ("le_111111111111", "renewed"))
        self.assertEqual(list(await all_events(self.fake)), [])
        self.assertEqual((await self.fake.append(session_id(1), [opened()]))[0].seq, 3)
