"""The daemon and its client look for the local socket in the same places, though neither may import the other."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from computerd.config.options import BY_KEY, Place
from computerd.opc import locate

ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {},
    {"XDG_RUNTIME_DIR": "/run/user/1000"},
    {"XDG_RUNTIME_DIR": ""},
    {"XDG_RUNTIME_DIR": "relative"},
    {"XDG_STATE_HOME": "/state"},
    {"XDG_STATE_HOME": "relative"},
    {"XDG_STATE_HOME": ""},
    {"XDG_RUNTIME_DIR": "/run/user/1000", "XDG_STATE_HOME": "/state"},
)


def listens(env: dict[str, str], uid: int) -> str:
    """Where a daemon in this environment listens."""
    return str(BY_KEY["local_socket"].built_in(Place(uid, "me", Path(env["HOME"]), env, 1)))


class LocalSocket(SynchronousTestCase):
    def test_the_users_daemon_is_found_first(self) -> None:
        for env in ENVIRONMENTS:
            there = {"HOME": "/home/me", **env}
            self.assertEqual(locate.sockets(there)[0], listens(there, 1000), env)

    def test_one_that_was_started_without_a_runtime_folder_is_found(self) -> None:
        """As from su(1) or cron(8), while the person at the keyboard has one."""
        for env in ENVIRONMENTS:
            bare = {"HOME": "/home/me", **{key: value for key, value in env.items() if key != "XDG_RUNTIME_DIR"}}
            self.assertIn(listens(bare, 1000), locate.sockets({"HOME": "/home/me", **env}), env)

    def test_the_hosts_daemon_is_found_last(self) -> None:
        for env in ENVIRONMENTS:
            there = {"HOME": "/root", **env}
            self.assertEqual(locate.sockets(there)[-1], listens(there, 0), env)
