"""The files of workspaces, by a process that is the user."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import TypeVar

from attrs import define
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime

from computerd.contract.errors import ApiError
from computerd.host.asking import Request, list_call
from computerd.host.downloads import open_file, pack
from computerd.host.program import Program
from computerd.host.spawner import HostSpawner
from computerd.host.uploads import unpack
from computerd.host.workers import Workers
from computerd.workspace.port import Coding, Listing, Opened, Packed, Place, Upload

T = TypeVar("T")


@define(eq=False, repr=False)
class HostFiles:
    """Implements `computerd.workspace.port.Files`. Workers end with their session, and with the spawner's shutdown.

    Every Deferred may be cancelled, by a caller whose client has gone: the worker is told to stop, and an upload leaves nothing.
    """

    _reactor: IReactorTime
    _workers: Workers

    @classmethod
    def by(cls, spawner: HostSpawner, reactor: IReactorTime) -> HostFiles:
        """With workers that `spawner` starts."""
        program = cache(partial(Program.find, privileged=spawner.privileged))
        # read now: an upgrade under a running daemon changes nothing. Where there is no Python, each call says so, until there is one
        with suppress(ApiError):
            program()
        return cls(reactor, Workers(reactor, spawner, spawner.random, program))

    def list(self, place: Place, path: str, *, depth: int, limit: int, cursor: str | None) -> Deferred[Listing]:
        """See `Files`."""
        return self._ask(place, lambda: list_call(self._reactor, path, depth, limit, cursor))

    def open(self, place: Place, path: str) -> Deferred[Opened]:
        """See `Files`."""
        return self._ask(place, lambda: open_file(self._reactor, path))

    def pack(self, place: Place, path: str, coding: Coding) -> Deferred[Packed]:
        """See `Files`."""
        return self._ask(place, lambda: pack(self._reactor, path, self._possible(coding)))

    def _possible(self, coding: Coding) -> Coding:
        return "gzip" if coding == "zstd" and not self._workers.program().zstd else coding

    def unpack(self, place: Place, path: str, *, replace: bool, coding: Coding) -> Deferred[Upload]:
        """See `Files`."""
        return self._ask(place, lambda: unpack(self._reactor, path, replace, coding))

    def _ask(self, place: Place, make: Callable[[], Request[T]]) -> Deferred[T]:
        try:
            request = make()
        except ApiError as error:
            return fail(error)
        self._workers.ask(place, request)
        return request.answer
