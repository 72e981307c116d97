"""The real journal keeps the promises of the port."""

from __future__ import annotations

import os
import stat

from computerd.contract.errors import ApiError, Code
from tests.journal.real import JournalCase
from tests.session.journal_interface import JournalInterface, all_events, closed, opened, session_id


class JournalTests(JournalInterface, JournalCase):
    """The interface tests, on SQLite."""

    async def setUp(self) -> None:  # type: ignore[override]
        super().setUp()
        self.journal = await self.started()
