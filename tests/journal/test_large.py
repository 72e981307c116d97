"""Changes that are large: the log is written back for what they write, not for what was known of them before."""

from __future__ import annotations

from computerd.contract.objects import Actor
from computerd.contract.params import UpdateSession
from computerd.session import changing
from tests.journal.real import JournalCase

ACTOR = Actor(id="alice", name="Alice", via="api", client=None)


class LargeTests(JournalCase):
    async def test_the_log_stays_small(self) -> None:
        """Each event has 50 KB and 50 KB from before."""
        journal = await self.started()
        session = await self.session(journal)
        for number in range(400):
            metadata = {f"k{place}": f"{number} ".ljust(500, "x") for place in range(50)}
            update = UpdateSession(session_id=session, metadata=metadata)
            await journal.decide(session, changing.update(update, ACTOR))
        self.assertLess(self.size("-wal"), 12_000_000)
