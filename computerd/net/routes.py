"""From a verb and a path to a method: derived from the contract's table, so that there is no second list of routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from attrs import frozen

from computerd.contract.errors import ApiError, Code
from computerd.contract.methods import METHODS, Method, Route
from computerd.net.heads import MethodNotAllowed


@frozen
class Match:
    """A method that a request names.

    Attributes:
        fields: The params that the path carries, decoded, by their names on the wire.
    """

    method: Method
    route: Route
    fields: Mapping[str, str]


class Routes:
    """The table of routes.

    A path is split before it is decoded, so that an encoded slash stays inside its segment.
    """

    def __init__(self, methods: Iterable[Method] = METHODS) -> None:
        self._rows: Final = [
            (method, method.route, path.split("/"))
            for method in methods
            if method.route is not None
            for path in (method.route.path, *method.route.aliases)
        ]

    def find(self, verb: str, path: str) -> Match:
        """The method for `verb` and the raw `path`. HEAD is answered like GET.

        Raises:
            ApiError: `not_found`, or `MethodNotAllowed` when the path has other verbs.
        """
        segments = path.split("/")
        found = [
            Match(method, route, fields)
            for method, route, template in self._rows
            if (fields := _fields(template, segments)) is not None
        ]
        for match in found:
            if match.route.verb == ("GET" if verb == "HEAD" else verb):
                return match
        if found:
            raise MethodNotAllowed(allowed(match.route.verb for match in found))
        raise ApiError(Code.NOT_FOUND, "There is no such path. The reference pages list those that there are.")


def allowed(verbs: Iterable[str]) -> tuple[str, ...]:
    """The value of Allow for a path with these verbs."""
    return tuple(sorted({name for verb in verbs for name in ((verb, "HEAD") if verb == "GET" else (verb,))}))


def _fields(template: list[str], segments: list[str]) -> dict[str, str] | None:
    """The fields in `segments` if they have the form of `template`."""
    if len(template) != len(segments):
        return None
    fields = {}
    for form, segment in zip(template, segments, strict=True):
        if not form.startswith("{"):
            if form != segment:
                return None
            continue
        try:
            fields[form.strip("{}")] = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError:
            return None
        if not segment:
            return None
    return fields
