"""A session's way through its life, on the fake journal."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.internet.defer import Deferred

from computerd.contract.errors import ApiError, Code
from computerd.contract.params import UpdateSession
from computerd.session import lifecycle
from computerd.session.lifecycle import Lifecycle
from computerd.session.port import Key, Outcome, Record
from tests.session.journal_interface import ACTOR, BOB, session_id, terminal_id
from tests.session.processes import FakeProcesses
from tests.session.test_sessions import ID, SessionsCase

UNAVAILABLE = ApiError(Code.UNAVAILABLE, "The disk is full.")


def a_key(key: str = "k", digest: str = "d", member: str = "alice", method: str = "sessions.suspend") -> Key:
    """Whose answer is the session's newest number and status."""

    def answer(record: Record) -> bytes:
        return msgspec.json.encode([record.last_seq, record.status])

    return Key(member, method, key, digest, answer)


class LifecycleCase(SessionsCase):
    """A session of alice's, and what runs in it."""

    idle_seconds = 0.0

    def setUp(self) -> None:
        super().setUp()
        self.processes = FakeProcesses()
        self.lifecycle = Lifecycle(self.sessions, self.processes, self.clock, self.idle_seconds)
        self.create(id=ID, title="T", speed="fast", metadata={"a": "1", "b": "2"})

    @property
    def record(self) -> Record:
        """The session as the journal has it."""
        return self.journal.records[ID]

    def begin_update(self, key: Key | None = None, session: str = ID, **changes: Any) -> Deferred[Outcome]:
        """Asks for changes."""
        params = UpdateSession(session_id=session, **changes)
        return self.begin(self.lifecycle.update(params, ACTOR, key))

    def update(self, key: Key | None = None, **changes: Any) -> Outcome:
        """Changes the session."""
        return self.successResultOf(self.begin_update(key, **changes))

    def begin_suspend(self, key: Key | None = None, *, if_idle: bool = False, session: str = ID) -> Deferred[Outcome]:
        """Asks for it to sleep."""
        return self.begin(self.lifecycle.suspend(session, ACTOR, key, if_idle=if_idle))

    def suspend(self, key: Key | None = None, *, if_idle: bool = False) -> Outcome:
        """Lets it sleep."""
        return self.successResultOf(self.begin_suspend(key, if_idle=if_idle))

    def resume(self, key: Key | None = None) -> Outcome:
        """Wakes it."""
        return self.get(self.lifecycle.resume(ID, ACTOR, key))

    def code(self, work: Deferred[Outcome]) -> Code:
        """Of the error that the work has failed with."""
        error = self.failureResultOf(work, ApiError).value
        assert isinstance(error, ApiError)
        return error.code

    def open(self, number: int = 1) -> None:
        """A terminal opens."""
        self.processes.open.add(ID)
        self.get(self.sessions.terminal_opened(ID, terminal_id(number), None, ACTOR))

    def close(self, number: int = 1) -> None:
        """A terminal closes."""
        self.processes.open.discard(ID)
        self.get(self.sessions.terminal_closed(ID, terminal_id(number), 0))

    def new(self) -> list[tuple[str, object]]:
        """The events after the making of the session."""
        return [(event.type, event.data) for event in self.journal.log[ID][2:]]


