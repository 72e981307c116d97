"""The reference pages, in MyST Markdown, from the published schema."""

from __future__ import annotations

from typing import Any, Final

from computerd.contract.markdown import PREFIX, Schema, anchor, fields, heading, link, table

_NOTICE: Final = "% Written by `python -m computerd.contract.reference`: change the contract, not this page.\n\n"
_INDEX: Final = """# Reference

Every method, event, object, error, close code and limit of the Computer API, version 1, as this daemon serves it.
`opc schema` prints the same as JSON Schema, and `opc schema NAME` one part of it.

```{toctree}
methods
notifications
events
objects
errors
close-codes
limits
```
"""
_METHODS: Final = """# Methods

A method is called over WebSocket as a JSON-RPC 2.0 request, over HTTP by its route, or by both. On a route, the path
carries the fields that it names; a `GET` takes the others as query parameters, other verbs as a JSON body. A route whose
body is an archive takes them as query parameters, too. Some routes have two paths, which mean the same.

A field with a question mark may be left out. Unknown fields are refused with `invalid_request`.

## Access

Each method says which scope the credential has to have. What a caller may is asked in a fixed order, and the first answer stands:

1. Is the credential good? If not: `unauthenticated`.
2. Has it the scope? If not: `forbidden`, `missing_scope`. Being an admin is no scope.
3. Over WebSocket, has the connection attached this session with `readOnly`, and would the method change it? Then: `forbidden`, `read_only`.
4. Is the session there? If not: `session_not_found`.
5. To open a terminal, and for files: is the caller the session's owner or an admin? If not: `forbidden`, with `terminal_owner_only` for a terminal
   and without a reason for files.

So who lacks the scope learns nothing about what exists. A terminal belongs to the connection that opened it, and any other hears
`terminal_not_found`, whether there is such a terminal or not.

## Without an agent

This server runs no agent, so a session has no turns, asks or subagents. Their lists are empty; by an id, none is found
(`turn_not_found`, `ask_not_found`, `subagent_not_found`); `turns.send` and `sessions.compact` are refused with
`feature_unavailable`; `sessions.interrupt` answers with the session as it is.
`features` in the [capabilities](#object-capabilities) of `sessions.attach` tells what a server can do.

## All methods

"""
_NOTIFICATIONS: Final = """# Notifications

JSON-RPC messages without an `id`, over WebSocket only. They are never answered.
"""
_OBJECTS: Final = """# Objects

A field with a question mark may be absent. Every other field is always there, and may be null where its type says so.
Clients ignore fields that they do not know.
"""
_EVENTS: Final = """# Events and deltas

(event-types)=

## Events

A session's journal is its events, in order and without gaps. A client ignores types that it does not know. Each event has
these fields; what is in `data` goes by the type.

"""
_DELTAS: Final = """
(delta-types)=

## Deltas

Passing signs of progress, which are not kept. They go to connections that attached with `deltas: true`. Each has `type`,
`sessionId`, `turnId` and `data`.
"""
_ERRORS: Final = """# Errors

Over HTTP an error is `{"error": {…}}` with the status below; over WebSocket the same body is the `data` of a JSON-RPC error.
Programs go by `code`; `message` is for people, says what to do next, and may change. `retryable` says that the same
request may succeed later. The body's fields are those of [`ErrorBody`](#object-errorbody).

`forbidden` carries a `reason`:

| Reason | Who is refused |
| --- | --- |
| `missing_scope` | A credential without the scope that the method, or one of its params, needs |
| `read_only` | A change of a session that this connection has attached with `readOnly` |
| `terminal_owner_only` | A terminal for somebody who is neither the session's owner nor an admin |

It has none when somebody who is neither asks for a session's files, and when a browser's page is none of `allowed_origins`.

## JSON-RPC

| Code | Meaning |
| --- | --- |
| `-32700` | The message is not JSON |
| `-32600` | Not a JSON-RPC request. Batches are not supported |
| `-32601` | Unknown method |
| `-32602` | Invalid params: `data` is the body of `invalid_request`, with the `field` |
| `-32000` | Any other error of the API: `data` is its body |
"""
_CLOSE_CODES: Final = """# Close codes

Why the server closes a WebSocket connection, and the reason that it sends along.

"""
_LIMITS: Final = """# Limits

The limits of single fields are with the [methods](methods.md) that have them.

"""


def render(document: Schema) -> dict[str, str]:
    """Each page's text, by its name without `.md`."""
    pages = {
        "index": _INDEX,
        "methods": _methods(document),
        "notifications": _notifications(document),
        "events": _events(document),
        "objects": _objects(document),
        "errors": _errors(document),
        "close-codes": _close_codes(document),
        "limits": _limits(document),
    }
    return {name: _NOTICE + text for name, text in pages.items()}


def _definition(document: Schema, reference: Schema) -> Schema:
    found: Schema = document["$defs"][reference["$ref"].removeprefix(PREFIX)]
    return found


