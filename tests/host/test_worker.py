"""A worker's life and its requests, in memory."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred

from computerd.contract.errors import ApiError, Code
from computerd.host.worker_life import IDLE_SECONDS, LEAVE_SECONDS, MAX_QUEUED, MAX_RUNNING
from computerd.host.workers import MAX_OWNERS, MAX_WORKERS
from tests.host.worker_bench import ACCOUNT, PAGE, PLACE, BenchCase


class RequestTests(BenchCase):
    def test_the_program_comes_first(self) -> None:
        self.list_it("b")
        (first, second) = self.end.heard()
        self.assertEqual((0, b"B", b"the program"), first)
        self.assertEqual((1, b"C"), second[:2])
        self.assertEqual({"verb": "list", "path": "b", "depth": 1, "limit": 100, "cursor": None}, second[2])

    def test_an_answer(self) -> None:
        asked = self.list_it()
        self.called()
        self.end.say(1, b"R", PAGE)
        (entry,) = self.successResultOf(asked).entries
        self.assertEqual(("a", "file", 1, 0o644, 1e9), (entry.name, entry.type, entry.size, entry.mode, entry.modified))

    def test_a_refusal(self) -> None:
        asked = self.list_it()
        self.end.say(1, b"F", {"code": "path_not_found", "message": "no \x1b[2J there", "field": "path"})
        error = self.refused(asked)
        self.assertEqual((Code.PATH_NOT_FOUND, "no \ufffd[2J there", "path"), (error.code, error.message, error.field))
        self.assertEqual(0, self.end.killed)

    def test_answers_in_any_order(self) -> None:
        asked = [self.list_it() for _ in range(3)]
        for number in (3, 1, 2):
            self.end.say(number, b"R", PAGE)
            self.successResultOf(asked[number - 1])

    def test_twelve_at_a_time_and_sixty_four_that_wait(self) -> None:
        asked = [self.list_it() for _ in range(MAX_RUNNING + MAX_QUEUED)]
        self.assertEqual(MAX_RUNNING, len(self.called()))
        self.assertEqual(Code.RATE_LIMITED, self.refused(self.list_it()).code)
        for number in range(1, len(asked) + 1):
            self.end.say(number, b"R", PAGE)
            self.successResultOf(asked[number - 1])
            self.assertEqual(int(number <= MAX_QUEUED), len(self.called()))

    def test_who_waits_too_long_is_told_so(self) -> None:
        for _ in range(MAX_RUNNING):
            self.opened()
        waiting = self.list_it()
        self.bench.advance(14.9)
        self.assertNoResult(waiting)
        self.bench.advance(0.2)
        self.assertEqual(Code.RATE_LIMITED, self.refused(waiting).code)
        self.assertEqual(0, self.end.killed)

    def test_paths_that_cant_be_asked_for(self) -> None:
        for path in ("\ud800", "a" * 13_000):
            self.assertEqual(Code.INVALID_PATH, self.refused(self.list_it(path)).code)
        for cursor in ("\ud800", "c" * 50_000):
            asked = self.files.list(PLACE, "", depth=1, limit=100, cursor=cursor)
            self.assertEqual(Code.INVALID_CURSOR, self.refused(asked).code)
        self.assertEqual([], self.employer.ends)


class CancelTests(BenchCase):
    def test_the_worker_is_told_and_the_number_stays_taken(self) -> None:
        asked = self.list_it()
        self.called()
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        self.assertEqual([(1, b"X", b"")], self.end.heard())
        again = self.list_it()
        self.assertEqual([(2, "list")], self.called())
        self.end.say(1, b"R", PAGE)  # on its way already
        self.assertNoResult(again)
        self.end.say(2, b"R", PAGE)
        self.successResultOf(again)
        self.assertEqual(0, self.end.killed)

    def test_cancelled_ones_count_until_the_worker_has_ended_them(self) -> None:
        for _ in range(MAX_RUNNING):
            self.failureResultOf(self._cancelled(), CancelledError)
        waiting = self.list_it()
        self.end.heard()
        self.assertNoResult(waiting)
        self.end.say(1, b"F", {"code": "unavailable", "message": "stopped"})
        self.assertEqual([(MAX_RUNNING + 1, "list")], self.called())
        self.end.say(MAX_RUNNING + 1, b"R", PAGE)
        self.successResultOf(waiting)

    def _cancelled(self) -> Deferred[object]:
        asked = self.list_it()
        asked.cancel()
        return asked

    def test_before_its_turn_it_is_never_sent(self) -> None:
        running = [self.list_it() for _ in range(MAX_RUNNING)]
        waiting = self.list_it()
        self.called()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.end.say(1, b"R", PAGE)
        self.assertEqual([], self.end.heard())
        self.successResultOf(running.pop(0))

    def test_while_the_worker_starts(self) -> None:
        self.employer.held = []
        asked = self.list_it()
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        self.employer.held.pop().callback(None)
        self.assertEqual([(0, b"B", b"the program")], self.end.heard())

    def test_a_worker_that_never_ends_it_is_killed_when_nothing_else_runs(self) -> None:
        """I14: what hangs holds up nobody else."""
        asked = self.list_it()
        other, _ = self.opened()
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        self.bench.advance(10)
        self.assertEqual(0, self.end.killed)
        self.end.say(other, b"F", {"code": "unavailable", "message": "stopped"})
        self.assertEqual(1, self.end.killed)


class DeadlineTests(BenchCase):
    def test_a_worker_without_a_sign_of_life_is_killed(self) -> None:
        """I10."""
        asked = [self.list_it() for _ in range(3)]
        self.bench.advance(9.9)
        self.assertNoResult(asked[0])
        self.bench.advance(0.2)
        for one in asked:
            self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(one).code)
        self.assertEqual(1, self.end.killed)
        self.list_it()
        self.assertEqual(2, len(self.employer.ends))

    def test_one_request_that_hangs_fails_alone(self) -> None:
        """I14."""
        hanging = self.list_it("on a dead disk")
        self.bench.advance(5)
        other = self.list_it()
        self.end.say(2, b"R", PAGE)
        self.successResultOf(other)
        self.opened()
        self.bench.advance(6)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(hanging).code)
        self.assertEqual([(1, b"X", b"")], self.end.heard())
        self.assertEqual(0, self.end.killed)
        self.bench.advance(11)
        self.assertEqual(0, self.end.killed, "the other still runs")

    def test_a_start_that_never_ends(self) -> None:
        self.employer.held = []
        asked = self.list_it()
        self.bench.advance(15)
        self.assertEqual(Code.RATE_LIMITED, self.refused(asked).code)

    def test_a_start_that_fails(self) -> None:
        self.employer.error = ApiError(Code.COMPUTER_NOT_SET_UP, "no such user")
        for _ in range(10):
            self.assertEqual(Code.COMPUTER_NOT_SET_UP, self.refused(self.list_it()).code)
        self.assertEqual({}, self.workers._current)


class LifeTests(BenchCase):
    """F13."""

    def test_it_ends_after_a_minute_without_a_request(self) -> None:
        asked = self.list_it()
        self.end.say(1, b"R", PAGE)
        self.successResultOf(asked)
        self.bench.advance(IDLE_SECONDS - 0.1)
        self.end.heard()
        self.assertFalse(self.end.closed)
        self.bench.advance(0.2)
        self.end.heard()
        self.assertTrue(self.end.closed)
        self.assertEqual(0, self.end.killed)
        self.end.exit()
        self.assertEqual({}, self.workers._current)

    def test_a_request_begins_the_minute_anew(self) -> None:
        for number in (1, 2, 3):
            asked = self.list_it()
            self.end.say(number, b"R", PAGE)
            self.successResultOf(asked)
            self.bench.advance(IDLE_SECONDS - 1)
        self.assertEqual(1, len(self.employer.ends))

    def test_nobody_is_idle_while_a_request_runs(self) -> None:
        self.list_it()
        self.end.say(1, b"R", PAGE)
        self.bench.advance(IDLE_SECONDS - 1)
        asked = self.list_it()
        self.bench.advance(5)
        self.end.say(2, b"R", PAGE)
        self.successResultOf(asked)

    def test_one_that_doesnt_go_is_killed(self) -> None:
        asked = self.list_it()
        self.end.hired.hang_up()
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(asked).code)
        self.bench.advance(LEAVE_SECONDS - 0.1)
        self.assertEqual(0, self.end.killed)
        self.bench.advance(0.2)
        self.assertEqual(1, self.end.killed)

    def test_one_that_dies_fails_what_runs_and_what_waits(self) -> None:
        asked = [self.list_it() for _ in range(MAX_RUNNING + 2)]
        self.end.exit()
        for one in asked:
            self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(one).code)
        again = self.list_it()
        self.end.say(1, b"R", PAGE)
        self.successResultOf(again)

    def test_after_five_deaths_in_a_minute_there_is_a_pause(self) -> None:
        for _ in range(5):
            asked = self.list_it()
            self.end.exit()
            self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(asked).code)
            self.bench.advance(1)
        for _ in range(3):
            error = self.refused(self.list_it())
            self.assertEqual((Code.COMPUTER_UNAVAILABLE, 9000), (error.code, error.retry_after_ms))
        self.assertEqual(5, len(self.employer.ends))
        elsewhere = self.files.list(evolve(PLACE, session_id="cs_9999999999999999"), "", depth=1, limit=1, cursor=None)
        self.assertNoResult(elsewhere)
        self.bench.advance(9.1)
        self.list_it()
        self.assertEqual(7, len(self.employer.ends))

    def test_deaths_now_and_then_are_no_reason(self) -> None:
        for _ in range(20):
            asked = self.list_it()
            self.end.exit()
            self.refused(asked)
            self.bench.advance(16)
        self.assertEqual(20, len(self.employer.ends))

    def test_each_session_has_its_own(self) -> None:
        self.list_it()
        other = evolve(PLACE, session_id="cs_9999999999999999")
        self.files.list(other, "", depth=1, limit=1, cursor=None)
        self.assertEqual([PLACE.session_id, other.session_id], [start.session_id for start in self.employer.starts])

    def ask(self, session: int, owner: str = PLACE.owner) -> Deferred[Any]:
        """A listing of a session of that number."""
        place = evolve(PLACE, session_id=f"cs_{session:016}", owner=owner)
        return self.files.list(place, "", depth=1, limit=1, cursor=None)

    def test_no_more_than_there_may_be(self) -> None:
        """F13: sixteen of a member's, and sixty-four in all. The one that has been idle longest makes room; if all are at work, nobody does."""
        asked = [self.ask(number) for number in range(MAX_OWNERS)]
        self.assertEqual(Code.RATE_LIMITED, self.refused(self.ask(99)).code)
        for number in (3, 5):
            self.employer.ends[number].say(1, b"R", PAGE)
            self.successResultOf(asked[number])
            self.bench.advance(1)
        self.assertNoResult(self.ask(100))
        self.employer.ends[3].heard()
        self.assertEqual([True, False], [self.employer.ends[number].closed for number in (3, 5)])
        for number in range(200, 200 + MAX_WORKERS - MAX_OWNERS):
            self.assertNoResult(self.ask(number, owner=f"m{number}"))
        self.assertNoResult(self.ask(300, owner="other"))
        self.employer.ends[5].heard()
        self.assertTrue(self.employer.ends[5].closed)
        self.assertEqual(Code.RATE_LIMITED, self.refused(self.ask(301, owner="another")).code)

    def test_another_user_gets_another(self) -> None:
        asked = self.list_it()
        self.employer.who = evolve(ACCOUNT, uid=1001)
        again = self.list_it()
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(asked).code)
        self.end.say(1, b"R", PAGE)
        self.successResultOf(again)
        self.assertEqual(2, len(self.employer.ends))