class UpdateTests(LifecycleCase):
    """`update`."""

    def test_what_changes_is_one_event(self) -> None:
        outcome = self.update(title="U", speed="standard", metadata={"b": "3"})
        changes = {
            "title": {"from": "T", "to": "U"},
            "speed": {"from": "fast", "to": "standard"},
            "metadata": {"from": {"a": "1", "b": "2"}, "to": {"b": "3"}},
        }
        self.assertEqual(self.new(), [("session.updated", {"changes": changes})])
        self.assertEqual(self.journal.log[ID][2].actor, ACTOR)
        for record in (outcome.record, self.record, self.get(self.sessions.record(ID))):
            self.assertEqual((record.title, record.settings.speed, record.metadata), ("U", "standard", {"b": "3"}))
            self.assertEqual((record.last_seq, record.status, record.archived), (3, "idle", False))
        self.assertEqual(self.processes.ended, [])

    def test_only_what_differs_is_named(self) -> None:
        self.update(title="U", speed="fast", metadata={"b": "2", "a": "1"}, archived=False)
        self.assertEqual(self.new(), [("session.updated", {"changes": {"title": {"from": "T", "to": "U"}}})])

    def test_nothing_differs(self) -> None:
        for changes in ({}, {"title": "T"}, {"speed": "fast", "archived": False, "metadata": {"a": "1", "b": "2"}}):
            outcome = self.update(**changes)
            self.assertEqual((self.new(), outcome.record.last_seq, list(outcome.events)), ([], 2, []))

    def test_metadata_can_be_emptied(self) -> None:
        self.update(metadata={})
        self.assertEqual((self.record.metadata, self.get(self.sessions.get(ID)).metadata), ({}, {}))

    def test_a_first_title_and_speed(self) -> None:
        plain = self.create().session.id
        self.successResultOf(self.begin_update(session=plain, title="U", speed="fast"))
        self.assertEqual(
            self.journal.log[plain][2].data,
            {"changes": {"title": {"from": None, "to": "U"}, "speed": {"from": None, "to": "fast"}}},
        )

    def test_an_unknown_session(self) -> None:
        for name in (session_id(9), "nonsense", ""):
            self.assertEqual(self.code(self.begin_update(session=name, title="U")), Code.SESSION_NOT_FOUND)

    def test_the_journal_refuses(self) -> None:
        self.journal.refusing = UNAVAILABLE
        self.assertEqual(self.code(self.begin_update(title="U")), Code.UNAVAILABLE)
        self.journal.heal()
        self.assertEqual((self.get(self.sessions.get(ID)).title, self.new()), ("T", []))

    def test_two_at_once_are_one_after_the_other(self) -> None:
        self.journal.holding = True
        works = [self.begin_update(title=title) for title in ("U", "V")]
        self.journal.release()
        self.assertEqual([self.successResultOf(work).record.last_seq for work in works], [3, 4])
        self.assertEqual([data for _, data in self.new()][1], {"changes": {"title": {"from": "U", "to": "V"}}})


class ArchiveTests(LifecycleCase):
    """`update` with `archived`."""

    def test_archiving_ends_what_runs_first(self) -> None:
        self.open()
        self.processes.on_end = lambda _: self.close()
        self.update(archived=True)
        self.assertEqual(
            self.new(),
            [
                ("terminal.opened", {"terminalId": terminal_id(1), "command": None}),
                ("terminal.closed", {"terminalId": terminal_id(1), "exitCode": 0}),
                ("session.updated", {"changes": {"archived": {"from": False, "to": True}}}),
                ("runtime.suspended", {"reason": "requested"}),
                ("session.status_changed", {"from": "idle", "to": "suspended"}),
            ],
        )
        self.assertEqual((self.record.archived, self.record.status), (True, "suspended"))
        self.assertEqual(self.processes.ended, [ID])
        page, _ = self.get(self.sessions.list(archived=True, limit=9, cursor=None))
        self.assertEqual([session.id for session in page], [ID])

    def test_nothing_is_committed_before_the_processes_are_gone(self) -> None:
        self.processes.slow = True
        work = self.begin_update(archived=True)
        self.assertEqual(self.new(), [])
        self.processes.release()
        self.successResultOf(work)
        self.assertEqual(len(self.new()), 3)

    def test_a_suspended_session_is_only_archived(self) -> None:
        self.suspend()
        self.update(archived=True)
        self.assertEqual([kind for kind, _ in self.new()[2:]], ["session.updated"])

    def test_twice(self) -> None:
        self.update(archived=True)
        before = self.new()
        outcome = self.update(archived=True)
        self.assertEqual((self.new(), outcome.record.last_seq), (before, 5))
        self.assertEqual(self.processes.ended, [ID])

    def test_out_of_the_archive_it_sleeps_on(self) -> None:
        self.update(archived=True)
        outcome = self.update(archived=False, title="U")
        self.assertEqual((outcome.record.archived, outcome.record.status), (False, "suspended"))
        self.assertEqual(
            self.new()[-1],
            (
                "session.updated",
                {"changes": {"title": {"from": "T", "to": "U"}, "archived": {"from": True, "to": False}}},
            ),
        )
        self.assertEqual(self.resume().record.status, "idle")

    def test_an_archived_session_can_be_changed(self) -> None:
        self.update(archived=True)
        self.assertEqual(self.update(title="U").record.title, "U")
        self.assertEqual((self.record.archived, self.record.status), (True, "suspended"))

    def test_no_terminal_opens_on_it(self) -> None:
        self.update(archived=True)
        work = self.sessions.terminal_opened(ID, terminal_id(1), None, ACTOR)
        self.refused(work, Code.FEATURE_UNAVAILABLE)

    def test_an_opening_that_comes_after_the_archive(self) -> None:
        """It had begun before; the journal decides, at the moment of the commit."""
        self.journal.holding = True
        archiving = self.begin_update(archived=True)
        opening = self.begin(self.sessions.terminal_opened(ID, terminal_id(1), None, ACTOR))
        self.journal.release()
        self.successResultOf(archiving)
        self.failureResultOf(opening, ApiError)
        self.assertEqual([kind for kind, _ in self.new()].count("terminal.opened"), 0)


