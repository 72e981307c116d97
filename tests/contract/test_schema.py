"""The published schema is valid JSON Schema, and accepts what the daemon accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]
from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import events, methods, objects, params, results, rules, schema
from computerd.contract.decoding import decode
from computerd.contract.errors import ApiError, Code
from tests.contract import values

DOCUMENT = schema.build()


def pattern(_: Any, expression: str, instance: object, __: Any) -> Iterator[ValidationError]:
    """ECMA 262's `$` is the end only; Python's, which jsonschema uses, is also before a line feed there."""
    if isinstance(instance, str) and not re.search(re.sub(r"\$\Z", r"\\Z", expression), instance):
        yield ValidationError(f"{instance!r} does not match {expression}")


# 1.0 is an integer for JSON Schema, and none for the API: the values below leave it out.
Validator: Any = extend(Draft202012Validator, {"pattern": pattern})


@cache
def validator(name: str) -> Any:
    return Validator({"$ref": f"#/$defs/{name}", "$defs": DOCUMENT["$defs"]})


def refusal(struct: type[Struct], value: object) -> ApiError | None:
    try:
        decoded = decode(struct, value)
        if isinstance(decoded, params.OpenTerminal):
            rules.check_open(decoded)
        if isinstance(decoded, params.Attach):
            rules.check_attach(decoded)
    except ApiError as error:
        return error
    return None


class Document(SynchronousTestCase):
    def test_is_a_valid_schema(self) -> None:
        Draft202012Validator.check_schema(DOCUMENT)

    def test_every_reference_leads_somewhere(self) -> None:
        references = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(DOCUMENT)))
        self.assertEqual(references - set(DOCUMENT["$defs"]), set())

    def test_no_two_structs_share_a_name(self) -> None:
        # msgspec qualifies names that clash with their modules
        plain = [name for name in DOCUMENT["$defs"] if not name.startswith(("Event.", "Delta."))]
        self.assertEqual([name for name in plain if "." in name], [])

    def test_patterns_are_for_any_language(self) -> None:
        found = re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', json.dumps(DOCUMENT))
        self.assertGreater(len(found), 10)
        self.assertEqual(
            [expression for expression in found if not expression.endswith("$") or "\\Z" in expression], []
        )

    def test_an_event_of_any_type_is_valid_as_exactly_one(self) -> None:
        event = {
            "id": "ev_0123456789abcdef",
            "seq": 1,
            "createdAt": "2026-11-13T09:30:00.000Z",
            "sessionId": "cs_0123456789abcdef",
            "turnId": None,
            "actor": None,
            "type": "terminal.closed",
            "data": {"terminalId": "tm_0123456789ab", "exitCode": 0},
        }
        check = validator("Event")
        self.assertTrue(check.is_valid(event))
        self.assertTrue(check.is_valid({**event, "type": "what.comes.later", "data": {"a": 1}}))
        self.assertFalse(check.is_valid({**event, "data": {"terminalId": "tm_0123456789ab"}}))
        self.assertFalse(check.is_valid({**event, "seq": 0}))


SAMPLE: list[type[Struct]] = [
    params.OpenTerminal,
    params.Attach,
    params.ResizeTerminal,
    params.CreateSessionBody,
    params.UpdateSession,
    params.ListEvents,
    params.SendTurn,
    params.GetTurn,
    params.AnswerAsk,
    params.Telemetry,
    params.Ack,
    params.Nothing,
    objects.ErrorBody,
    objects.Terminal,
    objects.QuestionAnswer,
    results.Ready,
    results.TerminalExited,
    results.SessionDetached,
]


class Agreement(SynchronousTestCase):
    """msgspec, which decides, and JSON Schema, which is published, accept the same values."""

    def agree(self, struct: type[Struct], value: object) -> None:
        error = refusal(struct, value)
        valid = validator(struct.__name__).is_valid(value)
        self.assertEqual(error is None, valid, f"{value!r}: {error}")
        if error is not None:
            self.assertIs(error.code, Code.INVALID_REQUEST)
            self.assertIsNotNone(error.field)
            self.assertTrue(error.message.endswith("."), error.message)

    @settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(SAMPLE).flatmap(lambda struct: st.tuples(st.just(struct), values.of(struct))))
    def test_of_a_sample(self, drawn: tuple[type[Struct], object]) -> None:
        self.agree(*drawn)

    def test_of_every_params_with_no_and_with_unknown_fields(self) -> None:
        odd: list[object] = [{}, {"extra": 1}, None, [], "x"]
        for method in methods.METHODS:
            for value in odd:
                self.agree(method.params, value)

    def test_of_event_data(self) -> None:
        # the same struct stands in two places, so it is compared where it is published: inside the event
        odd: list[object] = [{}, {"extra": 1}, None]
        for kind, struct in events.EVENTS.items():
            published = DOCUMENT["$defs"][f"Event.{kind}"]["properties"]["data"]
            check = Validator({**published, "$defs": DOCUMENT["$defs"]})
            for value in odd:
                self.assertEqual(refusal(struct, value) is None, check.is_valid(value), kind)
