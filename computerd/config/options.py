"""The table of options: one row each. Flags, variables, TOML keys, checks and docs/configuration.md derive from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import field, frozen

from computerd.config import kinds
from computerd.config.kinds import Kind

USER_NAME: Final = r"(?![0-9]+$)[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}\$?"
"""What useradd(8) of Debian takes, as far as a shell has no second meaning for it."""
MEMBER_ID: Final = r"[^\x00-\x1f\x7f]{1,255}"
"""What a credential may have as its `sub`."""
DEFAULT_LISTEN: Final = "tcp:7390:interface=127.0.0.1"
MAX_PASSED: Final = 16
"""Sockets that systemd may pass on."""


@frozen
class Place:
    """What built-in values depend on.

    Attributes:
        uid: Of the process.
        login: That user's name.
        home: Its home folder.
        environ: For the XDG variables, and for sockets that systemd has passed on.
        pid: Of the process.
    """

    uid: int
    login: str
    home: Path
    environ: Mapping[str, str]
    pid: int

    @property
    def root(self) -> bool:
        """Whether the daemon can become other users."""
        return self.uid == 0

    def xdg(self, name: str, default: str) -> Path:
        """An XDG base folder; a relative path in the variable is ignored, as that specification says."""
        value = self.environ.get(f"XDG_{name}_HOME", "")
        return Path(value) if value.startswith("/") else self.home / default

    def listeners(self) -> tuple[str, ...]:
        """The sockets that systemd listens on for us (sd_listen_fds(3)), else our own."""
        passed = self.environ.get("LISTEN_FDS", "")
        if self.environ.get("LISTEN_PID") == str(self.pid) and passed.isdecimal() and 0 < int(passed) <= MAX_PASSED:
            return tuple(f"systemd:domain=INET:index={index}" for index in range(int(passed)))
        return (DEFAULT_LISTEN,)

    def runtime(self) -> Path:
        """Where a user's sockets are: `$XDG_RUNTIME_DIR`, else the state folder, which is as private."""
        value = self.environ.get("XDG_RUNTIME_DIR", "")
        return Path(value) if value.startswith("/") else self.xdg("STATE", ".local/state")


@frozen
class Option:
    """One option.

    Attributes:
        key: In TOML, with a dot for a table.
        kind: What it takes.
        meaning: One sentence or two, Markdown.
        root: Built-in value when the daemon is root.
        user: Built-in value otherwise; by default the same.
        shown: The two of them in the documentation, where they depend on the place.
        flag: Of `twistd computerd`, or None.
        repeatable: The flag may be given more than once.
        metavar: What follows the flag.
    """

    key: str
    kind: Kind
    meaning: str
    root: Callable[[Place], object]
    user: Callable[[Place], object] | None = None
    shown: tuple[str, str] | None = None
    flag: str | None = None
    repeatable: bool = field(default=False)
    metavar: str = "VALUE"

    @property
    def credential(self) -> str:
        """The file in `$CREDENTIALS_DIRECTORY` (systemd's `LoadCredential=`) that holds the value."""
        return f"computerd.{self.key}"

    @property
    def variable(self) -> str:
        """The environment variable; with `_FILE` after it, the one that names a file with the value."""
        return "COMPUTERD_" + self.key.upper().replace(".", "_")

    def built_in(self, place: Place) -> object:
        """The value when nothing says otherwise."""
        return self.root(place) if place.root or self.user is None else self.user(place)


def _always(value: object) -> Callable[[Place], object]:
    return lambda place: value


_NAME: Final = kinds.text("the name of a Unix user", USER_NAME)
_ORIGINS: Final = kinds.words("origins such as https://term.example", r"https?://[A-Za-z0-9._\-\[\]:]+")
_HOSTS: Final = kinds.words("host names, without a port", r"[A-Za-z0-9._:\-\[\]]+")
_PATH: Final = kinds.text("absolute folders parted by colons", r"/[^:\x00-\x1f]*(:/[^:\x00-\x1f]*)*")

OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "listen",
        kinds.words("Twisted server endpoints such as tcp:7390:interface=127.0.0.1", r"[a-z][a-z0-9]*:.+", least=1),
        "Where to listen: a [Twisted server endpoint](https://docs.twisted.org/en/stable/core/howto/endpoints.html), "
        "so that TCP, TLS, Unix and systemd sockets work. The flag may be given more than once. Where systemd has passed sockets on, "
        "these are the built-in value.",
        lambda place: place.listeners(),
        shown=(f'["{DEFAULT_LISTEN}"]', f'["{DEFAULT_LISTEN}"]'),
        flag="listen",
        repeatable=True,
        metavar="ENDPOINT",
    ),
    Option(
        "state_dir",
        kinds.path(),
        "Journal, keys and revocations; made with mode 0700.",
        _always(Path("/var/lib/computerd")),
        lambda place: place.xdg("STATE", ".local/state") / "computerd",
        shown=('"/var/lib/computerd"', "`$XDG_STATE_HOME/computerd`"),
        flag="state-dir",
        metavar="DIR",
    ),
    Option(
        "workspace_root",
        kinds.path(),
        "One folder for each session is made in here.",
        _always(Path("/srv/computerd")),
        lambda place: place.xdg("DATA", ".local/share") / "computerd",
        shown=('"/srv/computerd"', "`$XDG_DATA_HOME/computerd`"),
        flag="workspace-root",
        metavar="DIR",
    ),
    Option(
        "local_socket",
        kinds.path(),
        "A Unix socket on which root, and the user that the daemon runs as, get a credential without being asked for one.",
        _always(Path("/run/computerd/local.sock")),
        lambda place: place.runtime() / "computerd" / "local.sock",
        shown=(
            '"/run/computerd/local.sock"',
            "`$XDG_RUNTIME_DIR/computerd/local.sock`, without that variable `$XDG_STATE_HOME/computerd/local.sock`",
        ),
        flag="local-socket",
        metavar="PATH",
    ),
    Option(
        "allowed_origins",
        _ORIGINS,
        "Web pages of these origins may connect, beside the server's own. Compared exactly.",
        _always(()),
    ),
    Option(
        "allowed_hosts",
        _HOSTS,
        "Names by which clients may call a server that listens on the loopback only, beside `localhost`, `127.0.0.1` and `[::1]`: "
        "behind a proxy that passes the `Host` header on, the public name.",
        _always(()),
    ),
    Option(
        "agent.user",
        _NAME,
        "The Unix user that terminals run as. Not as root: always the user who started the daemon.",
        _always("agent"),
        lambda place: place.login,
        shown=('"agent"', "the invoking user"),
        flag="agent-user",
        metavar="USER",
    ),
    Option(
        "agent.users",
        kinds.table("a table from member ids to Unix users", MEMBER_ID, USER_NAME),
        "Unix users of single owners; `agent.user` serves everybody else. As root only.",
        _always({}),
    ),
    Option(
        "agent.shared",
        kinds.switch(),
        "Lets two owners of `agent.users`, or one of them and `agent.user`, have the same Unix user. "
        "Such owners are not protected from each other.",
        _always(False),
    ),
    Option(
        "agent.allow_system_user",
        kinds.switch(),
        "Takes a Unix user with a uid below 1000, though never root.",
        _always(False),
    ),
    Option(
        "agent.allow_groups",
        kinds.words("names of groups", USER_NAME),
        "Groups in which an agent user may be although their members can become root: without this, a user in `docker`, `sudo`, `disk` "
        "and their like is refused.",
        _always(()),
    ),
    Option("agent.path", _PATH, "`PATH` in terminals.", _always("/usr/local/bin:/usr/bin:/bin")),
    Option("agent.lang", kinds.text("a locale", r"[A-Za-z0-9_.@-]{1,64}"), "`LANG` in terminals.", _always("C.UTF-8")),
    Option("agent.umask", kinds.mask(), "File mode mask in terminals.", _always(0o022)),
    Option(
        "agent.no_new_privileges",
        kinds.switch(),
        "Set-user-ID programs, `sudo` among them, gain nothing in terminals. "
        "The shipped unit has it on for all that it starts, whatever is written here.",
        _always(True),
    ),
    Option(
        "agent.nofile_soft",
        kinds.number(64, 1_048_576),
        "Open files of a process (`RLIMIT_NOFILE`), soft limit.",
        _always(1024),
    ),
    Option(
        "agent.nofile_hard",
        kinds.number(64, 1_048_576),
        "The hard limit; the daemon's own hard limit caps it.",
        _always(16384),
    ),
    Option(
        "agent.processes",
        kinds.number(16, 4_194_304, none="unlimited"),
        "Processes and threads of a session (`pids.max` of its cgroup). Needs a delegated cgroup, as the unit gives.",
        _always(256),
    ),
    Option(
        "agent.memory",
        kinds.size(1 << 24),
        "Memory of a session (`memory.max` of its cgroup). Needs a delegated cgroup.",
        _always(None),
    ),
    Option(
        "agent.cpu_weight",
        kinds.number(1, 10_000),
        "A session's share of the processor (`cpu.weight` of its cgroup).",
        _always(100),
    ),
    Option(
        "agent.kill_leftovers",
        kinds.switch(),
        "When a terminal closes, kills whatever it started, `nohup` and `setsid` included. Needs a delegated cgroup.",
        _always(False),
    ),
    Option(
        "auth.public_key",
        kinds.text("PEM, or the absolute path of a PEM file", r"(?s)/[^\x00-\x1f]+|\s*-----BEGIN PUBLIC KEY-----.+"),
        "The Ed25519 key that verifies credentials, in PEM or as the path of a file. With it, credentials are made elsewhere and this host only "
        "verifies. A file that is not there yet is waited for. Without it, the host makes a key pair in the state folder.",
        _always(None),
        shown=("none", "none"),
    ),
    Option(
        "sessions.idle_suspend",
        kinds.number(0, 31_536_000),
        "Suspends a session after so many seconds without work, never while a terminal is open; 0: never. Suspending ends what its terminals "
        "have left behind, `nohup` jobs and `tmux` servers included.",
        _always(0),
    ),
    Option(
        "journal.keep_events",
        kinds.number(1000, 1_000_000_000),
        "Events kept of each session. Older ones go, and its `epochStartSeq` says so.",
        _always(100_000),
    ),
    Option(
        "journal.keep_days",
        kinds.number(0, 36_500),
        "Days that an event is kept; 0: for ever.",
        _always(0),
    ),
    Option(
        "audit.keep_days",
        kinds.number(0, 36_500),
        "Days that a line of the audit is kept; 0: for ever.",
        _always(365),
    ),
    Option(
        "metrics.serve",
        kinds.choice("loopback", "everywhere", "off"),
        "On which of the addresses in `listen` [`GET /metrics`](operations.md#metrics) is answered: on those that only this machine can connect "
        "to, which are the loopback's and Unix sockets, on all of them, or on none. It needs a credential in any case.",
        _always("loopback"),
    ),
    Option(
        "log.format",
        kinds.choice("text", "json"),
        "How a line of the log looks.",
        _always("text"),
    ),
)
"""Every option, in the order of the documentation."""

BY_KEY: Final[Mapping[str, Option]] = {option.key: option for option in OPTIONS}
CONFIG_FLAG: Final = "config"
CONFIG_VARIABLE: Final = "COMPUTERD_CONFIG"