class SuspendTests(LifecycleCase):
    """`suspend` and `resume`."""

    def test_suspend(self) -> None:
        self.open()
        self.processes.on_end = lambda _: self.close()
        outcome = self.suspend()
        self.assertEqual(
            self.new()[1:],
            [
                ("terminal.closed", {"terminalId": terminal_id(1), "exitCode": 0}),
                ("runtime.suspended", {"reason": "requested"}),
                ("session.status_changed", {"from": "idle", "to": "suspended"}),
            ],
        )
        self.assertEqual([event.actor for event in self.journal.log[ID][4:]], [ACTOR, ACTOR])
        self.assertEqual((outcome.record.status, outcome.record.last_seq), ("suspended", 6))
        self.assertEqual(self.get(self.sessions.get(ID)).status, "suspended")

    def test_what_is_suspended_stays_as_it_is(self) -> None:
        self.suspend()
        for if_idle in (False, True):
            outcome = self.suspend(if_idle=if_idle)
            self.assertEqual((outcome.record.last_seq, list(outcome.events)), (4, []))
        self.assertEqual(self.processes.ended, [ID])

    def test_a_terminal_that_is_about_to_wake_it_is_ended_too(self) -> None:
        """Its opening is on its way to the journal, where it comes first: it must not be open in a session that sleeps."""
        self.suspend()
        self.journal.holding = True
        self.processes.open.add(ID)
        opening = self.begin(self.sessions.terminal_opened(ID, terminal_id(1), None, ACTOR))
        self.assertEqual(self.code(self.begin_suspend(if_idle=True)), Code.SESSION_BUSY)
        suspending = self.begin_suspend()
        self.assertEqual(self.processes.ended, [ID, ID])
        self.journal.release()
        self.successResultOf(opening)
        self.assertEqual(self.successResultOf(suspending).record.status, "suspended")

    def test_an_archived_session_is_suspended_already(self) -> None:
        self.update(archived=True)
        self.assertEqual(list(self.suspend().events), [])
        self.assertEqual(self.record.archived, True)

    def test_if_idle(self) -> None:
        self.open()
        error = self.failureResultOf(self.begin_suspend(if_idle=True), ApiError).value
        assert isinstance(error, ApiError)
        self.assertEqual((error.code, error.body()["retryable"]), (Code.SESSION_BUSY, True))
        self.assertEqual((self.processes.ended, self.record.status), ([], "idle"))
        self.close()
        self.assertEqual(self.suspend(if_idle=True).record.status, "suspended")

    def test_resume(self) -> None:
        self.suspend()
        outcome = self.resume()
        self.assertEqual(self.new()[2:], [("session.status_changed", {"from": "suspended", "to": "idle"})])
        self.assertEqual((outcome.record.status, outcome.record.last_seq), ("idle", 5))
        self.assertEqual((list(self.resume().events), self.resume().record.last_seq), ([], 5))

    def test_resume_of_an_archived_session(self) -> None:
        self.update(archived=True)
        self.refused(self.lifecycle.resume(ID, ACTOR, None), Code.FEATURE_UNAVAILABLE)
        self.assertEqual(self.record.status, "suspended")

    def test_an_unknown_session(self) -> None:
        for name in (session_id(9), "nonsense"):
            self.assertEqual(self.code(self.begin_suspend(session=name)), Code.SESSION_NOT_FOUND)
            self.refused(self.lifecycle.resume(name, ACTOR, None), Code.SESSION_NOT_FOUND)
        self.assertEqual(self.processes.ended, [])

    def test_the_journal_refuses(self) -> None:
        self.journal.refusing = UNAVAILABLE
        self.assertEqual(self.code(self.begin_suspend()), Code.UNAVAILABLE)
        self.journal.heal()
        self.assertEqual(self.suspend().record.status, "suspended")

    def test_opening_a_terminal_wakes_it(self) -> None:
        self.suspend()
        self.open()
        self.assertEqual([kind for kind, _ in self.new()[2:]], ["session.status_changed", "terminal.opened"])


