"""What every journal must do: run against the fake in memory and against the real one on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from attrs import evolve

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.contract.events import SessionCreated, SessionStatusChanged, TerminalClosed, TerminalOpened
from computerd.contract.objects import Actor, Event, Origin, Person, Settings
from computerd.session.drafts import draft
from computerd.session.port import Change, Commit, Decided, Draft, Journal, Key, Outcome, Record

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


class Heard:
    """A listener that remembers. It also remembers what its tests note, so that the order can be seen."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def committed(self, commit: Commit) -> None:
        self.told.append(commit)

    def renewed(self) -> None:
        self.told.append("renewed")

    @property
    def commits(self) -> list[Commit]:
        """The commits."""
        return [item for item in self.told if isinstance(item, Commit)]

    def seqs(self, number: int = 1) -> list[int]:
        """The numbers of all events of a session that were told."""
        return [
            event.seq for commit in self.commits if commit.session_id == session_id(number) for event in commit.events
        ]


def waking(record: Record) -> Decided:
    """A decision: a session that is suspended is idle from now on."""
    if record.status != "suspended":
        return Decided()
    return Decided([draft(SessionStatusChanged(from_="suspended", to="idle"), ACTOR)], Change(status="idle"))


def suspending(record: Record) -> Decided:
    """A decision: a session that is idle is suspended from now on."""
    if record.status != "idle":
        raise ApiError(Code.SESSION_BUSY, "It is not idle.")
    return Decided([draft(SessionStatusChanged(from_="idle", to="suspended"), ACTOR)], Change(status="suspended"))


def a_key(key: str = "key", digest: str = "digest", member: str = "alice", method: str = "sessions.suspend") -> Key:
    """A key, whose answer says how the session is."""
    return Key(member, method, key, digest, lambda record: f"{record.status} {record.last_seq}".encode())


