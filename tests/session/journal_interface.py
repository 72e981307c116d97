"""What every journal must do: run against the fake in memory and against the real one on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from computerd.contract.errors import ApiError, Code
from computerd.contract.events import SessionCreated, SessionStatusChanged, TerminalClosed, TerminalOpened
from computerd.contract.objects import Actor, Event, Origin, Person, Settings
from computerd.session.drafts import draft
from computerd.session.port import Draft, Journal, Record

if TYPE_CHECKING:
    from twisted.trial.unittest import TestCase
else:
    TestCase = object

ALICE = Person(id="alice", name="Alice", email="alice@example.com")
BOB = Person(id="bob", name=None, email=None)
ACTOR = Actor(id="alice", name="Alice", via="opc", client="opc/0.1")
NOW = 1_800_000_000.0


def session_id(number: int) -> str:
    """The id of that number."""
    return f"cs_{number:016d}"


def terminal_id(number: int) -> str:
    """The id of that number."""
    return f"tm_{number:012d}"


def a_record(number: int = 1, created_at: float = NOW, owner: Person = ALICE) -> Record:
    """A session that no journal knows yet."""
    return Record(
        id=session_id(number),
        owner=owner,
        origin=Origin(type="opc", client="opc/0.1", slack=None),
        settings=Settings(model=None, effort=None, mode=None, speed="fast"),
        metadata={"ключ": "'; DROP TABLE events; --\x00 %"},
        title="Ünïcode \x00 title",
        status="idle",
        archived=False,
        body_hash="00ff",
        created_at=created_at,
        active_at=created_at,
        first_seq=1,
        last_seq=2,
    )


def beginning(record: Record) -> list[Draft]:
    """The events that a session begins with."""
    return [
        draft(SessionCreated(title=record.title, origin=record.origin, settings=record.settings), ACTOR),
        draft(SessionStatusChanged(from_=None, to="idle"), ACTOR),
    ]


def opened(number: int = 1, command: str | None = None) -> Draft:
    """A terminal begins."""
    return draft(TerminalOpened(terminal_id=terminal_id(number), command=command), ACTOR)


def closed(number: int = 1, exit_code: int | None = 0) -> Draft:
    """A terminal ends."""
    return draft(TerminalClosed(terminal_id=terminal_id(number), exit_code=exit_code))


async def all_events(journal: Journal, number: int = 1) -> Sequence[Event]:
    """Up to a million events of a session."""
    found: list[Event] = []
    more = True
    while more:
        page = await journal.events(
            session_id(number), after=found[-1].seq if found else 0, limit=1_000_000, types=None
        )
        found += page.found
        more = page.more
    return found


class JournalInterface(TestCase):
    """The tests. A class that runs them provides `journal`, ready for use, from `setUp` on."""

    journal: Journal

    async def made(self, number: int = 1, **changes: object) -> Record:
        """A session in the journal."""
        record = a_record(number, **changes)  # type: ignore[arg-type]
        await self.journal.create(record, beginning(record))
        return record

    async def test_create_commits_its_events(self) -> None:
        record = a_record()
        events = await self.journal.create(record, beginning(record))
        self.assertEqual([event.seq for event in events], [1, 2])
        self.assertEqual([event.type for event in events], ["session.created", "session.status_changed"])
        self.assertEqual(events[0].data["title"], record.title)
        self.assertEqual(events[1].data, {"from": None, "to": "idle"})
        self.assertEqual(events[0].actor, ACTOR)
        self.assertEqual(list(events), list(await all_events(self.journal)))

    async def test_session_is_as_it_was_created(self) -> None:
        record = await self.made()
        found = await self.journal.session(record.id)
        assert found is not None
        self.assertEqual(evolve(found, active_at=record.active_at), record)

    async def test_unknown_session(self) -> None:
        self.assertIsNone(await self.journal.session(session_id(9)))
        self.assertEqual(list(await all_events(self.journal, 9)), [])

    async def test_create_twice_is_a_conflict_and_changes_nothing(self) -> None:
        record = await self.made()
        with self.assertRaises(ApiError) as caught:
            await self.journal.create(evolve(record, title="another"), beginning(record))
        self.assertEqual(caught.exception.code, Code.ID_CONFLICT)
        found = await self.journal.session(record.id)
        assert found is not None
        self.assertEqual((found.title, found.last_seq), (record.title, 2))
        self.assertEqual(len(await all_events(self.journal)), 2)

    async def test_append_continues_the_numbers_of_each_session(self) -> None:
        for number in (1, 2):
            await self.made(number)
        first = await self.journal.append(session_id(1), [opened(1), opened(2)])
        other = await self.journal.append(session_id(2), [opened(3)])
        second = await self.journal.append(session_id(1), [closed(1)])
        self.assertEqual([event.seq for event in (*first, *second)], [3, 4, 5])
        self.assertEqual([event.seq for event in other], [3])
        self.assertEqual([event.session_id for event in other], [session_id(2)])

    async def test_append_to_an_unknown_session(self) -> None:
        with self.assertRaises(ApiError) as caught:
            await self.journal.append(session_id(9), [opened()])
        self.assertEqual(caught.exception.code, Code.SESSION_NOT_FOUND)

    async def test_append_sets_the_status_only_when_told(self) -> None:
        await self.made()
        await self.journal.append(session_id(1), [opened()], status="suspended")
        await self.journal.append(session_id(1), [closed()])
        found = await self.journal.session(session_id(1))
        assert found is not None
        self.assertEqual((found.status, found.last_seq), ("suspended", 4))

    async def test_a_refusal_does_not_touch_its_neighbours(self) -> None:
        await self.made()
        good = [self.journal.append(session_id(1), [opened(number)]) for number in range(5)]
        bad = self.journal.append(session_id(9), [opened()])
        more = [self.journal.append(session_id(1), [closed(number)]) for number in range(5)]
        with self.assertRaises(ApiError):
            await bad
        seqs = [(await done)[0].seq for done in (*good, *more)]
        self.assertEqual(seqs, list(range(3, 13)))

    async def test_reads_see_what_was_asked_before(self) -> None:
        await self.made()
        done = self.journal.append(session_id(1), [opened()])
        found = self.journal.events(session_id(1), after=0, limit=10, types=None)
        self.assertEqual(len((await found).found), 3)
        await done

    async def test_events_after_and_limit(self) -> None:
        await self.made()
        await self.journal.append(session_id(1), [opened(number) for number in range(10)])
        page = await self.journal.events(session_id(1), after=4, limit=3, types=None)
        self.assertEqual(([event.seq for event in page.found], page.more), ([5, 6, 7], True))
        page = await self.journal.events(session_id(1), after=4, limit=8, types=None)
        self.assertEqual((len(page.found), page.more), (8, False))

    async def test_events_of_types(self) -> None:
        await self.made()
        await self.journal.append(session_id(1), [opened(), closed(), opened(2)])
        types = ["terminal.opened", "no.such_type", "' OR 1=1 --"]
        page = await self.journal.events(session_id(1), after=3, limit=10, types=types)
        self.assertEqual([event.seq for event in page.found], [5])

    async def test_what_is_written_is_data(self) -> None:
        await self.made()
        command = "'; DROP TABLE events; -- \" %s \x01 \x7f \u2028 \U0001f600" + "x" * 10_000
        await self.journal.append(session_id(1), [opened(1, command)])
        self.assertEqual((await all_events(self.journal))[-1].data["command"], command)

    async def test_sessions_newest_first_in_pages(self) -> None:
        # two of them in the same millisecond
        for number, created_at in ((1, NOW), (2, NOW + 0.001), (3, NOW + 0.001), (4, NOW + 5)):
            await self.made(number, created_at=created_at, owner=BOB if number == 3 else ALICE)
        first = await self.journal.sessions(archived=False, limit=2, before=None)
        self.assertEqual(([record.id for record in first.found], first.more), ([session_id(4), session_id(3)], True))
        before = (first.found[-1].created_at, first.found[-1].id)
        rest = await self.journal.sessions(archived=False, limit=9, before=before)
        self.assertEqual(([record.id for record in rest.found], rest.more), ([session_id(2), session_id(1)], False))
        self.assertEqual((await self.journal.sessions(archived=True, limit=9, before=None)).found, [])

    async def test_event_ids_differ(self) -> None:
        await self.made()
        for done in [self.journal.append(session_id(1), [opened(n), closed(n)]) for n in range(50)]:
            await done
        ids = [event.id for event in await all_events(self.journal)]
        self.assertEqual(len(set(ids)), len(ids))
        self.assertEqual(len(ids), 102)
