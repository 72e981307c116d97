"""Everything that the API schema lists is in the published tables, and nothing that it does not list is said to be part of it."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import schema
from tests.contract import spec

DOCUMENT = schema.build()
DEFINITIONS = DOCUMENT["$defs"]


def definition(reference: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = DEFINITIONS[reference["$ref"].removeprefix("#/$defs/")]
    return found


def nullable(field: dict[str, Any]) -> bool:
    return {"type": "null"} in field.get("anyOf", ())


class Spec(SynchronousTestCase):
    def fields(self, what: str, found: dict[str, Any], written: str) -> None:
        names = {name.rstrip("?|"): name for name in written.split()}
        self.assertEqual(sorted(found["properties"]), sorted(names), what)
        optional = {name for name, text in names.items() if text.endswith("?")}
        self.assertEqual(set(names) - set(found["required"]), optional, f"optional fields of {what}")

    def nulls(self, what: str, found: dict[str, Any], written: str) -> None:
        expected = {name.rstrip("|") for name in written.split() if name.endswith("|")}
        self.assertEqual({name for name, field in found["properties"].items() if nullable(field)}, expected, what)

    def test_methods(self) -> None:
        rows = {row["name"]: row for row in DOCUMENT["methods"] if row["schema"]}
        self.assertEqual(sorted(rows), sorted(spec.METHODS))
        for name, (route, params, result) in spec.METHODS.items():
            row = rows[name]
            http = row["http"]
            self.assertEqual(http and f"{http['verb']} {http['path']}", route, name)
            self.assertEqual(row["websocket"], name not in spec.HTTP_ONLY, name)
            self.fields(f"params of {name}", definition(row["params"]), params)
            self.fields(f"result of {name}", definition(row["result"]), result)
            self.nulls(f"nulls in the result of {name}", definition(row["result"]), result)
            self.assertIs(definition(row["params"])["additionalProperties"], False, name)

    def test_methods_outside_the_schema_are_known(self) -> None:
        outside = [row["name"] for row in DOCUMENT["methods"] if not row["schema"]]
        self.assertEqual(outside, ["sessions.list", "files.list", "files.read", "files.download", "files.upload"])

    def test_files_have_the_routes_of_the_api_and_of_the_relay(self) -> None:
        """Of "Routes outside the schema"."""
        routes = {
            (row["http"]["verb"], path)
            for row in DOCUMENT["methods"]
            if row["name"].startswith("files.")
            for path in (row["http"]["path"], *row["http"]["aliases"])
        }
        names = (("GET", "files"), ("GET", "file"), ("GET", "archive"), ("PUT", "archive"))
        expected = {
            (verb, f"{prefix}/{name}")
            for verb, name in names
            for prefix in ("/sessions/{sessionId}/workspace", "/files/{sessionId}")
        }
        self.assertEqual(routes, expected)

    def test_limits_of_fields(self) -> None:
        for (name, field), expected in spec.LIMITED.items():
            found = DEFINITIONS[name]["properties"][field]
            self.assertEqual({key: found.get(key) for key in expected}, expected, f"{name}.{field}")

    def test_a_path_carries_fields_of_the_params(self) -> None:
        for row in DOCUMENT["methods"]:
            if row["http"] is not None:
                names = [part[1:-1] for part in row["http"]["path"].split("/") if part.startswith("{")]
                self.assertLessEqual(set(names), set(definition(row["params"])["required"]), row["name"])

    def test_notifications(self) -> None:
        rows = {row["name"]: row for row in DOCUMENT["notifications"]}
        self.assertEqual(sorted(rows), sorted(spec.NOTIFICATIONS))
        for name, (sender, written) in spec.NOTIFICATIONS.items():
            found = definition(rows[name]["params"])
            self.assertEqual(rows[name]["from"], sender)
            if "oneOf" in found:
                found = definition(found["oneOf"][-1])
            self.fields(name, found, written)
            self.nulls(name, found, written)

    def test_events_and_deltas(self) -> None:
        for table, written in (("events", spec.EVENTS), ("deltas", spec.DELTAS)):
            rows = {row["type"]: row for row in DOCUMENT[table]}
            self.assertEqual(sorted(rows), sorted(written))
            for kind, fields in written.items():
                properties = definition(rows[kind]["schema"])["properties"]
                self.assertEqual(properties["type"], {"const": kind})
                self.fields(kind, properties["data"], fields)

    def test_objects(self) -> None:
        for name, written in spec.OBJECTS.items():
            self.fields(name, DEFINITIONS[name], written)
        self.assertLessEqual(set(DOCUMENT["objects"]), set(spec.OBJECTS))

    def test_errors(self) -> None:
        rows = {row["code"]: row for row in DOCUMENT["errors"]}
        for group, codes in spec.ERRORS.items():
            self.assertEqual([code for code, row in rows.items() if row["group"] == group], codes.split())
        for status, codes in spec.STATUSES.items():
            self.assertEqual({code for code, row in rows.items() if row["status"] == status}, set(codes.split()))
        self.assertEqual({code for code, row in rows.items() if row["retryable"]}, set(spec.RETRYABLE.split()))

    def test_close_codes(self) -> None:
        codes = {row["code"] for row in DOCUMENT["closeCodes"]}
        # 1008 answers a storm of pings, which the API schema leaves open
        self.assertEqual(codes, spec.CLOSE_CODES | {1008})

    def test_limits(self) -> None:
        limits = {row["name"]: row["value"] for row in DOCUMENT["limits"]}
        self.assertEqual({name: limits.get(name) for name in spec.LIMITS}, spec.LIMITS)
