"""From plain data to params: J4 and J7 of the threat model, and fields that are named as the caller spells them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits, methods, params
from computerd.contract.decoding import decode, decode_body, decode_query
from computerd.contract.errors import ApiError, Code
from computerd.contract.objects import QuestionAnswer
from computerd.wire import strictjson
from tests.contract import values

OPEN: dict[str, Any] = {"sessionId": "cs_0123456789abcdef", "cols": 80, "rows": 24}
CLIENT = {"name": "opc", "version": "1"}


class Case(SynchronousTestCase):
    def refused(self, field: str | None, struct: type[Struct], value: object, *words: str) -> None:
        error = self.assertRaises(ApiError, decode, struct, value)
        self.named(error, field, *words)

    def named(self, error: ApiError, field: str | None, *words: str) -> None:
        self.assertIs(error.code, Code.INVALID_REQUEST)
        self.assertEqual(error.status, 400)
        self.assertEqual(error.field, field)
        for word in words:
            self.assertIn(word, error.message)


class Decode(Case):
    def test_j4_integers_are_integers(self) -> None:
        """J4."""
        for text in (
            "true",
            "1.0",
            '"1"',
            "9007199254740992",
            "18446744073709551616",
            "-0",
            "1" * 4301,
            "-" + "1" * 5000,
            "null",
        ):
            value = strictjson.loads(f'{{"sessionId":"cs_1","cols":{text},"rows":24}}')
            self.refused("cols", params.OpenTerminal, value, "an integer from 1 to 1000")
            self.refused("after", params.ListEvents, strictjson.loads(f'{{"sessionId":"x","after":{text}}}'), "integer")

    def test_limits_hold_at_their_edges(self) -> None:
        for cols in (1, 1000):
            self.assertEqual(decode(params.OpenTerminal, {**OPEN, "cols": cols}).cols, cols)
        for cols in (0, -1, 1001):
            self.refused("cols", params.OpenTerminal, {**OPEN, "cols": cols}, "1 to 1000")

    def test_j7_unknown_fields_of_every_method(self) -> None:
        """J7."""
        for method in methods.METHODS:
            for name in ("extra", "__proto__", "__class__", "session_id", "SessionId", ""):
                self.refused(name, method.params, {name: 1}, "no such field")

    def test_an_unknown_field_that_looks_like_a_place(self) -> None:
        name = "x` - at `$.cols"
        self.refused(name, params.OpenTerminal, {**OPEN, name: 1})
        self.refused(f"client.{name}", params.Telemetry, {"v": 1, "client": {**CLIENT, name: 1}, "events": [{}]})
        self.refused(
            "client.name", params.Telemetry, {"v": 1, "client": {**CLIENT, "name": "' - at `$.v`"}, "events": [{}]}
        )

    def test_a_long_unknown_field_is_cut(self) -> None:
        self.refused("x" * limits.MAX_FIELD_NAME, params.OpenTerminal, {**OPEN, "x" * 100_000: 1})

    def test_a_missing_field(self) -> None:
        self.refused("sessionId", params.OpenTerminal, {"cols": 1}, "required")
        self.refused(
            "client.version", params.Telemetry, {"v": 1, "client": {"name": "opc"}, "events": [{}]}, "required"
        )

    def test_places_inside(self) -> None:
        self.refused("types[3]", params.ListEvents, {"sessionId": "x", "types": ["a", "b", "c", 4]}, "a string")
        self.refused(
            "client.name", params.Telemetry, {"v": 1, "client": {**CLIENT, "name": "x"}, "events": [{}]}, '"opc"'
        )
        self.refused("events[0]", params.Telemetry, {"v": 1, "client": CLIENT, "events": [1]}, "an object")
        self.refused("metadata", params.CreateSessionBody, {"metadata": {"a": 1}}, "50 pairs", "512")
        self.refused("metadata", params.CreateSessionBody, {"metadata": {"": "a"}}, "50 pairs", "512")
        self.refused(
            "answers[0].choices[1]",
            QuestionAnswer,
            {"answers": [{"questionId": "q", "choices": ["a", 1], "text": None}]},
        )

    def test_what_is_no_object(self) -> None:
        odd: list[object] = [None, [], 3, "x", True]
        for value in odd:
            self.refused("params", params.OpenTerminal, value, "an object")

    def test_null_is_not_absent(self) -> None:
        self.refused("title", params.CreateSessionBody, {"title": None})

    def test_d8_term(self) -> None:
        """D8."""
        for term in ("../../x", "a\nb", "a\n", "a\x00", "a=b", "x" * 65, "", " ", "é"):
            self.refused("term", params.OpenTerminal, {**OPEN, "term": term}, "1 to 64")
        for term in ("xterm-256color", "x" * 64, "a.b_c+d"):
            self.assertEqual(decode(params.OpenTerminal, {**OPEN, "term": term}).term, term)

    def test_d9_command(self) -> None:
        """D9."""
        for command in ("", "a\x00b", "\ud800", "x\udfff", "x" * 10_001):
            self.refused("command", params.OpenTerminal, {**OPEN, "command": command}, "1 to 10000 characters")
        for command in ("\U0001f600" * 10_000, "-x", "a\nb\n", "\x1b[0m", "\u2028"):
            self.assertEqual(decode(params.OpenTerminal, {**OPEN, "command": command}).command, command)

    def test_an_id_of_the_callers_ends_where_it_ends(self) -> None:
        self.refused("id", params.CreateSessionBody, {"id": "cs_0123456789abcdef\n"}, "cs_ and 16 letters or digits")

    @given(
        st.sampled_from([method.params for method in methods.METHODS]).flatmap(
            lambda struct: st.tuples(st.just(struct), values.of(struct))
        )
    )
    def test_any_value_is_taken_or_refused_with_a_field(self, drawn: tuple[type[Struct], object]) -> None:
        try:
            decode(*drawn)
        except ApiError as error:
            self.named(error, error.field)
            self.assertIsNotNone(error.field)


class Query(Case):
    def query(self, *pairs: tuple[str, str]) -> params.ListEvents:
        return decode_query(params.ListEvents, pairs, {"sessionId": "cs_1"})

    def refuses(self, field: str, *pairs: tuple[str, str]) -> None:
        self.named(self.assertRaises(ApiError, self.query, *pairs), field)

    def test_integers_lists_and_the_path(self) -> None:
        found = self.query(("after", "0"), ("limit", "500"), ("types", "a,b"), ("types", "c"))
        self.assertEqual(found, params.ListEvents("cs_1", after=0, limit=500, types=["a", "b", "c"]))

    def test_what_is_no_integer(self) -> None:
        for text in ("+3", " 3", "3 ", "٣", "3.0", "0x3", "1_0", "03", "", "-0", "9" * 5000, "true", "1e2", "501", "0"):
            self.refuses("limit", ("limit", text))

    def test_booleans(self) -> None:
        self.assertIs(decode_query(params.ListSessions, [("archived", "true")], {}).archived, True)
        self.assertIs(decode_query(params.ListSessions, [("archived", "false")], {}).archived, False)
        for text in ("1", "True", "yes", ""):
            self.named(
                self.assertRaises(ApiError, decode_query, params.ListSessions, [("archived", text)], {}), "archived"
            )

    def test_twice_unknown_and_taken(self) -> None:
        self.refuses("limit", ("limit", "1"), ("limit", "1"))
        self.refuses("Limit", ("Limit", "1"))
        self.refuses("sessionId", ("sessionId", "cs_2"))

    def test_places_in_lists(self) -> None:
        self.refuses("types[0]", ("types", ""))
        self.refuses("types[1]", ("types", "a"), ("types", ",b"))
        self.refuses("types", ("types", ",".join(["a"] * 101)))

    def test_text_stays_as_it_is(self) -> None:
        self.assertEqual(self.query(("turnId", "true,+3 ")).turn_id, "true,+3 ")

    @given(st.lists(st.tuples(st.sampled_from(["limit", "types", "after", "x", "sessionId"]), st.text(max_size=5))))
    def test_any_query_is_taken_or_refused_with_a_field(self, pairs: list[tuple[str, str]]) -> None:
        try:
            self.query(*pairs)
        except ApiError as error:
            self.named(error, error.field)
            self.assertIsNotNone(error.field)


class Body(Case):
    def test_path_and_body_become_the_params(self) -> None:
        found = decode_body(params.SendTurn, {"input": "hi"}, {"sessionId": "cs_1"}, None)
        self.assertEqual(found, params.SendTurn("cs_1", "hi"))

    def test_the_path_wins_by_refusing_the_other(self) -> None:
        error = self.assertRaises(
            ApiError, decode_body, params.SendTurn, {"input": "a", "sessionId": "b"}, {"sessionId": "a"}, None
        )
        self.named(error, "sessionId", "Allowed: input, idempotencyKey, ifBusy")

    def test_no_object(self) -> None:
        odd: list[object] = [None, [], 1, "x"]
        for value in odd:
            self.named(self.assertRaises(ApiError, decode_body, params.SendTurn, value, {}, None), "body")

    def test_a_body_that_is_one_field(self) -> None:
        path = {"sessionId": "cs_1", "askId": "ak_1"}
        found = decode_body(params.AnswerAsk, {"sessionId": 1}, path, "answer")
        self.assertEqual(found.answer, {"sessionId": 1})
        self.named(self.assertRaises(ApiError, decode_body, params.AnswerAsk, [1], path, "answer"), "answer")
