"""TLS, only where it is listened for.

Twisted loads pyOpenSSL whenever it can be imported, for every process with a reactor: 3.4 MB that a daemon on the loopback, or behind a
proxy, never uses. Twisted has no switch for that, but does without pyOpenSSL where it is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_PLAIN: Final = ("tcp", "tcp6", "unix", "systemd", "fd")
"""Endpoints of Twisted that know no TLS. Any other, a plugin's too, may."""


def wanted(endpoints: Iterable[str]) -> bool:
    """Whether one of the server endpoint strings may need TLS."""
    return any(endpoint.partition(":")[0] not in _PLAIN for endpoint in endpoints)


@contextmanager
def spared() -> Iterator[None]:
    """While it lasts, pyOpenSSL can't be imported. What is imported meanwhile does without it from then on."""
    modules: dict[str, Any] = sys.modules
    if "OpenSSL" in modules:
        yield
        return
    modules["OpenSSL"] = None
    try:
        yield
    finally:
        del modules["OpenSSL"]
