"""Makes the parts from the configuration and joins them: ports to what implements them."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from computerd.api.dispatch import Api
from computerd.api.files import WorkspaceFiles
from computerd.api.following import Following
from computerd.api.terminals import Terminals
from computerd.api.trail import Trail
from computerd.config import trust
from computerd.config.errors import ConfigError
from computerd.config.hosting import host_settings
from computerd.config.settings import Config
from computerd.host.files import HostFiles
from computerd.host.spawner import HostSpawner
from computerd.journal.database import FILE
from computerd.journal.journal import Journal
from computerd.net import keyring, keys
from computerd.net.credentials import Credentials
from computerd.net.keyring import KeyRing
from computerd.net.local import KID, LocalSocket
from computerd.net.roster import Roster
from computerd.net.service import NetService
from computerd.net.signer import Signer
from computerd.net.tally import Tally as NetTally
from computerd.session.lifecycle import Lifecycle
from computerd.session.retention import Retention
from computerd.session.sessions import Sessions
from computerd.tap.gauges import Gauges, Scrapes
from computerd.tap.lag import Lag
from computerd.terminal.slots import Slots
from computerd.terminal.traffic import Traffic

_FOR_EVER_DAYS: Final = 1_000_000
"""What `audit.keep_days = 0` means."""


@frozen
class Surroundings:
    """What nobody fetches for himself.

    Attributes:
        reactor: Twisted's; its `seconds` is a monotonic clock.
        wall: Seconds since the epoch.
        random: n bytes of a cryptographic source.
        uid: Of this process.
        worked: Seconds of processor time that the reactor's thread has used.
    """

    reactor: Any
    wall: Callable[[], float]
    random: Callable[[int], bytes]
    uid: int
    worked: Callable[[], float]


@frozen
class Parts:
    """What a daemon is made of, joined and not yet started."""

    journal: Journal
    spawner: HostSpawner
    net: NetService
    scrapes: Scrapes
    lifecycle: Lifecycle
    retention: Retention
    trail: Trail


def assemble(config: Config, around: Surroundings, journal_failed: Callable[[], None]) -> Parts:
    """Every part of the daemon.

    Raises:
        ConfigError, HostError, KeyProblem, OSError: The host can't serve as it is configured.
    """
    prepare_folders(config)
    reactor, wall, random = around.reactor, around.wall, around.random
    journal = Journal(
        str(config.state_dir / FILE), reactor, wall, random, journal_failed,
        audit_keep_days=config.audit.keep_days or _FOR_EVER_DAYS,
    )  # fmt: skip
    trail = Trail(journal, wall)
    keys_now = _keys(config, around, trail)
    spawner = HostSpawner(reactor, host_settings(config), random=random, now=wall)
    sessions = Sessions(journal, wall, random, reactor)
    terminals = Terminals(
        sessions, spawner, Slots(), reactor.seconds, random, lambda function: reactor.callLater(0, function), trail
    )
    files = WorkspaceFiles(sessions, HostFiles.by(spawner, reactor))
    lifecycle = Lifecycle(sessions, terminals, reactor, config.sessions.idle_suspend)
    retention = Retention(sessions, reactor, config.journal.keep_events, config.journal.keep_days)
    following = Following(sessions, lifecycle, lambda function: reactor.callLater(0, function))
    credentials = Credentials(keys_now, journal.revocations, wall)
    signer = Signer.ephemeral(KID, random)
    roster, tally, traffic = Roster(), NetTally(), Traffic()
    gauges = Gauges(
        started=wall(),
        net=tally,
        connections=lambda: roster.open,
        traffic=traffic,
        sessions=sessions.tally,
        journal=journal.tally,
        stalled=lambda: journal.stalled,
        lag=Lag(reactor),
    )
    scrapes = Scrapes(gauges)
    net = NetService(
        reactor=reactor,
        endpoints=config.listen,
        front=Api(sessions, lifecycle, following, terminals, files, reactor.seconds, trail),
        keys=keys_now,
        credentials=credentials,
        allowed_origins=config.allowed_origins,
        allowed_hosts=config.allowed_hosts,
        local=LocalSocket(config.local_socket, signer, credentials, _local_names(around.uid), wall, random, trail),
        clock=wall,
        random=random,
        metrics=None if config.metrics.serve == "off" else scrapes,
        metrics_everywhere=config.metrics.serve == "everywhere",
        traffic=traffic,
        tally=tally,
        roster=roster,
        trail=trail,
        worked=around.worked,
    )
    return Parts(journal, spawner, net, scrapes, lifecycle, retention, trail)


def prepare_folders(config: Config) -> None:
    """Makes the state folder, mode 0700, and the workspace root, which the agent's user passes through.

    Raises:
        ConfigError: They can't be made, or somebody else could move them.
    """
    if os.geteuid() == 0:
        trust.check_folders(config)
    _make_folder(config.state_dir, 0o700, "--state-dir")
    _make_folder(config.workspace_root, 0o755, "--workspace-root")


def _make_folder(path: Path, mode: int, flag: str) -> None:
    if path.is_dir():
        return
    # parents as for anybody's folders, and the folder itself with its own mode whatever the umask
    before = os.umask(0o022)
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(str(path), f"can't be made ({error.strerror}): name another folder with {flag}") from None
    finally:
        os.umask(before)


def _keys(config: Config, around: Surroundings, trail: Trail) -> KeyRing:
    auth = config.auth
    if auth.public_key is not None:
        source = keyring.pem_text(auth.public_key)
    elif auth.public_key_file is not None:
        source = keyring.pem_file(auth.public_key_file)
    else:
        folder = config.state_dir / keys.FOLDER
        if keys.make_pair(folder, around.random):
            trail.note("key.created", subject="by the daemon, at its start")
        source = keyring.own_pair(folder)
    return KeyRing(source, around.reactor.seconds)


def _local_names(uid: int) -> Mapping[int, str]:
    """Who is given a local credential: root, and the daemon's own user."""
    names = {0: "root"}
    try:
        names[uid] = pwd.getpwuid(uid).pw_name
    except KeyError:
        names[uid] = f"uid-{uid}"
    return names