class JournalInterface(TestCase):
    """The tests. A class that runs them provides `journal`, ready for use, from `setUp` on, and `heard`, which listens to it.

    Where the clock has to go on, `later` does it.
    """

    journal: Journal
    heard: Heard

    def later(self, seconds: float) -> None:
        """Moves the journal's wall clock on."""
        raise NotImplementedError

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

    async def test_every_commit_is_told_before_its_caller(self) -> None:
        record = a_record()
        done = self.journal.create(record, beginning(record))
        more = self.journal.append(session_id(1), [opened(1), opened(2)])
        last = self.journal.append(session_id(1), [closed(1)])
        for awaited, upto in ((done, 2), (more, 4), (last, 5)):
            events = await awaited
            self.assertEqual(events[-1].seq, upto)
            self.assertEqual(self.heard.seqs()[:upto], list(range(1, upto + 1)))
        self.assertEqual(self.heard.seqs(), [1, 2, 3, 4, 5])
        first, *others = self.heard.commits
        self.assertEqual(first.record, await self.journal_record_as_of(first))
        self.assertEqual([commit.record for commit in others], [None] * len(others))
        told = [event for commit in self.heard.commits for event in commit.events]
        self.assertEqual(told, list(await all_events(self.journal)))

    async def journal_record_as_of(self, commit: Commit) -> Record:
        """The session as it is, but for what came after a commit."""
        found = await self.journal.session(commit.session_id)
        assert found is not None and commit.record is not None
        self.assertEqual(commit.record.last_seq, commit.events[-1].seq)
        return evolve(found, last_seq=commit.record.last_seq, active_at=commit.record.active_at)

    async def test_what_is_refused_is_not_told(self) -> None:
        await self.made()
        with self.assertRaises(ApiError):
            await self.journal.create(a_record(), beginning(a_record()))
        with self.assertRaises(ApiError):
            await self.journal.append(session_id(9), [opened()])
        self.assertEqual(len(self.heard.told), 1)

    async def test_decide(self) -> None:
        record = await self.made()
        seen: list[Record] = []

        def decision(now: Record) -> Decided:
            seen.append(now)
            return suspending(now)

        outcome = await self.journal.decide(session_id(1), decision)
        self.assertEqual([evolve(now, active_at=record.active_at) for now in seen], [record])
        self.assertEqual(
            [(event.seq, event.type, event.actor) for event in outcome.events], [(3, "session.status_changed", ACTOR)]
        )
        self.assertEqual((outcome.record.status, outcome.record.last_seq), ("suspended", 3))
        self.assertEqual((outcome.answer, outcome.repeated), (None, False))
        self.assertEqual(await self.journal.session(session_id(1)), outcome.record)
        self.assertEqual(self.heard.commits[-1], Commit(session_id(1), outcome.events, outcome.record))

    async def test_decide_changes_each_field(self) -> None:
        await self.made()
        change = Change(
            "suspended", "new", Settings(model="m", effort=None, mode=None, speed="standard"), {"a": "b"}, True
        )
        outcome = await self.journal.decide(session_id(1), lambda record: Decided([opened()], change))
        found = await self.journal.session(session_id(1))
        self.assertEqual(found, outcome.record)
        assert found is not None
        for name in ("status", "title", "settings", "metadata", "archived"):
            self.assertEqual(getattr(found, name), getattr(change, name))
        self.assertEqual((await self.journal.sessions(archived=True, limit=9, before=None)).found, [found])

    async def test_decide_may_change_nothing(self) -> None:
        await self.made()
        before = await self.journal.session(session_id(1))
        outcome = await self.journal.decide(session_id(1), waking)
        self.assertEqual((list(outcome.events), outcome.record), ([], before))
        self.assertEqual(await self.journal.session(session_id(1)), before)
        self.assertEqual(len(self.heard.told), 1)

    async def test_a_change_without_an_event_is_written(self) -> None:
        await self.made()
        await self.journal.decide(session_id(1), lambda record: Decided((), Change(title="quietly")))
        found = await self.journal.session(session_id(1))
        assert found is not None
        self.assertEqual((found.title, found.last_seq, len(self.heard.told)), ("quietly", 2, 1))

    async def test_a_decision_sees_what_came_before_it(self) -> None:
        """Also what is in the same group."""
        await self.made()
        seen: list[int] = []

        def decision(record: Record) -> Decided:
            seen.append(record.last_seq)
            return Decided([closed(record.last_seq)])

        one = self.journal.append(session_id(1), [opened(1), opened(2)])
        two = self.journal.decide(session_id(1), decision)
        three = self.journal.append(session_id(1), [opened(3)])
        four = self.journal.decide(session_id(1), decision)
        await one
        self.assertEqual((await two).events[0].seq, 5)
        self.assertEqual((await three)[0].seq, 6)
        outcome = await four
        self.assertEqual((outcome.events[0].seq, outcome.record.last_seq), (7, 7))
        self.assertEqual(seen, [4, 6])
        self.assertEqual(self.heard.seqs(), [1, 2, 3, 4, 5, 6, 7])
        self.assertEqual([event.seq for event in await all_events(self.journal)], [1, 2, 3, 4, 5, 6, 7])
        self.assertEqual(self.heard.commits[-1].record, outcome.record)

    async def test_a_decision_that_refuses_is_alone_with_that(self) -> None:
        await self.made()
        before = [self.journal.append(session_id(1), [opened(number)]) for number in range(3)]
        first = self.journal.decide(session_id(1), suspending, key=a_key("one"))
        second = self.journal.decide(session_id(1), suspending, key=a_key("two"))
        unknown = self.journal.decide(session_id(9), suspending, key=a_key("three"))
        after = [self.journal.append(session_id(1), [closed(number)]) for number in range(3)]
        for done in (*before, *after):
            await done
        self.assertEqual((await first).record.status, "suspended")
        for refused, code in ((second, Code.SESSION_BUSY), (unknown, Code.SESSION_NOT_FOUND)):
            with self.assertRaises(ApiError) as caught:
                await refused
            self.assertEqual(caught.exception.code, code)
        self.assertEqual([event.seq for event in await all_events(self.journal)], list(range(1, 10)))
        # what was refused may be tried again with the same key
        self.assertIsNone(await self.journal.answered("alice", "sessions.suspend", "two", "digest"))

    async def test_a_key_repeats_the_first_answer(self) -> None:
        await self.made()
        first = await self.journal.decide(session_id(1), suspending, key=a_key())
        self.assertEqual((first.answer, first.repeated), (b"suspended 3", False))
        await self.journal.append(session_id(1), [opened()])
        again = await self.journal.decide(session_id(1), self.fail_if_called, key=a_key())
        self.assertEqual((again.answer, again.repeated, list(again.events)), (b"suspended 3", True, []))
        self.assertEqual(again.record, await self.journal.session(session_id(1)))
        self.assertEqual(await self.journal.answered("alice", "sessions.suspend", "key", "digest"), b"suspended 3")
        self.assertEqual(self.heard.seqs(), [1, 2, 3, 4])

    def fail_if_called(self, record: Record) -> Decided:
        """A decision that nobody asks for."""
        self.fail("it was decided again")

    async def test_two_at_once_with_the_same_key(self) -> None:
        await self.made()
        twice = [self.journal.decide(session_id(1), suspending, key=a_key()) for _ in range(2)]
        outcomes = [await done for done in twice]
        self.assertEqual([outcome.answer for outcome in outcomes], [b"suspended 3"] * 2)
        self.assertEqual([outcome.repeated for outcome in outcomes], [False, True])
        self.assertEqual(len(await all_events(self.journal)), 3)

    async def test_a_key_is_kept_also_when_nothing_changes(self) -> None:
        await self.made()
        await self.journal.decide(session_id(1), waking, key=a_key())
        self.assertTrue((await self.journal.decide(session_id(1), suspending, key=a_key())).repeated)
        self.assertEqual(len(self.heard.told), 1)

    async def test_a_key_with_other_params(self) -> None:
        await self.made()
        await self.journal.decide(session_id(1), suspending, key=a_key())
        for done in (
            self.journal.decide(session_id(1), waking, key=a_key(digest="another")),
            self.journal.answered("alice", "sessions.suspend", "key", "another"),
        ):
            with self.assertRaises(ApiError) as caught:
                await done
            self.assertEqual(
                (caught.exception.code, caught.exception.field), (Code.IDEMPOTENCY_CONFLICT, "idempotencyKey")
            )

    async def test_a_key_is_one_members_for_one_method(self) -> None:
        await self.made()
        await self.journal.decide(session_id(1), suspending, key=a_key())
        for key in (
            a_key(member="bob", digest="another"),
            a_key(method="sessions.resume", digest="another"),
            a_key("Key"),
        ):
            outcome: Outcome = await self.journal.decide(session_id(1), waking, key=key)
            self.assertFalse(outcome.repeated)
        self.assertIsNone(await self.journal.answered("bob", "sessions.suspend", "Key", "digest"))

    async def test_a_key_expires(self) -> None:
        await self.made()
        await self.journal.decide(session_id(1), suspending, key=a_key())
        self.later(limits.IDEMPOTENCY_KEY_SECONDS - 1)
        self.assertIsNotNone(await self.journal.answered("alice", "sessions.suspend", "key", "digest"))
        self.later(2)
        self.assertIsNone(await self.journal.answered("alice", "sessions.suspend", "key", "digest"))
        again = await self.journal.decide(session_id(1), waking, key=a_key(digest="another"))
        self.assertEqual((again.repeated, again.answer), (False, b"idle 4"))
        self.assertEqual(await self.journal.answered("alice", "sessions.suspend", "key", "another"), b"idle 4")

    async def test_awake(self) -> None:
        for number in range(1, 6):
            await self.made(number)
        await self.journal.decide(session_id(2), suspending)
        await self.journal.decide(session_id(4), lambda record: Decided([opened()], Change(archived=True)))
        self.assertEqual(list(await self.journal.awake(limit=9, after="")), [session_id(n) for n in (1, 3, 5)])
        self.assertEqual(list(await self.journal.awake(limit=2, after="")), [session_id(n) for n in (1, 3)])
        self.assertEqual(list(await self.journal.awake(limit=9, after=session_id(3))), [session_id(5)])
        await self.journal.decide(session_id(2), waking)
        self.assertEqual(list(await self.journal.awake(limit=1, after=session_id(1))), [session_id(2)])

    async def trimmed(self, keep: int, before: float | None = None, limit: int = 1000) -> dict[str, int]:
        """Trims until nothing is left to remove. Returns where each session begins now."""
        moved: dict[str, int] = {}
        for _ in range(1000):
            part = await self.journal.trim(keep=keep, before=before, limit=limit)
            if part is None:
                return moved
            moved.update(part)
        raise self.failureException("it does not come to an end")

    async def test_trim_by_count(self) -> None:
        for number in (1, 2, 3):
            await self.made(number)
        for number in (1, 2):
            await self.journal.append(session_id(number), [opened(n) for n in range(10 * number)])
        self.assertEqual(await self.trimmed(keep=10), {session_id(1): 3, session_id(2): 13})
        for number, first, last in ((1, 3, 12), (2, 13, 22), (3, 1, 2)):
            record = await self.journal.session(session_id(number))
            assert record is not None
            self.assertEqual((record.first_seq, record.last_seq), (first, last))
            self.assertEqual(
                [event.seq for event in await all_events(self.journal, number)], list(range(first, last + 1))
            )
        self.assertEqual(await self.trimmed(keep=10), {})
        (event,) = await self.journal.append(session_id(1), [opened(99)])
        self.assertEqual(event.seq, 13)

    async def test_trim_a_little_at_a_time(self) -> None:
        await self.made()
        await self.journal.append(session_id(1), [opened(n) for n in range(30)])
        part = await self.journal.trim(keep=2, before=None, limit=5)
        assert part is not None
        self.assertTrue(4 <= part[session_id(1)] <= 7, part)
        self.assertEqual(await self.trimmed(keep=2, limit=5), {session_id(1): 31})

    async def test_trim_by_age(self) -> None:
        await self.made()
        await self.journal.append(session_id(1), [opened(1), opened(2)])
        self.later(100)
        (event,) = await self.journal.append(session_id(1), [opened(3)])
        middle = datetime.fromisoformat(event.created_at).timestamp() - 50
        self.assertEqual(await self.trimmed(keep=100, before=middle), {session_id(1): 5})
        self.assertEqual([event.seq for event in await all_events(self.journal)], [5])

    async def test_trim_everything(self) -> None:
        await self.made()
        self.assertEqual(await self.trimmed(keep=0), {session_id(1): 3})
        record = await self.journal.session(session_id(1))
        assert record is not None
        self.assertEqual((record.first_seq, record.last_seq), (3, 2))
        self.assertEqual((await self.journal.append(session_id(1), [opened()]))[0].seq, 3)

    async def test_trim_never_takes_from_the_middle(self) -> None:
        """An old event behind a newer one, as after a step of the clock, stays."""
        await self.made()
        self.later(1000)
        (event,) = await self.journal.append(session_id(1), [opened(1)])
        self.later(-900)
        await self.journal.append(session_id(1), [opened(2)])
        before = datetime.fromisoformat(event.created_at).timestamp() - 1
        self.assertEqual(await self.trimmed(keep=100, before=before), {session_id(1): 3})
        self.assertEqual([event.seq for event in await all_events(self.journal)], [3, 4])

    async def test_trim_removes_keys_that_have_expired(self) -> None:
        await self.made()
        await self.journal.decide(session_id(1), suspending, key=a_key())
        self.later(limits.IDEMPOTENCY_KEY_SECONDS + 1)
        await self.journal.decide(session_id(1), waking, key=a_key("new"))
        await self.trimmed(keep=100)
        self.assertEqual(self.kept_keys(), ["new"])

    def kept_keys(self) -> list[str]:
        """The keys that take space."""
        raise NotImplementedError
