"""The methods about terminals: an opening that fails anywhere leaves nothing, and the ends are told once (T1, T5, T13, BR-063, BR-064)."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from msgspec import UNSET
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from computerd.api.connection import Connection
from computerd.api.front import Answer
from computerd.contract import results
from computerd.contract.errors import ApiError, Code, Reason
from computerd.contract.objects import Terminal
from computerd.contract.params import OfTerminal, OpenTerminal, ResizeTerminal, Resume, Suspend, UpdateSession
from computerd.contract.results import TerminalExited
from tests.api.callers import a_caller
from tests.api.test_dispatch import ApiCase
from tests.host.fake_process import FakeProcess
from tests.session.test_sessions import ID


class TerminalsCase(ApiCase):
    """A session of alice's."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=ID)

    def restart(self) -> None:
        """Nothing is in memory any more."""
        self.sessions = self.anew()
        self.api = self.make_api()

    def open(self, connection: Connection | None = None, **params: Any) -> Deferred[Answer]:
        """Asks for a terminal: a tty, unless told otherwise."""
        size = {} if params.get("tty") is False else {"cols": 80, "rows": 24}
        return self.call("terminals.open", OpenTerminal(session_id=ID, **{**size, **params}), None, connection)

    def opened(self, **params: Any) -> tuple[Terminal, FakeProcess]:
        """A terminal whose output flows, and its process."""
        answer = self.successResultOf(self.open(**params))
        assert isinstance(answer.result, results.TerminalOpened)
        self.clock.advance(0)
        return answer.result.terminal, self.spawner.spawned[-1]

    def settled(self, events: list[str]) -> None:
        """No slot is taken, no terminal known, and the journal says this of terminals."""
        self.assertEqual(self.slots.taken(ID), 0)
        self.assertEqual(len(self.connection.channels), 0)
        self.assertEqual([kind for kind in self.types(ID) if kind.startswith("terminal.")], events)


