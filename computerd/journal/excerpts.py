"""How much is read at once: a page is bounded by its size too, because a row can be a thousand times the usual one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from computerd.session.port import Excerpt

PAGE_CHARACTERS: Final = 512 * 1024
"""Over which a page has no further row. 500 ordinary events have a third of it; 500 commands of 10,000 characters would be 20 MiB."""

T = TypeVar("T")


def excerpt(rows: Iterable[tuple[Any, ...]], limit: int, make: Callable[..., T]) -> Excerpt[T]:
    """Up to `limit` of `rows`, and at least one if there is one.

    Args:
        rows: One more than `limit`, so that it is known whether there are more.
        limit: How many at most.
        make: Makes of a row what it stands for.
    """
    found: list[T] = []
    size = 0
    for row in rows:
        if len(found) == limit or size > PAGE_CHARACTERS:
            return Excerpt(found, True)
        found.append(make(*row))
        size += sum(len(value) for value in row if isinstance(value, str))
    return Excerpt(found, False)