def _methods(document: Schema) -> str:
    rows = [
        (
            link("method", row["name"]),
            _route(row["http"]),
            "yes" if row["websocket"] else "no",
            _access(row),
            row["summary"],
        )
        for row in document["methods"]
    ]
    text = _METHODS + table(("Method", "HTTP route", "WebSocket", "Access", "What it does"), rows)
    for row in document["methods"]:
        text += "\n" + heading("method", row["name"]) + _method(document, row)
    return text


def _route(http: Schema | None) -> str:
    return (
        "none" if http is None else " or ".join(f"`{http['verb']} {path}`" for path in (http["path"], *http["aliases"]))
    )


def _bodies(http: Schema) -> str:
    """What goes in and comes out, where it is not params and a result."""
    words = f"; the body is `{http['body']}`" if http["body"] else ""
    words += f"; the body is `{http['takes']}`, and the params are in the query" if http["takes"] else ""
    return words + (f"; the answer is `{http['gives']}`" if http["gives"] else "")


def _access(row: Schema) -> str:
    more = [f"; with `{name}` also {scope}" for name, scope in row["paramScopes"].items()]
    return "".join((row["access"], *more))


def _method(document: Schema, row: Schema) -> str:
    params, result = _definition(document, row["params"]), _definition(document, row["result"])
    text = f"{row['summary']}.{'' if row['schema'] else ' Not part of version 1: it may change.'}\n\n"
    text += f"* Access: {_access(row)}\n"
    if row["forbidden"]:
        text += f"* `forbidden` with: {', '.join(f'`{reason}`' for reason in row['forbidden'])}\n"
    if row["http"] is not None:
        text += f"* HTTP: {_route(row['http'])}, answered with {row['http']['status']}{_bodies(row['http'])}\n"
    text += f"* WebSocket: {'yes' if row['websocket'] else 'no'}\n\n"
    text += "Params:\n\n" + (fields(params) if params["properties"] else "None.\n")
    own = f"`{row['name']}`. "
    if params["description"].startswith(own):
        text += "\n" + params["description"].removeprefix(own) + "\n"
    if row["http"] is not None and row["http"]["gives"]:
        return text + f"\nResult: {result['description']}\n"
    return text + "\nResult:\n\n" + (fields(result) if result["properties"] else "Empty.\n")


def _notifications(document: Schema) -> str:
    text = _NOTIFICATIONS
    for sender in ("server", "client"):
        text += f"\n## From the {sender}\n"
        for row in document["notifications"]:
            if row["from"] == sender:
                params = _definition(document, row["params"])
                text += "\n" + heading("notification", row["name"], 3) + _notification(row["name"], params)
    return text


def _notification(name: str, params: Schema) -> str:
    if "oneOf" in params:
        return f"{params['description']} One of the [{name}s](#{name}-types).\n"
    description = params["description"].removeprefix(f"`{name}`.").strip()
    return (f"{description}\n\n" if description else "") + fields(params)


def _events(document: Schema) -> str:
    envelope = document["$defs"]["Event.other"]
    plain = {"type": {"type": "string"}, "data": {"type": "object"}}
    text = _EVENTS + fields({**envelope, "properties": envelope["properties"] | plain})
    for row in document["events"]:
        text += "\n" + heading("event", row["type"], 3) + _data(_definition(document, row["schema"]))
    text += _DELTAS
    for row in document["deltas"]:
        text += "\n" + heading("delta", row["type"], 3) + _data(_definition(document, row["schema"]))
    return text


def _data(variant: Schema) -> str:
    return f"{variant['description']}\n\n{fields(variant['properties']['data'])}"


def _objects(document: Schema) -> str:
    text = _OBJECTS
    for name in _mentioned(document):
        definition = document["$defs"][name]
        text += "\n" + heading("object", name) + f"{definition['description']}\n\n"
        text += "See [events](#event-types).\n" if "oneOf" in definition else fields(definition)
    return text


def _mentioned(document: Schema) -> list[str]:
    """The objects, and what other definitions refer to."""
    found = _references(document["$defs"]).union(document["objects"])
    return sorted(name for name in found if "." not in name)


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(_references, node))
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"].removeprefix(PREFIX)} if isinstance(node.get("$ref"), str) else set()
    return own.union(*map(_references, node.values()))


def _errors(document: Schema) -> str:
    text = _ERRORS
    for group in dict.fromkeys(row["group"] for row in document["errors"]):
        rows = [
            (f"`{row['code']}`", str(row["status"]), "yes" if row["retryable"] else "no")
            for row in document["errors"]
            if row["group"] == group
        ]
        text += f"\n({anchor('errors', group.replace(' ', '-'))})=\n\n## {group}\n\n"
        text += table(("Code", "HTTP status", "Retryable"), rows)
    return text


def _close_codes(document: Schema) -> str:
    rows = [(f"`{row['code']}`", row["name"].replace("_", " "), f"`{row['reason']}`") for row in document["closeCodes"]]
    return _CLOSE_CODES + table(("Code", "Name", "Reason"), rows)


def _limits(document: Schema) -> str:
    rows = [(f"`{row['name']}`", f"{row['value']:,}", row["unit"], row["what"]) for row in document["limits"]]
    return _LIMITS + table(("Limit", "Value", "Unit", "What"), rows)