class OpenTests(TerminalsCase):
    """`terminals.open`."""

    def test_what_is_started(self) -> None:
        for params, term, size in (
            ({}, "xterm-256color", (80, 24)),
            ({"term": "vt100", "cols": 120, "rows": 40}, "vt100", (120, 40)),
            ({"tty": False}, "dumb", None),
        ):
            terminal, process = self.opened(**params)
            start = process.start_data
            self.assertEqual((start.term, start.size, start.owner, start.command), (term, size, "alice", None))
            self.assertEqual((start.session_id, start.terminal_id), (ID, terminal.id))
            self.assertRegex(terminal.id, r"^tm_[0-9A-Za-z]{12}$")
        self.assertEqual((terminal.channel, terminal.stderr_channel), (3, 4))

    def test_the_answer_precedes_the_output(self) -> None:
        answer = self.open(command="echo early")
        (process,) = self.spawner.spawned
        process.say(b"early")
        process.exit(0)
        self.successResultOf(answer)
        self.assertEqual(self.outbox.sent, [])
        self.clock.advance(0)
        self.assertEqual(self.outbox.sent[0], (1, b"early"))
        self.assertEqual(
            self.exits[0], TerminalExited(terminal_id=process.start_data.terminal_id, exit_code=0, signal=None)
        )

    def test_whose_it_is(self) -> None:
        bob = Connection(id="cn_000000000001", caller=a_caller("bob"), outbox=self.outbox)
        error = self.error(self.open(bob))
        self.assertEqual((error.code, error.reason), (Code.FORBIDDEN, Reason.TERMINAL_OWNER_ONLY))
        admin = Connection(id="cn_000000000002", caller=evolve(a_caller("bob"), admin=True), outbox=self.outbox)
        self.successResultOf(self.open(admin))
        self.assertEqual(self.spawner.spawned[0].start_data.owner, "alice")

    def test_an_archived_session(self) -> None:
        self.journal.records[ID] = evolve(self.journal.records[ID], archived=True)
        self.restart()
        error = self.error(self.open())
        self.assertEqual((error.code, error.status), (Code.FEATURE_UNAVAILABLE, 409))
        self.settled([])

    def test_a_suspended_session_is_resumed(self) -> None:
        self.journal.records[ID] = evolve(self.journal.records[ID], status="suspended")
        self.restart()
        self.opened()
        self.assertEqual(self.types(ID)[-2:], ["session.status_changed", "terminal.opened"])
        self.assertEqual(self.get(self.sessions.get(ID)).status, "idle")

    def test_it_does_not_start(self) -> None:
        self.spawner.error = ApiError(Code.COMPUTER_UNAVAILABLE, "No pseudo-terminal is left.")
        self.assertEqual(self.error(self.open()).code, Code.COMPUTER_UNAVAILABLE)
        self.settled([])
        self.spawner.error = None
        self.assertEqual(self.opened()[0].channel, 1)

    def test_the_journal_does_not_take_it(self) -> None:
        self.journal.refusing = ApiError(Code.UNAVAILABLE, "The disk is full.")
        self.assertEqual(self.error(self.open()).code, Code.UNAVAILABLE)
        (process,) = self.spawner.spawned
        self.assertTrue(process.hung_up and process.ended)
        self.settled([])

    def test_the_connection_ends_while_it_starts(self) -> None:
        self.spawner.slow = True
        opening = self.open()
        self.connection.gone()
        self.spawner.release()
        self.assertEqual(self.error(opening).code, Code.UNAVAILABLE)
        self.assertTrue(self.spawner.spawned[0].ended)
        self.settled([])

    def test_the_connection_ends_while_the_journal_writes(self) -> None:
        self.journal.holding = True
        self.open().addErrback(lambda _: None)
        self.connection.gone()
        self.journal.release()
        self.clock.advance(0)
        self.assertTrue(self.spawner.spawned[0].ended)
        self.settled(["terminal.opened", "terminal.closed"])
        self.assertEqual(self.outbox.sent, [])

    def test_eight_of_a_session(self) -> None:
        for _ in range(8):
            self.opened()
        error = self.error(self.open())
        self.assertEqual((error.code, error.status), (Code.TOO_MANY_TERMINALS, 409))
        self.spawner.spawned[3].exit(0)
        self.opened()


class LifeTests(TerminalsCase):
    """What follows."""

    def test_the_end(self) -> None:
        terminal, process = self.opened(command="exit 3")
        process.exit(3)
        self.assertEqual(self.exits, [TerminalExited(terminal_id=terminal.id, exit_code=3, signal=None)])
        self.settled(["terminal.opened", "terminal.closed"])
        opened, closed = self.journal.log[ID][-2:]
        self.assertEqual((opened.data["command"], closed.data["exitCode"]), ("exit 3", 3))

    def test_its_methods(self) -> None:
        terminal, process = self.opened()
        self.successResultOf(self.call("terminals.resize", ResizeTerminal(terminal_id=terminal.id, cols=100, rows=30)))
        self.successResultOf(self.call("terminals.eof", OfTerminal(terminal_id=terminal.id)))
        self.assertEqual((process.sizes, process.input_ended), ([(100, 30)], True))
        process.on_hang_up = None
        self.successResultOf(self.call("terminals.close", OfTerminal(terminal_id=terminal.id)))
        self.assertTrue(process.hung_up)
        for method in ("terminals.eof", "terminals.close"):
            error = self.error(self.call(method, OfTerminal(terminal_id=terminal.id)))
            self.assertEqual((error.code, error.status), (Code.TERMINAL_NOT_FOUND, 404))
        process.exit(signal="SIGKILL")
        self.assertEqual(self.exits, [TerminalExited(terminal_id=terminal.id, exit_code=None, signal="SIGKILL")])

    def test_it_is_its_connections(self) -> None:
        terminal, _ = self.opened()
        other = Connection(id="cn_000000000001", caller=a_caller(), outbox=self.outbox)
        messages = {
            self.error(self.call("terminals.close", OfTerminal(terminal_id=name), None, other)).message
            for name in (terminal.id, "tm_000000000000", "")
        }
        self.assertEqual(len(messages), 1)

    def test_a_connection_that_ends_takes_its_terminals_with_it(self) -> None:
        _, process = self.opened()
        self.connection.gone()
        self.assertTrue(process.hung_up and process.discarding)
        self.settled(["terminal.opened", "terminal.closed"])
        self.assertEqual(self.exits, [])

    def test_what_was_sent_in_vain_is_said_once_at_the_end(self) -> None:
        self.opened()
        self.connection.channels.input(1, b"x" * (1 << 20))
        self.connection.channels.input(1, b"over")
        self.connection.channels.input(7, b"stray")
        with capturedLogs() as logged:
            self.connection.gone()
        (record,) = logged
        self.assertEqual((record["connection"], record["frames"], record["bytes"]), ("cn_000000000000", 1, 4))
        quiet = Connection(id="cn_000000000001", caller=a_caller(), outbox=self.outbox)
        with capturedLogs() as logged:
            quiet.gone()
        self.assertEqual(logged, [])

    def test_fields_that_were_left_out(self) -> None:
        self.assertIs(OpenTerminal(session_id=ID).command, UNSET)
        error = self.error(self.call("terminals.open", OpenTerminal(session_id=ID, cols=80)))
        self.assertEqual((error.code, error.field), (Code.INVALID_REQUEST, "rows"))


