"""`Config`: every option's value, as the rest of the daemon sees it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen


@frozen
class Agent:
    """As whom terminals run, and with what.

    Attributes:
        user: The Unix user of every owner that `users` does not name.
        users: From an owner's member id to a Unix user.
        shared: Two owners in `users` may have one Unix user.
        allow_system_user: A uid below 1000 may be an agent user. Root never may.
        allow_groups: Groups as good as root that an agent user may be in all the same.
        path: PATH of a terminal.
        lang: LANG of a terminal.
        umask: File mode mask of a terminal.
        no_new_privileges: Set `no_new_privs`: set-user-ID programs, sudo among them, gain nothing.
        nofile_soft: RLIMIT_NOFILE, soft.
        nofile_hard: RLIMIT_NOFILE, hard.
        processes: `pids.max` of a session's cgroup; None: no limit.
        memory: `memory.max` of a session's cgroup, in bytes; None: no limit.
        cpu_weight: `cpu.weight` of a session's cgroup.
        kill_leftovers: At a terminal's close, kill all that it started.
    """

    user: str
    users: Mapping[str, str]
    shared: bool
    allow_system_user: bool
    allow_groups: tuple[str, ...]
    path: str
    lang: str
    umask: int
    no_new_privileges: bool
    nofile_soft: int
    nofile_hard: int
    processes: int | None
    memory: int | None
    cpu_weight: int
    kill_leftovers: bool


@frozen
class Auth:
    """Who verifies credentials.

    Attributes:
        public_key: A verification key, PEM; None: see `public_key_file`.
        public_key_file: A file with the verification key. It may not be there yet: until then callers hear `unavailable`.
            With neither of the two the daemon has a signing key of its own in the state folder.
    """

    public_key: str | None
    public_key_file: Path | None

    @property
    def own_key(self) -> bool:
        """Whether this host signs its credentials itself."""
        return self.public_key is None and self.public_key_file is None


@frozen
class Sessions:
    """What becomes of sessions that nobody uses.

    Attributes:
        idle_suspend: Seconds without work after which a session is suspended; 0: never.
    """

    idle_suspend: int


@frozen
class Journal:
    """How much of the past is kept.

    Attributes:
        keep_events: Events of each session.
        keep_days: Days that an event is kept; 0: for ever.
    """

    keep_events: int
    keep_days: int


@frozen
class Audit:
    """How much of the audit is kept.

    Attributes:
        keep_days: Days that a line is kept; 0: for ever.
    """

    keep_days: int


@frozen
class Metrics:
    """Who may ask for metrics.

    Attributes:
        serve: On listeners that only this machine can connect to (`loopback`), on all of them (`everywhere`), or on none (`off`).
    """

    serve: str


@frozen
class Log:
    """How the daemon logs.

    Attributes:
        format: `text` or `json`, one line a record.
    """

    format: str


@frozen
class Setting:
    """One option as `computerctl config show` prints it.

    Attributes:
        key: Such as `agent.umask`.
        value: As it would be written in the file.
        origin: A flag, an environment variable, a file, or `built in`.
    """

    key: str
    value: str
    origin: str


@frozen
class Config:
    """Every option of the daemon.

    Attributes:
        file: The configuration file that was named, or the first that was there; None: there was none.
        listen: Twisted server endpoint strings.
        state_dir: Journal, keys and revocations.
        workspace_root: One folder a session inside.
        local_socket: Unix socket that gives root and the daemon's own user a credential.
        allowed_origins: Origins of browsers, beside the server's own.
        allowed_hosts: Names by which clients may call the server, beside those of the loopback; empty: every name
            when the server does not listen on the loopback.
        agent: As whom terminals run.
        auth: Who verifies credentials.
        sessions: What becomes of sessions that nobody uses.
        journal: How much of the past is kept.
        audit: How much of the audit is kept.
        metrics: Who may ask for metrics.
        log: How the daemon logs.
        notices: Lines that belong into the log at the start.
        settings: For `describe_origins`.
    """

    file: Path | None
    listen: tuple[str, ...]
    state_dir: Path
    workspace_root: Path
    local_socket: Path
    allowed_origins: tuple[str, ...]
    allowed_hosts: tuple[str, ...]
    agent: Agent
    auth: Auth
    sessions: Sessions
    journal: Journal
    audit: Audit
    metrics: Metrics
    log: Log
    notices: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = field(default=(), repr=False)

    def describe_origins(self) -> tuple[Setting, ...]:
        """Every option with its value and where that came from, in the order of the table."""
        return self.settings
