"""The worker's limits and the contract's."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits as contract
from computerd.host.worker import limits
from computerd.host.worker.frames import MAX_PAYLOAD


class LimitTests(SynchronousTestCase):
    def test_they_are_the_same(self) -> None:
        """The worker knows nothing of the contract, and keeps what it promises."""
        self.assertEqual(
            (contract.MAX_ARCHIVE_BYTES, contract.MAX_ARCHIVE_ENTRIES, contract.MAX_FILE_BYTES, contract.MAX_DEPTH),
            (limits.ARCHIVE_BYTES, limits.ARCHIVE_ENTRIES, limits.FILE_BYTES, limits.DEPTH),
        )
        self.assertEqual(contract.MAX_PATH_CHARACTERS, 3 * limits.PATH_BYTES)
        self.assertLess(contract.MAX_PATH_CHARACTERS, MAX_PAYLOAD)
