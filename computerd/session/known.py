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
"""Records in memory, at about 2 KiB each."""
MAX_METADATA: Final = 2 * 1024 * 1024
"""Characters of their metadata, of up to four bytes each. A record can have 50,000, and all that can be 1,000 times as much as is usual."""


@define(eq=False)
class Known:
    """The records used last.

    Attributes:
        size: How many.
        metadata: How many characters of metadata.
    """

    size: int = MAX_KNOWN
    metadata: int = MAX_METADATA
    _characters: int = field(default=0, init=False)
    _records: OrderedDict[str, Record] = field(factory=OrderedDict, init=False)

    def get(self, session_id: str) -> Record | None:
        """The record, if it is here."""
        record = self._records.get(session_id)
        if record is not None:
            self._records.move_to_end(session_id)
        return record

    def put(self, record: Record) -> None:
        """Keeps a record that was just read or made, and lets go of the one that was used longest ago."""
        before = self._records.pop(record.id, None)
        self._records[record.id] = record
        self._characters += _weight(record) - (0 if before is None else _weight(before))
        while len(self._records) > self.size or self._characters > self.metadata:
            self._characters -= _weight(self._records.popitem(last=False)[1])

    def advance(self, session_id: str, events: Sequence[Event]) -> None:
        """Brings a record up to its newest events, which have been committed."""
        record = self._records.get(session_id)
        # a record that was read after the commit has them already
        if record is None or record.last_seq >= events[-1].seq:
            return
        active_at = datetime.fromisoformat(events[-1].created_at).timestamp()
        self._records[session_id] = evolve(record, last_seq=events[-1].seq, active_at=active_at)

    def trimmed(self, session_id: str, first_seq: int) -> None:
        """A session's journal begins later now."""
        record = self._records.get(session_id)
        if record is not None and record.first_seq < first_seq:
            self._records[session_id] = evolve(record, first_seq=first_seq)

    def clear(self) -> None:
        """What is known here is known no longer."""
        self._records.clear()
        self._characters = 0


def _weight(record: Record) -> int:
    return sum(len(key) + len(value) for key, value in record.metadata.items())