class KeyTests(LifecycleCase):
    """Idempotency keys."""

    def test_nothing_is_done_twice(self) -> None:
        first = self.suspend(a_key())
        self.resume()
        again = self.suspend(a_key())
        self.assertEqual((again.answer, first.answer), (b'[4,"suspended"]',) * 2)
        self.assertEqual((again.repeated, first.repeated), (True, False))
        self.assertEqual((self.processes.ended, self.record.status, self.record.last_seq), ([ID], "idle", 5))

    def test_nor_after_a_restart(self) -> None:
        self.suspend(a_key())
        self.resume()
        self.sessions = self.anew()
        self.lifecycle = Lifecycle(self.sessions, self.processes, self.clock)
        self.assertTrue(self.suspend(a_key()).repeated)
        self.assertEqual(self.processes.ended, [ID])

    def test_an_archive_is_not_repeated(self) -> None:
        key = a_key(method="sessions.update")
        self.update(key, archived=True)
        self.update(archived=False)
        self.resume()
        self.assertEqual(self.update(key, archived=True).answer, b'[5,"suspended"]')
        self.assertEqual((self.processes.ended, self.record.archived), ([ID], False))

    def test_other_params(self) -> None:
        self.suspend(a_key())
        self.resume()
        self.assertEqual(self.code(self.begin_suspend(a_key(digest="e"))), Code.IDEMPOTENCY_CONFLICT)
        self.assertEqual((self.processes.ended, self.record.status), ([ID], "idle"))
        # also when nothing would be done
        self.suspend()
        self.assertEqual(self.code(self.begin_suspend(a_key(digest="e"))), Code.IDEMPOTENCY_CONFLICT)

    def test_another_member_method_or_key_is_another_key(self) -> None:
        self.suspend(a_key())
        for key in (a_key(member=BOB.id), a_key(method="sessions.update"), a_key(key="l")):
            self.resume()
            self.assertFalse(self.suspend(key).repeated)
        self.assertEqual(self.processes.ended, [ID] * 4)

    def test_after_a_day_it_is_forgotten(self) -> None:
        self.suspend(a_key())
        self.resume()
        self.now += 24 * 3600 - 1
        self.assertTrue(self.suspend(a_key()).repeated)
        self.now += 1
        self.assertFalse(self.suspend(a_key()).repeated)

    def test_what_was_refused_is_not_remembered(self) -> None:
        self.open()
        self.assertEqual(self.code(self.begin_suspend(a_key(), if_idle=True)), Code.SESSION_BUSY)
        self.close()
        self.assertEqual(self.suspend(a_key(), if_idle=True).record.status, "suspended")

    def test_two_at_once(self) -> None:
        self.processes.slow = True
        works = [self.begin_suspend(a_key()) for _ in range(2)]
        self.processes.release()
        self.processes.release()
        first, second = (self.successResultOf(work) for work in works)
        self.assertEqual((first.repeated, second.repeated, first.answer), (False, True, second.answer))
        self.assertEqual([kind for kind, _ in self.new()], ["runtime.suspended", "session.status_changed"])

    def test_what_changes_nothing_is_remembered_too(self) -> None:
        key = a_key(method="sessions.resume")
        self.assertEqual(self.resume(key).answer, b'[2,"idle"]')
        self.suspend()
        self.assertEqual(self.resume(key).answer, b'[2,"idle"]')
        self.assertEqual(self.record.status, "suspended")


