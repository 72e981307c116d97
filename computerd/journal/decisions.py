"""What is decided at the moment of the commit. Runs on the journal's thread, inside a transaction of its caller."""

from __future__ import annotations

from attrs import evolve

from computerd.journal import keys, records
from computerd.journal.group import Group
from computerd.session.drafts import Stamper
from computerd.session.port import Decision, Key, Outcome


def decide(group: Group, session_id: str, decision: Decision, key: Key | None, stamper: Stamper, now: int) -> Outcome:
    """Adds what `decision` makes of the session to the group, and the key with its answer, which is kept from `now` on.

    All that is not the journal's own, and can refuse, is called before anything is added.

    Raises:
        ApiError: `session_not_found`, `idempotency_conflict`, or what the decision refuses with: with nothing added.
    """
    if key is not None:
        known = keys.find(group.connection, key.member, key.method, key.key, key.digest, now)
        if known is not None:
            return Outcome(group.record(session_id), (), known, True)
    before = group.record(session_id)
    decided = decision(before)
    stamped = [stamper.stamp(draft) for draft in decided.drafts]
    record = records.changed(before, decided.change)
    if stamped:
        record = evolve(record, last_seq=before.last_seq + len(stamped), active_at=stamped[-1].at / 1000)
    answer = None if key is None else key.answer(record)
    events = group.change(record, decided.change, stamped)
    if key is not None and answer is not None:
        group.size += len(answer)
        keys.keep(group.connection, key.member, key.method, key.key, key.digest, answer, now)
    return Outcome(record, events, answer)
