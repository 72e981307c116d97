"""JSON-RPC 2.0 as the API speaks it: text to requests and notifications, results and errors to text.

Source: section 4 of the Computer API page, "Errors" of the API schema, and the JSON-RPC 2.0 specification, sections 4 and 5.
An id that is not a string or an integer makes a message that is no request; one of over `limits.MAX_ID_CHARACTERS`
characters too, because it would be sent back. Members besides the four of a request are refused as well: JSON-RPC 2.0 names
four and gives no other a meaning, and passing them over would turn a misspelled `id` into a notification, which
is never answered, and misspelled `params` into a call with defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen
from msgspec import Struct

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code, invalid
from computerd.wire import strictjson

PARSE_ERROR: Final = -32700
"""The message is not JSON."""
INVALID_REQUEST: Final = -32600
"""JSON, but no JSON-RPC request. Batches are none."""
METHOD_NOT_FOUND: Final = -32601
"""Unknown method."""
INVALID_PARAMS: Final = -32602
"""`data` is the body of `invalid_request`, with the field."""
API_ERROR: Final = -32000
"""`data` is the body of any other API error."""

Id = str | int
"""What tells a request's answer from the others'; sent back as it came."""

_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params"})


@frozen
class Request:
    """A call that is to be answered with the same id."""

    id: Id
    method: str
    params: dict[str, object]


@frozen
class Notification:
    """A message that is never answered, not even with an error (JSON-RPC 2.0, section 4.1).

    Attributes:
        params: None when they were not an object: nothing is known that such a notification could mean.
    """

    method: str
    params: dict[str, object] | None


class RpcError(Exception):
    """A message that can't be carried out, as the sender is told.

    Attributes:
        code: One of this module's constants.
        message: One sentence for a person.
        id: The request's id when it had a valid one, else None.
        data: An error body, with INVALID_PARAMS and API_ERROR.
    """

    def __init__(
        self, code: int, message: str, id_: Id | None = None, data: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id_
        self.data = data


def parse(text: bytes | str) -> Request | Notification:
    """What one text message asks for.

    Raises:
        RpcError: PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS when `params` is not an object, or API_ERROR with `too_large` when
            the message has more values than `limits.MAX_JSON_TOKENS`. Never anything else, whatever the text.
    """
    try:
        message = strictjson.loads(text)
    except strictjson.NotJson as error:
        raise RpcError(
            PARSE_ERROR, f"The message is not JSON: {error}. Send one JSON-RPC 2.0 object as UTF-8."
        ) from error
    except strictjson.TooCostly as error:
        refusal = ApiError(
            Code.TOO_LARGE, f"The message has over {limits.MAX_JSON_TOKENS} values. Send fewer of them at a time."
        )
        raise RpcError(API_ERROR, refusal.message, data=refusal.body()) from error
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, _not_an_object(message))
    return _envelope(message)


def _not_an_object(message: object) -> str:
    if isinstance(message, list):
        return "Batches are not supported. Send each request as a message of its own."
    return "A request is a JSON object with jsonrpc, id, method and params."


def _envelope(message: dict[str, object]) -> Request | Notification:
    answered = "id" in message
    id_ = _id(message["id"]) if answered else None
    if answered and id_ is None:
        raise RpcError(
            INVALID_REQUEST, f"id must be an integer or a string, of at most {limits.MAX_ID_CHARACTERS} characters."
        )
    if message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'jsonrpc must be "2.0".', id_)
    method = message.get("method")
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "method must be a string, the name of a method.", id_)
    if not message.keys() <= _MEMBERS:
        raise RpcError(INVALID_REQUEST, "A request has only the members jsonrpc, id, method and params.", id_)
    params = message.get("params", {})
    if id_ is None:
        return Notification(method, params if isinstance(params, dict) else None)
    if not isinstance(params, dict):
        refusal = invalid("params", "params must be an object that names each param, or be left out.")
        raise RpcError(INVALID_PARAMS, refusal.message, id_, refusal.body())
    return Request(id_, method, params)


def _id(value: object) -> Id | None:
    """`value` if it can be an id, else None."""
    if isinstance(value, str):
        return value if len(value) <= limits.MAX_ID_CHARACTERS else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if len(str(value)) <= limits.MAX_ID_CHARACTERS else None
    return None


def unknown_method(id_: Id) -> RpcError:
    """What a request for a method that is not there is answered with."""
    return RpcError(METHOD_NOT_FOUND, "There is no such method. `opc schema` prints those that there are.", id_)


def result(id_: Id, struct: Struct) -> bytes:
    """The answer to a request that worked."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (strictjson.dumps(id_), strictjson.dumps(struct))


def error(id_: Id | None, failure: RpcError) -> bytes:
    """The answer to a message that could not be carried out."""
    body: dict[str, object] = {"code": failure.code, "message": failure.message}
    if failure.data is not None:
        body["data"] = failure.data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (strictjson.dumps(id_), strictjson.dumps(body))


def api_error(id_: Id, refusal: ApiError, request_id: str | None) -> bytes:
    """The answer to a request that the API refused: INVALID_PARAMS for `invalid_request`, else API_ERROR."""
    code = INVALID_PARAMS if refusal.code is Code.INVALID_REQUEST else API_ERROR
    return error(id_, RpcError(code, refusal.message, id_, refusal.body(request_id)))


def notification(method: str, params: Struct) -> bytes:
    """A notification."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (strictjson.dumps(method), strictjson.dumps(params))