class SuspendTests(TerminalsCase):
    """A session that is suspended or archived while terminals are open, or about to be."""

    def suspend(self, **params: Any) -> Deferred[Answer]:
        """Asks for it."""
        return self.call("sessions.suspend", Suspend(session_id=ID, **params))

    def archive(self) -> Deferred[Answer]:
        """Asks for it."""
        return self.call("sessions.update", UpdateSession(session_id=ID, archived=True))

    def news(self) -> list[str]:
        """The types of what has happened since the session was made."""
        return self.types(ID)[2:]

    def test_the_ends_of_terminals_come_first(self) -> None:
        for ask, said in ((self.suspend, []), (self.archive, ["session.updated"])):
            self.journal.log[ID] = self.journal.log[ID][:2]
            self.journal.records[ID] = evolve(self.journal.records[ID], last_seq=2, status="idle", archived=False)
            self.restart()
            first, _ = self.opened()
            second, _ = self.opened(tty=False)
            self.successResultOf(ask())
            self.assertEqual(
                self.news(),
                [
                    *["terminal.opened"] * 2,
                    *["terminal.closed"] * 2,
                    *said,
                    "runtime.suspended",
                    "session.status_changed",
                ],
            )
            self.assertEqual(len(self.exits), 2)
            self.outbox.sent.clear()
            self.assertEqual([event.data["terminalId"] for event in self.journal.log[ID][4:6]], [first.id, second.id])
        self.assertEqual(self.spawner.sessions_ended, [ID, ID])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_terminal_of_another_connection_ends_too(self) -> None:
        other = Connection(id="cn_000000000001", caller=a_caller(), outbox=self.outbox)
        self.successResultOf(self.open(other))
        self.clock.advance(0)
        self.successResultOf(self.suspend())
        self.assertTrue(self.spawner.spawned[0].ended)
        self.assertEqual((len(other.channels), self.slots.taken(ID)), (0, 0))

    def test_none_is_opened_meanwhile(self) -> None:
        for ask in (self.suspend, self.archive):
            self.spawner.ending = []
            _, process = self.opened()
            work = ask()
            error = self.error(self.open())
            self.assertEqual((error.code, error.status), (Code.SESSION_BUSY, 409))
            self.assertTrue(error.body()["retryable"])
            self.assertNoResult(work)
            self.spawner.ending.pop().callback(None)
            self.successResultOf(work)
            self.assertTrue(process.ended)
            self.spawner.ending = None
        self.assertEqual(self.error(self.open()).code, Code.FEATURE_UNAVAILABLE)

    def test_two_suspensions_at_once(self) -> None:
        self.spawner.ending = []
        self.opened()
        works = [self.suspend(), self.suspend()]
        self.spawner.ending.pop(0).callback(None)
        self.successResultOf(works[0])
        # the second one is not over: nobody may open anything yet
        self.assertEqual(self.error(self.open()).code, Code.SESSION_BUSY)
        self.spawner.ending.pop(0).callback(None)
        self.successResultOf(works[1])
        self.assertEqual(self.news().count("runtime.suspended"), 1)
        self.opened()

    def test_one_that_is_being_opened_comes_to_nothing(self) -> None:
        self.spawner.slow = True
        opening = self.open()
        self.successResultOf(self.suspend())
        self.assertEqual(self.error(opening).code, Code.COMPUTER_UNAVAILABLE)
        self.assertEqual(self.news(), ["runtime.suspended", "session.status_changed"])
        self.settled([])

    def test_one_whose_event_is_being_written(self) -> None:
        self.journal.holding = True
        opening = self.open()
        self.assertEqual(self.slots.taken(ID), 1)
        suspending = self.suspend()
        self.assertNoResult(suspending)
        self.journal.release()
        self.successResultOf(opening)
        self.clock.advance(0)
        self.successResultOf(suspending)
        self.assertEqual(
            self.news(), ["terminal.opened", "terminal.closed", "runtime.suspended", "session.status_changed"]
        )
        self.settled(["terminal.opened", "terminal.closed"])

    def test_a_terminal_that_does_not_end_holds_nothing_up_for_long(self) -> None:
        """A client that reads nothing keeps back the end of its terminal; the process is gone all the same."""
        _, process = self.opened()
        process.on_hang_up = None
        work = self.suspend()
        self.clock.advance(0.9)
        self.assertNoResult(work)
        self.clock.advance(0.1)
        self.successResultOf(work)
        self.assertEqual(self.journal.records[ID].status, "suspended")
        process.exit(signal="SIGKILL")
        self.assertEqual(self.news()[-1], "terminal.closed")
        self.settled(["terminal.opened", "terminal.closed"])

    def test_if_idle(self) -> None:
        self.spawner.slow = True
        opening = self.open()
        self.assertEqual(self.error(self.suspend(if_idle=True)).code, Code.SESSION_BUSY)
        self.spawner.release()
        self.successResultOf(opening)
        self.clock.advance(0)
        self.assertEqual(self.error(self.suspend(if_idle=True)).code, Code.SESSION_BUSY)
        self.assertEqual(self.spawner.sessions_ended, [])
        self.spawner.spawned[0].exit(0)
        self.successResultOf(self.suspend(if_idle=True))

    def test_afterwards_one_can_be_opened(self) -> None:
        self.opened()
        self.successResultOf(self.suspend())
        self.opened()
        self.assertEqual(self.news()[-2:], ["session.status_changed", "terminal.opened"])
        self.assertEqual(self.journal.records[ID].status, "idle")

    def test_the_journal_does_not_take_the_suspension(self) -> None:
        self.opened()
        self.journal.refusing = ApiError(Code.UNAVAILABLE, "The disk is full.")
        work = self.suspend()
        self.assertEqual(self.error(work).code, Code.UNAVAILABLE)
        self.journal.heal()
        self.assertEqual(self.news(), ["terminal.opened", "terminal.closed"])
        self.opened()

    def test_other_sessions_go_on(self) -> None:
        other = self.create().session.id
        self.successResultOf(self.call("terminals.open", OpenTerminal(session_id=other, cols=80, rows=24)))
        self.clock.advance(0)
        self.opened()
        self.successResultOf(self.suspend())
        self.assertEqual([process.ended for process in self.spawner.spawned], [False, True])
        self.assertEqual(self.slots.taken(other), 1)

    def test_out_of_the_archive(self) -> None:
        self.successResultOf(self.archive())
        self.successResultOf(self.call("sessions.update", UpdateSession(session_id=ID, archived=False)))
        self.assertEqual(self.journal.records[ID].status, "suspended")
        self.successResultOf(self.call("sessions.resume", Resume(session_id=ID)))
        self.opened()
