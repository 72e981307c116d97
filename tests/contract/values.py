"""Hypothesis strategies for JSON values that fit a contract type, nearly fit it, or do not fit it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import Struct, inspect

Values = st.SearchStrategy[Any]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ANYTHING: Values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0.5, -1.25, 1e300]),
    TEXT,
    st.lists(st.integers(), max_size=2),
    st.dictionaries(TEXT, st.integers(), max_size=2),
)


def _times(item: object, size: int) -> list[object]:
    return [item] * size


def around(least: int | None, most: int | None) -> list[int]:
    edges = [edge for edge in (least, most) if edge is not None]
    return [edge + step for edge in edges for step in (-1, 0, 1)]


def strings(kind: inspect.StrType) -> Values:
    sizes = [size for size in around(kind.min_length, kind.max_length) if size >= 0]
    lengths = st.sampled_from(sizes or [0, 1]).flatmap(lambda size: st.just("x" * size))
    options: list[Values] = [lengths, TEXT]
    if kind.pattern is not None:
        options += [st.from_regex(kind.pattern), st.from_regex(kind.pattern).map(lambda text: text + "\n")]
        options += [st.sampled_from(["\x00", "a\x00b", "xterm\n", "tm_0123456789aB"])]
    return st.one_of(options)


def fitting(kind: inspect.Type) -> Values:
    """Mostly fits."""
    if isinstance(kind, inspect.Metadata):
        return fitting(kind.type)
    if isinstance(kind, inspect.UnionType):
        return st.one_of([fitting(option) for option in kind.types])
    if isinstance(kind, inspect.IntType):
        least, most = kind.ge, kind.le
        return st.one_of(st.sampled_from(around(least, most) or [0]), st.integers(), st.integers(least, most))
    if isinstance(kind, inspect.StrType):
        return strings(kind)
    if isinstance(kind, inspect.LiteralType):
        return st.sampled_from([*kind.values, "other"])
    return structure(kind)


def structure(kind: inspect.Type) -> Values:
    if isinstance(kind, inspect.StructType):
        return objects(kind)
    if isinstance(kind, inspect.DictType):
        sizes = kind.max_length or 2
        crowd = st.sampled_from([sizes, sizes + 1]).map(lambda size: {str(i): "1" for i in range(size)})
        return st.one_of(st.dictionaries(fitting(kind.key_type), fitting(kind.value_type), max_size=2), crowd)
    if isinstance(kind, inspect.ListType):
        crowd = st.sampled_from(around(kind.min_length, kind.max_length) or [0])
        items = fitting(kind.item_type)
        return st.one_of(st.lists(items, max_size=2), st.builds(_times, items, crowd))
    if isinstance(kind, inspect.BoolType):
        return st.booleans()
    return st.none() if isinstance(kind, inspect.NoneType) else ANYTHING


@st.composite
def objects(draw: st.DrawFn, kind: inspect.StructType) -> dict[str, Any]:
    """An object of the Struct, now and then with a field missing, unknown or of another type."""
    value: dict[str, Any] = {}
    strange = draw(st.integers(0, 3)) == 0
    for field in kind.fields:
        if (field.required and not strange) or draw(st.booleans()):
            odd = strange and draw(st.integers(0, 5)) == 0
            value[field.encode_name] = draw(ANYTHING if odd else fitting(field.type))
    if strange and draw(st.integers(0, 3)) == 0:
        value[draw(st.sampled_from(["extra", "__proto__", "__class__", "session_id"]))] = draw(ANYTHING)
    return value


def of(struct: type[Struct]) -> Values:
    """Values for `struct`, and anything else."""
    return st.one_of(fitting(inspect.type_info(struct)), fitting(inspect.type_info(struct)), ANYTHING)
