"""Twisted's process on a pseudo-terminal, started by posix_spawn(3) where Twisted forks.

A fork of the daemon costs 2 ms at once, and more afterwards: the kernel marks all of the daemon's memory as shared, and about 1,000 pages are
copied as the daemon goes on, for each terminal. posix_spawn shares nothing. Twisted uses it for pipes, and leaves it out for pseudo-terminals because
the new session and its controlling terminal have to be made in the child: here the launcher makes them. See the decision about
launchers in the project's documentation for the figures.

Twisted offers no way to choose the class that `reactor.spawnProcess(…, usePTY=…)` makes, so it is put in its place for the length of a call.
"""

# Twisted's process has no types
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from twisted.internet import process

_CLOSE_RANGE: Final = (5, 9)
"""The first kernel with close_range(2), by which the launcher gets rid of descriptors that are not closed on exec."""


class SpawnedPTYProcess(process.PTYProcess):
    """What `spawnProcess` makes within `by_posix_spawn`."""

    def _trySpawnInsteadOfFork(
        self,
        path: bytes | None,
        uid: int | None,
        gid: int | None,
        executable: bytes,
        args: list[bytes],
        environment: Mapping[bytes, bytes],
        kwargs: Mapping[str, int],
    ) -> bool:
        """Starts the process. It has the slave as its descriptors 0 to 2, and is not yet in a session of its own."""
        if uid is not None or gid is not None or path is not None:
            return False
        slave = kwargs["slavefd"]
        actions = [(os.POSIX_SPAWN_DUP2, slave, number) for number in range(3)]
        self.pid = os.posix_spawn(executable, args, environment, file_actions=actions)  # type: ignore[assignment]  # Twisted's class says None
        self.status = -1
        return True


def possible(release: str) -> bool:
    """Whether the kernel of that release, such as `6.1.0-28-amd64`, lets the launcher close what it was not to inherit."""
    numbers = release.split(".")[:2]
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= _CLOSE_RANGE


@contextmanager
def by_posix_spawn() -> Iterator[None]:
    """While it lasts, `reactor.spawnProcess` with `usePTY` does not fork."""
    forking = process.PTYProcess
    process.PTYProcess = SpawnedPTYProcess  # type: ignore[misc]  # to put a class in place of another is the point
    try:
        yield
    finally:
        process.PTYProcess = forking  # type: ignore[misc]  # to put a class in place of another is the point
