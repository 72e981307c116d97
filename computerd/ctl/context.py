"""What every command has at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import frozen

from computerd.config import Config, load, trust
from computerd.ctl.errors import CommandError
from computerd.journal.database import FILE


@frozen
class Context:
    """One run of computerctl.

    Attributes:
        flags: `state-dir` and `config`, as given.
        environ: The environment.
        uid: Of the process.
        now: Seconds since the epoch.
        random: n bytes of a cryptographic source.
        out: Takes lines of what was asked for.
        say: Takes lines about what goes on.
    """

    flags: Mapping[str, str | None]
    environ: Mapping[str, str]
    uid: int
    now: Callable[[], float]
    random: Callable[[int], bytes]
    out: Callable[[str], None]
    say: Callable[[str], None]

    def config(self) -> Config:
        """The daemon's configuration, as it would have it now.

        Raises:
            ConfigError: It would not start with it.
        """
        return load(self.flags, self.environ, self.uid)

    def state(self) -> Path:
        """The state folder, made if it is missing.

        Raises:
            CommandError: It can't be made.
            ConfigError: Somebody else could move it.
        """
        config = self.config()
        if self.uid == 0:
            trust.check_folders(config)
        folder = config.state_dir
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as problem:
            hint = "" if self.uid == 0 else "; run this as the daemon's user"
            raise CommandError(f"{folder}: {problem.strerror}{hint}") from None
        return folder

    def journal(self) -> str:
        """Where the journal is or will be."""
        return str(self.state() / FILE)
