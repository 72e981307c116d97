"""What can be asked of a worker: the table of verbs, one module each. A module is compiled when its verb is first called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from computerd.host.worker.paths import Root
from computerd.host.worker.request import Request

Verb = Callable[[Request, Root], None]
"""Answers a request, or raises Refused, Stopped or OSError. It runs in a thread of its own and calls `Request.check` now and then."""

_MODULES: Final = {"list": "listing", "open": "opening", "pack": "packing", "unpack": "unpacking"}
"""Each has a function `run`, which is a Verb."""


def verb(name: str) -> Verb:
    """The function that does it. Raises KeyError."""
    run: Verb = import_module(f"{__name__.rpartition('.')[0]}.{_MODULES[name]}").run
    return run