class IdleTests(LifecycleCase):
    """Sessions in which nothing happens are put to sleep."""

    idle_seconds = 100.0

    def setUp(self) -> None:
        super().setUp()
        self.start()

    def start(self) -> None:
        """Begins to look."""
        self.get(self.lifecycle.start())

    def wait(self, seconds: float) -> None:
        """Time goes by, one second at a time."""
        for _ in range(round(seconds)):
            self.clock.advance(1)

    def test_after_so_long_and_not_before(self) -> None:
        self.wait(99)
        self.assertEqual(self.record.status, "idle")
        self.wait(26)
        self.assertEqual(
            self.new(),
            [
                ("runtime.suspended", {"reason": "idle"}),
                ("session.status_changed", {"from": "idle", "to": "suspended"}),
            ],
        )
        self.assertEqual([event.actor for event in self.journal.log[ID][2:]], [None, None])
        self.assertEqual(self.processes.ended, [ID])
        self.wait(300)
        self.assertEqual((len(self.new()), self.processes.ended), (2, [ID]))

    def test_whatever_happens_begins_it_anew(self) -> None:
        for _ in range(5):
            self.wait(90)
            self.update(title="U" if self.record.title == "T" else "T")
        self.assertEqual(self.record.status, "idle")
        self.wait(126)
        self.assertEqual(self.record.status, "suspended")

    def test_never_while_a_terminal_is_open(self) -> None:
        self.open()
        self.wait(1000)
        self.assertEqual((self.record.status, self.processes.ended), ("idle", []))
        self.close()
        self.wait(99)
        self.assertEqual(self.record.status, "idle")
        self.wait(26)
        self.assertEqual(self.record.status, "suspended")

    def test_never_while_a_terminal_is_being_opened(self) -> None:
        self.processes.open.add(ID)
        self.wait(1000)
        self.assertEqual((self.record.status, self.processes.ended), ("idle", []))
        self.processes.open.clear()
        self.wait(126)
        self.assertEqual(self.record.status, "suspended")

    def test_a_session_that_was_woken_sleeps_again(self) -> None:
        self.wait(126)
        self.resume()
        self.wait(126)
        self.assertEqual([kind for kind, _ in self.new()].count("runtime.suspended"), 2)

    def test_steps_of_the_wall_clock_do_nothing(self) -> None:
        """L5."""
        self.now += 365 * 86_400
        self.wait(99)
        self.assertEqual(self.record.status, "idle")
        self.now -= 20 * 365 * 86_400
        self.wait(26)
        self.assertEqual(self.record.status, "suspended")

    def test_many(self) -> None:
        others = [self.create().session.id for _ in range(50)]
        self.wait(130)
        self.assertEqual({self.journal.records[name].status for name in (ID, *others)}, {"suspended"})
        self.assertEqual(sorted(self.processes.ended), sorted([ID, *others]))

    def test_the_journal_takes_nothing_for_a_while(self) -> None:
        self.wait(99)
        self.journal.refusing = UNAVAILABLE
        self.wait(500)
        self.assertEqual(self.record.status, "idle")
        self.journal.heal()
        self.wait(126)
        self.assertEqual(self.record.status, "suspended")
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_fault_is_logged_and_does_not_end_it(self) -> None:
        def fault(_: str) -> None:
            self.processes.on_end = lambda _: None
            raise ValueError("a fault of ours")

        self.processes.on_end = fault
        other = self.create().session.id
        self.wait(130)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.wait(130)
        self.assertEqual(self.journal.records[other].status, "suspended")

    def test_a_session_that_is_gone_is_not_looked_for_again(self) -> None:
        """As after a renewal of the journal."""
        self.sessions.idleness.touch(session_id(9))
        self.wait(130)
        self.assertEqual(self.record.status, "suspended")
        self.assertNotIn(session_id(9), self.sessions.idleness._since)

    def test_stop_leaves_nothing(self) -> None:
        self.lifecycle.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.wait(300)
        self.assertEqual(self.record.status, "idle")

    def test_stop_in_the_middle(self) -> None:
        self.processes.slow = True
        self.wait(126)
        (waiting,) = self.processes.waiting
        self.lifecycle.stop()
        self.assertTrue(waiting.called)
        self.assertEqual((self.clock.getDelayedCalls(), self.record.status), ([], "idle"))
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_only_one_look_at_a_time(self) -> None:
        self.processes.slow = True
        self.wait(400)
        self.assertEqual(self.processes.ended, [ID])
        self.processes.release()
        self.assertEqual(self.record.status, "suspended")

    def test_two_looks_for_a_session_of_another_run(self) -> None:
        """It was awake before the start, and counts as quiet from the start on."""
        self.lifecycle.stop()
        self.now += 10_000
        self.sessions = self.anew()
        self.lifecycle = Lifecycle(self.sessions, self.processes, self.clock, 100.0)
        self.start()
        self.wait(99)
        self.assertEqual(self.record.status, "idle")
        self.wait(26)
        self.assertEqual(self.record.status, "suspended")

    def test_those_that_could_not_be_found_at_the_start(self) -> None:
        self.lifecycle.stop()
        self.sessions = self.anew()
        self.lifecycle = Lifecycle(self.sessions, self.processes, self.clock, 100.0)
        self.journal.refusing = UNAVAILABLE
        self.start()
        self.journal.heal()
        self.wait(150)
        self.assertEqual(self.record.status, "suspended")

    def test_more_than_a_page_of_them(self) -> None:
        self.lifecycle.stop()
        self.patch(lifecycle, "_PAGE", 3)
        others = [self.create().session.id for _ in range(9)]
        self.sessions = self.anew()
        self.lifecycle = Lifecycle(self.sessions, self.processes, self.clock, 100.0)
        self.start()
        self.wait(130)
        self.assertEqual({self.journal.records[name].status for name in (ID, *others)}, {"suspended"})


class NeverIdleTests(LifecycleCase):
    """Without a configured time nobody is put to sleep."""

    def test_nothing_is_planned_or_kept(self) -> None:
        self.get(self.lifecycle.start())
        self.update(title="U")
        self.assertEqual((self.clock.getDelayedCalls(), len(self.sessions.idleness._since)), ([], 0))
        self.lifecycle.stop()
