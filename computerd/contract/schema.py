"""The JSON Schema of the whole API, built from the contract. It is committed as `computer-api.v1.json`, where `published` reads it.

Every object, params and result is one of `$defs`; an event type or delta type is there as `Event.TYPE` or `Delta.TYPE`, envelope
and data together. What JSON Schema has no words for stands beside it in tables: methods, events, deltas,
notifications, errors, close codes and limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from computerd.contract import access, allowed, closing, errors, events, limits, methods, objects, rules

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
OBJECTS: Final[tuple[type[Struct], ...]] = (
    objects.Session,
    objects.Person,
    objects.Origin,
    objects.Actor,
    objects.Turn,
    objects.TurnError,
    objects.Usage,
    objects.Ask,
    objects.ApprovalAnswer,
    objects.QuestionAnswer,
    objects.DeclineAnswer,
    objects.Subagent,
    objects.Capabilities,
    objects.Secret,
    objects.Result,
    objects.Terminal,
    objects.ErrorBody,
)
"""The objects that the API schema lists, and two that it describes elsewhere. Those inside them come along."""

INSIDE_DATA: Final[tuple[type[Struct], ...]] = (events.Change, events.FileChange)
"""What is in the data of events and nowhere else."""


def build() -> Schema:
    """The whole document."""
    return {
        "$schema": DIALECT,
        "$id": "urn:computerd:computer-api:v1",
        "title": "Computer API, version 1",
        "description": "Every method, event, object, error and close code. Members besides $defs are tables.",
        "objects": sorted(struct.__name__ for struct in OBJECTS),
        "methods": [_method(method) for method in methods.METHODS],
        "notifications": _notifications(),
        "events": [{"type": name, "schema": _ref(f"Event.{name}")} for name in events.EVENTS],
        "deltas": [{"type": name, "schema": _ref(f"Delta.{name}")} for name in events.DELTAS],
        "errors": [_error(group, code) for group, codes in errors.GROUPS.items() for code in codes],
        "closeCodes": [
            {"code": code.value, "name": code.name.lower(), "reason": closing.REASONS[code]}
            for code in closing.CloseCode
        ],
        "limits": [{"name": row.name, "value": row.value, "unit": row.unit, "what": row.what} for row in limits.LIMITS],
        "$defs": _definitions(),
    }


def render() -> str:
    """The document as it is committed: the same text for the same contract."""
    return json.dumps(build(), indent=2, ensure_ascii=False) + "\n"


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _method(method: methods.Method) -> Schema:
    route = method.route
    return {
        "name": method.name,
        "summary": method.summary,
        "access": method.access.value,
        **_access(method),
        "websocket": method.socket,
        "http": None
        if route is None
        else {
            "verb": route.verb,
            "path": route.path,
            "aliases": list(route.aliases),
            "body": route.body,
            "status": route.status,
            "takes": route.takes,
            "gives": route.gives,
        },
        "schema": method.schema,
        "params": _ref(method.params.__name__),
        "result": _ref(method.result.__name__),
    }


def _access(method: methods.Method) -> Schema:
    """What `access` means, for programs: the scopes that are asked for, and the reasons that a caller may be refused with."""
    rule = access.RULES[method.access]
    reasons = {
        errors.Reason.MISSING_SCOPE: rule.scope is not None,
        # an attachment is a connection's
        errors.Reason.READ_ONLY: rule.writes and method.socket,
        errors.Reason.TERMINAL_OWNER_ONLY: rule.stranger is errors.Reason.TERMINAL_OWNER_ONLY,
    }
    return {
        "scope": None if rule.scope is None else rule.scope.value,
        "paramScopes": {name: scope.value for name, scope in access.PARAM_SCOPES.get(method.name, {}).items()},
        "forbidden": [reason.value for reason, asked in reasons.items() if asked],
    }


def _notifications() -> list[Schema]:
    both = (("server", methods.SERVER_NOTIFICATIONS), ("client", methods.CLIENT_NOTIFICATIONS))
    return [
        {"name": name, "from": sender, "params": _ref(params.__name__)}
        for sender, table in both
        for name, params in table.items()
    ]


def _error(group: str, code: errors.Code) -> Schema:
    return {
        "code": code.value,
        "group": group,
        "status": errors.status(code),
        "retryable": errors.retryable(code),
    }


def _definitions() -> Schema:
    tables = (methods.SERVER_NOTIFICATIONS, methods.CLIENT_NOTIFICATIONS)
    definitions = _components(
        [
            *OBJECTS,
            *(method.params for method in methods.METHODS),
            *(method.result for method in methods.METHODS),
            *(params for table in tables for params in table.values()),
            *INSIDE_DATA,
        ]
    )
    definitions |= _variants("Event", definitions["Event"], events.EVENTS, open_ended=True)
    definitions |= _variants("Delta", definitions["Delta"], events.DELTAS, open_ended=False)
    for struct, rule in rules.SCHEMAS.items():
        definitions[struct.__name__] |= rule
    return dict(sorted(definitions.items()))


def _components(structs: Iterable[type[Struct]]) -> Schema:
    _, components = msgspec.json.schema_components(structs, ref_template="#/$defs/{name}")
    return {name: _published(component) for name, component in components.items()}


def _published(schema: Any) -> Any:
    """`schema` with its patterns as ECMA 262 spells them."""
    if isinstance(schema, dict):
        return {
            key: allowed.published(value) if key == "pattern" and isinstance(value, str) else _published(value)
            for key, value in schema.items()
        }
    return [_published(item) for item in schema] if isinstance(schema, list) else schema


def _variants(name: str, envelope: Schema, table: Mapping[str, type[Struct]], *, open_ended: bool) -> Schema:
    """A definition for each type of `table`, and `name` itself as any one of them."""
    variants: Schema = {}
    for kind, struct in table.items():
        data = dict(_components([struct])[struct.__name__])
        description = data.pop("description")
        del data["title"]
        variants[f"{name}.{kind}"] = _variant(envelope, f"{name}.{kind}", description, {"const": kind}, data)
    if open_ended:
        unknown = {"type": "string", "not": {"enum": list(table)}}
        description = "Any other type: clients ignore what they do not know."
        variants[f"{name}.other"] = _variant(envelope, f"{name}.other", description, unknown, {"type": "object"})
    whole = {"title": name, "description": envelope["description"], "oneOf": [_ref(variant) for variant in variants]}
    return {name: whole, **variants}


def _variant(envelope: Schema, title: str, description: str, kind: Schema, data: Schema) -> Schema:
    properties = {**envelope["properties"], "type": kind, "data": data}
    return {**envelope, "title": title, "description": description, "properties": properties}
