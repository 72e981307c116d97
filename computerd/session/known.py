"""The records that are in memory, so that work on a session that was used lately needs no look at the disk."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from attrs import define, evolve, field

from computerd.contract.objects import Event
from computerd.session.port import Record

MAX_KNOWN: Final = 1000
"""Records in memory, at about 2 KiB each; metadata can make one 50 KiB."""


@define(eq=False)
class Known:
    """The records used last.

    Attributes:
        size: How many.
    """

    size: int = MAX_KNOWN
    _records: OrderedDict[str, Record] = field(factory=OrderedDict, init=False)

    def get(self, session_id: str) -> Record | None:
        """The record, if it is here."""
        record = self._records.get(session_id)
        if record is not None:
            self._records.move_to_end(session_id)
        return record

    def put(self, record: Record) -> None:
        """Keeps a record that was just read or made, and lets go of the one that was used longest ago."""
        self._records[record.id] = record
        self._records.move_to_end(record.id)
        if len(self._records) > self.size:
            self._records.popitem(last=False)

    def advance(self, session_id: str, events: Sequence[Event], status: str | None) -> None:
        """Brings a record up to its newest events, which have been committed."""
        record = self._records.get(session_id)
        # a record that was read after the commit has them already
        if record is None or record.last_seq >= events[-1].seq:
            return
        active_at = datetime.fromisoformat(events[-1].created_at).timestamp()
        self._records[session_id] = evolve(
            record, last_seq=events[-1].seq, active_at=active_at, status=status or record.status
        )
