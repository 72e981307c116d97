"""The small parts of following: where the reader is, when to acknowledge, how long to wait, what a line looks like."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.contract.events import EVENTS
from computerd.opc import acks, backoff, eventline, plain, requests
from computerd.opc.acks import Acks
from computerd.opc.address import CONNECT_SECONDS, parse
from computerd.opc.backoff import Backoff
from computerd.opc.bookmark import MAX_TRIES, AstrayError, Bookmark, Gap, Replaced
from computerd.opc.failure import Failure, milliseconds
from computerd.opc.link import closed
from computerd.opc.locate import Place
from computerd.opc.patient import TOTAL_SECONDS, Patient


class BookmarkTests(SynchronousTestCase):
    def test_in_order(self) -> None:
        mark = Bookmark(0)
        self.assertIsNone(mark.attached("A", 1))
        self.assertEqual([mark.take(seq) for seq in (1, 2, 3)], [None] * 3)
        self.assertEqual((mark.after, mark.epoch), (3, "A"))

    def test_what_is_not_next_is_not_printed(self) -> None:
        for seq in (0, 1, 5, 7, 10**15):
            mark = Bookmark(5)
            mark.attached("A", 1)
            self.assertRaises(AstrayError, mark.take, seq)
            self.assertEqual(mark.after, 5)
            self.assertIsNone(mark.take(6))
            self.assertRaises(AstrayError, mark.take, 8)

    def test_a_gap_that_the_start_accounts_for(self) -> None:
        mark = Bookmark(5)
        mark.attached("A", 9)
        self.assertEqual(mark.take(9), Gap(6, 8))
        # what is left of an older epoch lies before the start
        mark = Bookmark(0)
        mark.attached("A", 9)
        self.assertEqual(mark.take(4), Gap(1, 3))
        self.assertIsNone(mark.take(5))

    def test_a_hole_is_believed_in_the_end(self) -> None:
        mark = Bookmark(5)
        for _ in range(MAX_TRIES - 1):
            mark.attached("A", 1)
            self.assertRaises(AstrayError, mark.take, 8)
        mark.attached("A", 1)
        self.assertEqual(mark.take(8), Gap(6, 7))

    def test_different_holes_are_not(self) -> None:
        mark = Bookmark(5)
        for seq in range(8, 8 + 3 * MAX_TRIES):
            mark.attached("A", 1)
            self.assertRaises(AstrayError, mark.take, seq)

    def test_another_epoch(self) -> None:
        mark = Bookmark(10, "A")
        self.assertEqual(mark.attached("B", 7), Replaced("A", "B", 10, 7))
        self.assertEqual((mark.after, mark.epoch), (6, "B"))
        mark = Bookmark(4, "A")
        self.assertEqual(mark.attached("B", 7), Replaced("A", "B", 4, 5))
        self.assertEqual(mark.after, 4)

    def test_a_history_that_was_cut_without_another_epoch(self) -> None:
        mark = Bookmark(10, "A")
        replaced = mark.renewed("A", 1, 8)
        self.assertEqual(replaced, Replaced("A", "A", 10, 9))
        self.assertIn("was cut back, in its epoch A. Events 9 to 10 are not", replaced.words() if replaced else "")
        self.assertEqual(mark.after, 8)

    @given(st.data())
    def test_nothing_is_printed_twice_or_left_out(self, data: st.DataObject) -> None:
        """Whatever a server tells, in whatever attachments: the numbers rise, and what is missing was said."""
        mark, printed, gaps = Bookmark(0), [0], set()
        for _ in range(data.draw(st.integers(1, 6))):
            mark.attached("A", data.draw(st.integers(1, 12)))
            for seq in data.draw(st.lists(st.integers(0, 12), max_size=12)):
                try:
                    gap = mark.take(seq)
                except AstrayError:
                    break
                printed.append(seq)
                gaps |= set(range(gap.first, gap.last + 1)) if gap else set()
        self.assertEqual(sorted({*printed, *gaps}), list(range(printed[-1] + 1)))
        self.assertEqual(printed, sorted(set(printed)))
        self.assertEqual(gaps & set(printed), set())


class AcksTests(SynchronousTestCase):
    def test_they_stay_within_the_daemons_limits(self) -> None:
        self.assertLess(acks.EVERY * 10, limits.MAX_BACKLOG_EVENTS)
        # and one more of the largest messages
        self.assertLess(acks.BYTES + limits.MAX_MESSAGE_BYTES, limits.MAX_BACKLOG_BYTES)

    def test_by_count_by_size_and_by_time(self) -> None:
        pending = Acks()
        self.assertFalse(pending.due(99.0))
        self.assertIsNone(pending.wait(99.0))
        for _ in range(acks.EVERY):
            self.assertFalse(pending.due(100.0))
            pending.taken(1, 100.0)
        self.assertTrue(pending.due(100.0))
        self.assertFalse(pending.due(200.0))
        pending.taken(acks.BYTES, 200.0)
        self.assertTrue(pending.due(200.0))
        pending.taken(1, 300.0)
        pending.taken(1, 300.9)
        self.assertAlmostEqual(pending.wait(300.9) or 0.0, 0.1)
        self.assertFalse(pending.due(300.9))
        self.assertTrue(pending.due(301.0))

    def test_a_flood_does_not_make_too_many(self) -> None:
        """Each is one of the connection's messages, of which it may send 100 a second."""
        pending, count = Acks(), 0
        for step in range(20_000):
            pending.taken(200, step / 20_000)
            wait = pending.wait(step / 20_000)
            assert wait is not None
            count += pending.due(step / 20_000)
        self.assertLessEqual(count, limits.MAX_REQUESTS_PER_SECOND // 4)
        self.assertGreater(count, 15)


class BackoffTests(SynchronousTestCase):
    def test_it_grows_up_to_a_limit(self) -> None:
        most, least = Backoff(lambda: 1.0), Backoff(lambda: 0.0)
        waits = [most.seconds() for _ in range(8)]
        self.assertEqual(waits, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
        self.assertEqual([least.seconds() for _ in range(8)], [wait / 2 for wait in waits])
        most.reset()
        self.assertEqual(most.seconds(), 0.1)

    def test_what_the_daemon_asks_for_comes_on_top(self) -> None:
        self.assertEqual(Backoff(lambda: 1.0).seconds(2000), 2.1)
        self.assertEqual(closed(4503, '{"retryAfterMs":2000}').retry_after_ms, 2000)
        for reason in ("", "soon", "[1]", '{"retryAfterMs":"2"}', '{"retryAfterMs":null}', "{}"):
            self.assertIsNone(closed(4503, reason).retry_after_ms)
        self.assertEqual([milliseconds(value) for value in (10**9, -5, True, 1.5, 7)], [60_000, 0, None, None, 7])

    def test_chance(self) -> None:
        told = {backoff.chance() for _ in range(100)}
        self.assertGreater(len(told), 90)
        self.assertTrue(all(0 <= one < 1 for one in told))


class PatientTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.now = 0.0
        self.found = 0
        self.asked: list[float] = []

    def ask(
        self, *answers: str | dict[str, Any], cost: float = 0.0, body: dict[str, object] | None = None
    ) -> dict[str, Any]:
        """Asks a daemon that answers so: failures by their code. The last one counts for ever."""
        waiting = list(answers)

        def answer(*_: object) -> dict[str, Any]:
            self.asked.append(self.now)
            self.now += cost
            told = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            if isinstance(told, str):
                raise Failure(told, "No.", None, 500 if told == "rate_limited" else None)
            return told

        self.patch(requests, "ask", answer)
        return Patient(self.find, self.sleep, lambda: self.now, lambda: 1.0).ask("PATCH", "/x", body=body)

    def find(self) -> Place:
        self.found += 1
        return Place(parse("ws://h"), None, "")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def test_what_passes_is_waited_out(self) -> None:
        self.assertEqual(
            self.ask("link_lost", "unreachable", "unavailable", "computer_unavailable", "rate_limited", {"x": 1}),
            {"x": 1},
        )
        self.assertEqual((self.found, len(self.asked)), (6, 6))
        self.assertAlmostEqual(self.asked[-1], 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 0.5)

    def test_what_does_not_is_not(self) -> None:
        for code in (
            "unreachable",
            "unauthenticated",
            "session_not_found",
            "idempotency_conflict",
            "internal",
            "invalid_answer",
        ):
            self.asked.clear()
            self.assertEqual(self.assertRaises(Failure, self.ask, code).code, code)
            self.assertEqual(len(self.asked), 1)

    def test_not_for_ever(self) -> None:
        for cost in (0.0, 10.0):
            self.now = 0.0
            failure = self.assertRaises(Failure, self.ask, "link_lost", "unreachable", cost=cost)
            self.assertEqual(failure.message, "No.")
            self.assertLessEqual(self.now, TOTAL_SECONDS + cost)
            self.assertGreater(self.now, TOTAL_SECONDS - CONNECT_SECONDS)

    def test_what_may_have_been_done_is_told(self) -> None:
        failure = self.assertRaises(Failure, self.ask, "link_lost", "unreachable", body={})
        self.assertIn("It may have been done nevertheless", failure.message)
        failure = self.assertRaises(Failure, self.ask, "unavailable", body={})
        self.assertEqual(failure.message, "No.")

    def test_a_proxy_without_a_daemon(self) -> None:
        place = Place(parse("ws://h"), None, "")
        for status, passing in ((502, True), (503, True), (504, True), (500, False), (404, False), (200, False)):
            failure = self.assertRaises(Failure, requests.answer, place, status, b"<html>")
            self.assertEqual(failure.passing, passing, status)


def example(kind: str) -> dict[str, Any]:
    """Data of an event, with every field that the contract gives it."""
    told: dict[str, Any] = {}
    for field in msgspec.structs.fields(EVENTS[kind]):
        told[field.encode_name] = _value(msgspec.inspect.type_info(field.type))
    return told


def _value(kind: Any) -> Any:
    inspect = msgspec.inspect
    makers: dict[type, Callable[[Any], Any]] = {
        inspect.StrType: lambda _: "word\x1b",
        inspect.IntType: lambda _: 1234,
        inspect.FloatType: lambda _: 0.5,
        inspect.BoolType: lambda _: True,
        inspect.NoneType: lambda _: None,
        inspect.AnyType: lambda _: ["any"],
        inspect.LiteralType: lambda kind: kind.values[0],
        inspect.UnionType: lambda kind: _value(kind.types[0]),
        inspect.ListType: lambda kind: [_value(kind.item_type)],
        inspect.DictType: lambda kind: {"key": _value(kind.value_type)},
        inspect.Metadata: lambda kind: _value(kind.type),
        inspect.StructType: lambda kind: {field.encode_name: _value(field.type) for field in kind.fields},
    }
    return makers[type(kind)](kind)


class LineTests(SynchronousTestCase):
    def line(self, kind: str, data: Any, **more: Any) -> str:
        return eventline.line(
            {"seq": 7, "createdAt": "2026-11-13T09:30:00.000Z", "actor": None, "type": kind, "data": data} | more
        )

    def test_every_type_of_the_contract_has_words(self) -> None:
        """A renamed field would fall back to all of the data."""
        for kind in EVENTS:
            data = example(kind)
            self.assertNotEqual(eventline.details(kind, data), plain.json_line(data), kind)
            line = self.line(kind, data)
            self.assertIn(kind, line)
            self.assertTrue(line.isprintable(), line)

    def test_what_the_contract_says_may_be_null(self) -> None:
        for kind in EVENTS:
            data = example(kind)
            for field in msgspec.structs.fields(EVENTS[kind]):
                info = msgspec.inspect.type_info(field.type)
                if isinstance(info, msgspec.inspect.UnionType) and info.includes_none:
                    data[field.encode_name] = None
            self.assertNotEqual(eventline.details(kind, data), plain.json_line(data), kind)
            self.assertNotIn("None", self.line(kind, data), kind)

    def test_details(self) -> None:
        for kind, data, said in (
            ("session.status_changed", {"from": None, "to": "starting"}, "none → starting"),
            ("session.updated", {"changes": {"title": {"from": None, "to": "a b"}, "archived": {"from": False, "to": True}}},
             "title: none → a b, archived: false → true"),
            ("session.updated", {"changes": {"metadata": {"from": {}, "to": {"a": "1"}}}}, 'metadata: {} → {"a":"1"}'),
            ("terminal.opened", {"terminalId": "tm_1", "command": None}, "tm_1 login shell"),
            ("terminal.opened", {"terminalId": "tm_1", "command": "ls"}, "tm_1 ls"),
            ("terminal.closed", {"terminalId": "tm_1", "exitCode": 0}, "tm_1 exit 0"),
            ("terminal.closed", {"terminalId": "tm_1", "exitCode": None}, "tm_1 ended by a signal or with the daemon"),
            ("runtime.suspended", {"reason": "idle"}, "idle"),
        ):  # fmt: skip
            self.assertEqual(eventline.details(kind, data), said)

    def test_what_is_not_understood_is_shown(self) -> None:
        strange: list[Any] = [None, [], {}, {"from": 1}, "x", {"terminalId": 1}]
        for data in strange:
            self.assertEqual(eventline.details("terminal.closed", data), json.dumps(data, separators=(",", ":")))
        self.assertIn("??:??:??", self.line("x", {}, createdAt="yesterday"))
        self.assertTrue(eventline.line({}).isprintable())

    def test_lines_are_not_endless(self) -> None:
        line = self.line("terminal.opened", {"terminalId": "tm_1", "command": "x" * 10_000})
        self.assertLess(len(line), 300)
        self.assertTrue(line.endswith("…"))
        line = eventline.line({"type": "t" * 10_000, "actor": {"name": "a" * 10_000}, "data": "d" * 10_000})
        self.assertLess(len(line), 400)

    @given(
        st.text(),
        st.recursive(st.none() | st.integers() | st.text(), lambda of: st.lists(of) | st.dictionaries(st.text(), of)),
    )
    def test_nothing_steers_the_terminal(self, text: str, data: Any) -> None:
        event = {"seq": 1, "createdAt": text, "actor": {"name": text}, "type": text, "data": data}
        self.assertTrue(eventline.line(event).isprintable())
        self.assertTrue(self.line("terminal.opened", {"terminalId": text, "command": text}).isprintable())
        self.assertTrue(plain.json_line(event).isprintable())
        self.assertEqual(json.loads(plain.json_line(event)), event)

    def test_surrogates(self) -> None:
        line = plain.json_line({"x": "\ud800\x7f\U000e0001"})
        self.assertEqual(
            (line, json.loads(line)), ('{"x":"\\ud800\\u007f\\udb40\\udc01"}', {"x": "\ud800\x7f\U000e0001"})
        )
        self.assertEqual(plain.visible("\ud800\x9b\U000e0001"), "\\ud800\\x9b\\U000e0001")
