"""What `computerctl doctor` looks at of computerd itself: configuration, Unix users, folders, keys, the journal, the running daemon."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from computerd.config import Config
from computerd.config.hosting import host_settings
from computerd.contract.errors import ApiError
from computerd.ctl.finding import Finding, good, note, wrong
from computerd.host.accounts import Accounts
from computerd.journal.database import FILE
from computerd.net.keys import (
    FOLDER,
    PRIVATE,
    KeyProblem,
    NoKeyYet,
    load_private,
    load_public,
    parse_public,
    thumbprint,
)

ROOM_WANTED: Final = 256 << 20
"""Bytes free for the journal, so that it does not fail within the day."""
JOURNAL_SECONDS: Final = 10.0
SOCKET_SECONDS: Final = 2.0


@frozen
class Belongings:
    """The checks.

    Attributes:
        config: The daemon's configuration.
        uid: Of this process.
        now: Seconds since the epoch.
        monotonic: Seconds.
    """

    config: Config
    uid: int
    now: Callable[[], float]
    monotonic: Callable[[], float]

    def findings(self) -> Iterator[Finding]:
        """All of them."""
        yield from self.configuration()
        yield from self.users()
        yield self.state()
        yield self.workspaces()
        yield self.key()
        yield self.journal()
        yield self.daemon()

    def configuration(self) -> Iterator[Finding]:
        """What it says, and where it is open to the network."""
        yield good("configuration", str(self.config.file or "built-in values"))
        for notice in self.config.notices:
            yield note("configuration", notice, "see that this is meant")
        for endpoint in self.config.listen:
            if endpoint.startswith("tcp:") and "interface=127." not in endpoint and r"interface=\:\:1" not in endpoint:
                advice = "listen on the loopback behind a server that has TLS, or on an ssl: endpoint"
                yield note("listen", f"{endpoint} takes credentials from the network unencrypted", advice)

    def users(self) -> Iterator[Finding]:
        """Whether each agent user can be one."""
        agent = self.config.agent
        accounts = Accounts(
            settings=host_settings(self.config),
            privileged=self.uid == 0,
            clock=self.monotonic,
            now=self.now,
        )
        for owner in ("", *agent.users):
            try:
                account = accounts.of(owner)
            except ApiError as refusal:
                yield wrong("users", refusal.message, "computerctl setup makes the configured users that are missing")
                continue
            serves = f"serves {owner}" if owner else "serves everybody whom agent.users does not name"
            yield good("users", f"{account.name} (uid {account.uid}) {serves}")
            if not os.access(account.shell, os.X_OK):
                yield note(
                    "users", f"{account.name}'s shell {account.shell} can't be run", f"chsh -s /bin/bash {account.name}"
                )

    def state(self) -> Finding:
        """The state folder."""
        folder = self.config.state_dir
        try:
            found = folder.lstat()
        except FileNotFoundError:
            return note("state", f"{folder} is not there yet", "computerctl setup makes it")
        except OSError as problem:
            return wrong("state", f"{folder}: {problem.strerror}", "run this as the daemon's user")
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != self.uid:
            return wrong(
                "state", f"{folder} is no folder of uid {self.uid}", "move it away, or name another with --state-dir"
            )
        if found.st_mode & 0o077:
            return wrong("state", f"{folder} has mode {stat.S_IMODE(found.st_mode):04o}", f"chmod 700 {folder}")
        free = shutil.disk_usage(folder).free
        if free < ROOM_WANTED:
            return wrong(
                "state", f"{folder} has {free >> 20} MiB left", "make room: without it the journal takes no more events"
            )
        return good("state", f"{folder}, {free >> 20} MiB left")

    def workspaces(self) -> Finding:
        """The workspace root: ours, and open for users to pass through."""
        folder = self.config.workspace_root
        try:
            found = folder.stat()
        except FileNotFoundError:
            return note("workspaces", f"{folder} is not there yet", "computerctl setup makes it")
        except OSError as problem:
            return wrong("workspaces", f"{folder}: {problem.strerror}", "run this as the daemon's user")
        if found.st_uid != self.uid or found.st_mode & 0o022:
            return wrong(
                "workspaces", f"{folder} can be changed by others", f"chown {self.uid} {folder}; chmod go-w {folder}"
            )
        if self.uid == 0:
            for place in (folder, *folder.resolve().parents):
                if not place.stat().st_mode & stat.S_IXOTH:
                    return wrong("workspaces", f"agent users can't pass through {place}", f"chmod o+x {place}")
        return good("workspaces", str(folder))

    def key(self) -> Finding:
        """What signs or verifies credentials."""
        auth = self.config.auth
        try:
            if auth.public_key is not None:
                return good("key", f"verifies only, {thumbprint(parse_public(auth.public_key.encode())[0])}")
            if auth.public_key_file is not None:
                return good("key", f"verifies only, {thumbprint(load_public(auth.public_key_file)[0])}")
            return good("key", thumbprint(load_private(self.config.state_dir / FOLDER / PRIVATE).public_key()))
        except NoKeyYet as problem:
            advice = (
                "the first start makes it"
                if auth.own_key
                else "until it is there, callers are told to come back (4503)"
            )
            return note("key", f"{problem.path} is not there yet", advice)
        except KeyProblem as problem:
            return wrong("key", str(problem), "as it says")

    def journal(self) -> Finding:
        """Whether it can be read, and what SQLite thinks of it."""
        path = self.config.state_dir / FILE
        if not path.exists():
            return note("journal", f"{path} is not there yet", "the first start makes it")
        try:
            connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=JOURNAL_SECONDS)
            try:
                deadline = self.monotonic() + JOURNAL_SECONDS
                connection.set_progress_handler(lambda: int(self.monotonic() > deadline), 10_000)
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            finally:
                connection.close()
        except sqlite3.OperationalError as problem:
            if self.monotonic() > deadline:
                return good("journal", f"{path}, too large to be looked through here")
            return wrong("journal", f"{path}: {problem}", "run this as the daemon's user")
        except sqlite3.Error as problem:
            return wrong("journal", f"{path}: {problem}", "the next start moves it aside and begins a new one")
        if verdict != "ok":
            return wrong(
                "journal", f"{path}: {verdict}", "stop the daemon and copy the file away while most of it can be read"
            )
        return good("journal", str(path))

    def daemon(self) -> Finding:
        """Whether one runs."""
        path = self.config.local_socket
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SOCKET_SECONDS)
            try:
                connection.connect(str(path))
                if connection.recv(1):
                    return good("daemon", f"answers at {path}")
            except OSError as problem:
                return note("daemon", f"nothing answers at {path}: {problem.strerror or problem}", _start(self.uid))
        return wrong("daemon", f"it does not answer at {path}", "journalctl -u computerd")


def _start(uid: int) -> str:
    return "systemctl start computerd" if uid == 0 and Path("/run/systemd/system").is_dir() else "twistd -n computerd"
