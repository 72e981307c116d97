"""Plain data to params objects, with refusals that name the field at fault and say what it may be.

A field is named as the caller spells it on the wire: `cols`, `client.name`, `types[3]` (counted from 0). Keys of a map
are the caller's own, so a fault inside `metadata` is one of `metadata`. Nothing is converted on the way: `"80"`, `80.0` and
`true` are no integers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, inspect

from computerd.contract import allowed, limits
from computerd.contract.errors import ApiError, invalid

S = TypeVar("S", bound=Struct)

_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
# Only the end of a message is msgspec's own for certain: what comes before may quote the caller.
_PLACE: Final = re.compile(r" - at (?:`key` in )?`\$((?:\.\w+|\[\d+\])*)[^`]*`\Z")
_STEP: Final = re.compile(r"\w+")
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,1000}")
_BOOLEANS: Final = {"true": True, "false": False}


@cache
def _info(struct_type: type[Struct]) -> inspect.StructType:
    info = inspect.type_info(struct_type)
    assert isinstance(info, inspect.StructType)
    return info


@cache
def _fields(struct_type: type[Struct]) -> dict[str, inspect.Type]:
    return {field.encode_name: field.type for field in _info(struct_type).fields}


def decode(struct_type: type[S], obj: object) -> S:
    """`obj`, as `computerd.wire.strictjson.loads` gives it, as a `struct_type`.

    Raises:
        ApiError: `invalid_request` with the field; `params` when `obj` is no object at all.
    """
    try:
        return msgspec.convert(obj, struct_type)
    except msgspec.ValidationError as error:
        raise _refusal(struct_type, obj, str(error), "params") from None


def decode_query(struct_type: type[S], pairs: Iterable[tuple[str, str]], path_fields: Mapping[str, str]) -> S:
    """The params of a GET: names and values of its query, decoded, and what its path carries.

    Integers are decimal digits with no sign but a minus, no spaces and no leading zeros; booleans `true` and `false`; lists may be repeated or
    separated by commas, or both.

    Raises:
        ApiError: `invalid_request` with the field: also for a name that comes twice without being a list, or that the path has.
    """
    fields = _fields(struct_type)
    members: dict[str, object] = dict(path_fields)
    names = [field for field in fields if field not in path_fields]
    for name, text in pairs:
        if name not in names:
            raise _unknown(name, names)
        kind = allowed.bare(fields[name])
        if isinstance(kind, inspect.ListType):
            values = members.setdefault(name, [])
            assert isinstance(values, list)
            values += text.split(",")
        elif name in members:
            raise invalid(name, f"{name} may be given once only.")
        else:
            members[name] = _scalar(kind, text)
    return decode(struct_type, members)


def _scalar(kind: inspect.Type, text: str) -> object:
    """What a query's `text` means; `text` itself if it means nothing, for `decode` to refuse."""
    if isinstance(kind, inspect.IntType):
        return int(text) if _INTEGER.fullmatch(text) else text
    if isinstance(kind, inspect.BoolType):
        return _BOOLEANS.get(text, text)
    return text


def decode_body(struct_type: type[S], obj: object, path_fields: Mapping[str, str], body: str | None) -> S:
    """The params of any other verb: the JSON value of its body (`{}` if it has none), and what its path carries.

    Args:
        struct_type: The method's params.
        obj: As `computerd.wire.strictjson.loads` gives it.
        path_fields: By their names on the wire.
        body: The route's `body`: the field that the whole body becomes. None: its members are the fields.

    Raises:
        ApiError: `invalid_request` with the field, also for one that the path has; `body` when it should be an object and is none.
    """
    if body is not None:
        return decode(struct_type, {**path_fields, body: obj})
    if not isinstance(obj, dict):
        raise invalid("body", "The body must be a JSON object.")
    names = [field for field in _fields(struct_type) if field not in path_fields]
    for name in obj:
        if name not in names:
            raise _unknown(name, names)
    return decode(struct_type, {**obj, **path_fields})


def _unknown(name: str, known: Iterable[str], inside: str = "") -> ApiError:
    names = ", ".join(known)
    message = f"There is no such field. Allowed: {names}." if names else "There is no such field. None is allowed."
    return invalid((inside + name)[: limits.MAX_FIELD_NAME], message)


def _refusal(struct_type: type[Struct], obj: object, message: str, whole: str) -> ApiError:
    """Our refusal for what msgspec says, which is made for programmers."""
    if not isinstance(obj, dict):
        return invalid(whole, f"{whole} must be {allowed.phrase(_info(struct_type))}.")
    if (refusal := _unknown_in(obj, _info(struct_type), "")) is not None:
        return refusal
    at = _PLACE.search(message)
    steps = _STEP.findall(at[1]) if at is not None else []
    path = at[1].removeprefix(".") if at is not None else ""
    inside = f"{path}." if path else ""
    kind = allowed.at(_info(struct_type), steps)
    if (refusal := _unknown_in(_value(obj, steps), allowed.bare(kind), inside)) is not None:
        return refusal
    if (missing := _MISSING.match(message)) is not None:
        name = missing[1]
        return invalid(inside + name, f"{inside}{name} is required: {allowed.phrase(allowed.at(kind, [name]))}.")
    return invalid(path, f"{path} must be {allowed.phrase(kind)}.")


def _unknown_in(value: object, kind: inspect.Type, inside: str) -> ApiError | None:
    """The refusal of the first member of `value` that a Struct of this kind does not have."""
    if not isinstance(value, dict) or not isinstance(kind, inspect.StructType):
        return None
    names = [field.encode_name for field in kind.fields]
    return next((_unknown(name, names, inside) for name in value if name not in names), None)


def _value(obj: object, steps: Iterable[str]) -> object:
    for step in steps:
        if isinstance(obj, dict):
            obj = obj[step]
        elif isinstance(obj, list):
            obj = obj[int(step)]
    return obj
