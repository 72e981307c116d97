"""Twisted's process on a pseudo-terminal, without a fork."""

from __future__ import annotations

import inspect

from twisted.internet import process
from twisted.trial.unittest import SynchronousTestCase

from computerd.host.ptyprocess import SpawnedPTYProcess, by_posix_spawn, possible


class PTYProcessTests(SynchronousTestCase):
    """`by_posix_spawn` and `possible`."""

    def test_only_for_the_length_of_a_call(self) -> None:
        forking = process.PTYProcess
        with by_posix_spawn():
            self.assertIs(process.PTYProcess, SpawnedPTYProcess)
        self.assertIs(process.PTYProcess, forking)
        self.assertRaises(ValueError, self.fail_within)
        self.assertIs(process.PTYProcess, forking)

    def fail_within(self) -> None:
        with by_posix_spawn():
            raise ValueError

    def test_twisted_still_asks(self) -> None:
        """Its name begins with an underscore: a release that calls it otherwise would fork again, and silently."""
        asked = inspect.getsource(process._BaseProcess._fork)
        self.assertIn("self._trySpawnInsteadOfFork(", asked)

    def test_kernels(self) -> None:
        for release in ("5.9.0", "5.10.0-8-amd64", "6.1.0-28-amd64", "10.0"):
            self.assertTrue(possible(release), release)
        for release in ("5.8.18", "4.19.0", "5", "", "unknown.9"):
            self.assertFalse(possible(release), release)
