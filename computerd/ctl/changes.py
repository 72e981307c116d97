"""Changes to the host that can be shown before they are made, and taken back exactly: a Unix user, a folder, a file.

Each change is data. It says whether it is still missing, what it will do, does it, and returns the change as it was really made,
which `record` keeps. Taking back reads that and never touches what somebody else made or changed meanwhile.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import subprocess
from pathlib import Path
from typing import ClassVar, Final, Protocol

from attrs import asdict, evolve, frozen

from computerd.ctl.errors import CommandError

SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOOL_SECONDS: Final = 60.0
"""For useradd or userdel to end, in seconds; both are done within one."""


class Change(Protocol):
    """One change."""

    kind: ClassVar[str]

    def missing(self) -> bool:
        """Whether there is something to do."""

    def will(self) -> str:
        """What it does, for `--dry-run` and on the way."""

    def make(self) -> Change:
        """Does it. Returns it with what is needed to take it back."""

    def will_undo(self) -> str:
        """What taking back does, or why there is nothing to do."""

    def undo(self) -> str | None:
        """Takes it back. Says what stays all the same, and why."""


@frozen
class User:
    """A Unix user that owns what agents do. It has no password: nobody logs in as it."""

    kind: ClassVar[str] = "user"
    name: str
    home: str = ""
    uid: int = -1

    def missing(self) -> bool:
        """Whether there is no such user."""
        return self.entry() is None

    def will(self) -> str:
        """See `Change`."""
        return f"makes the Unix user {self.name}, without a password, with the home folder /home/{self.name}"

    def make(self) -> User:
        """See `Change`."""
        # "*" is no password, where "!" would be a locked account.
        tool(
            "useradd",
            "--create-home",
            "--user-group",
            "--shell",
            "/bin/bash",
            "--password",
            "*",
            "--comment",
            "computerd agent",
            self.name,
        )
        entry = pwd.getpwnam(self.name)
        os.chmod(entry.pw_dir, 0o700)
        return evolve(self, home=entry.pw_dir, uid=entry.pw_uid)

    def will_undo(self) -> str:
        """See `Change`."""
        entry = self.entry()
        if entry is None:
            return f"the Unix user {self.name} is gone already"
        if entry.pw_uid != self.uid:
            return f"keeps the Unix user {self.name}: it has another uid than the one that was made"
        return f"removes the Unix user {self.name} and its home folder {self.home} with all that is in it"

    def undo(self) -> str | None:
        """See `Change`."""
        entry = self.entry()
        if entry is not None and entry.pw_uid == self.uid:
            try:
                tool("userdel", "--remove", self.name)
            except CommandError as problem:
                if "process" not in str(problem):
                    raise
                raise CommandError(
                    f"{problem}; stop the daemon, and what is left then: pkill -KILL -u {self.name}"
                ) from None
            with contextlib.suppress(KeyError):
                grp.getgrnam(self.name)
                tool("groupdel", self.name)
        return None

    def entry(self) -> pwd.struct_passwd | None:
        """The user as he is now, if there is one."""
        try:
            return pwd.getpwnam(self.name)
        except KeyError:
            return None


@frozen
class Folder:
    """A folder with a mode, owned by the caller."""

    kind: ClassVar[str] = "folder"
    path: str
    mode: int

    def missing(self) -> bool:
        """Whether it is not there."""
        return not os.path.lexists(self.path)

    def will(self) -> str:
        """See `Change`."""
        return f"makes the folder {self.path} with mode {self.mode:04o}"

    def make(self) -> Folder:
        """See `Change`."""
        os.mkdir(self.path, 0o700)
        os.chmod(self.path, self.mode)
        return self

    def will_undo(self) -> str:
        """See `Change`."""
        return f"removes the folder {self.path}, if it is empty"

    def undo(self) -> str | None:
        """See `Change`."""
        with contextlib.suppress(FileNotFoundError):
            try:
                os.rmdir(self.path)
            except OSError as problem:
                return f"kept the folder {self.path}: {problem.strerror}"
        return None


@frozen
class File:
    """A file with a content. What was there before is kept, to be put back.

    Attributes:
        replace: Write it also where there is another content.
        before: What was there, None: nothing.
    """

    kind: ClassVar[str] = "file"
    path: str
    text: str
    mode: int = 0o644
    replace: bool = True
    before: str | None = None

    def missing(self) -> bool:
        """Whether it is not there, or has another content that is to be replaced."""
        found = self._found()
        return found is None or (self.replace and found != self.text)

    def will(self) -> str:
        """See `Change`."""
        return f"{'writes' if self._found() is None else 'replaces'} the file {self.path}"

    def make(self) -> File:
        """See `Change`."""
        before = self._found()
        write(Path(self.path), self.text, self.mode)
        return evolve(self, before=before)

    def will_undo(self) -> str:
        """See `Change`."""
        found = self._found()
        if found is None:
            return f"the file {self.path} is gone already"
        if found != self.text:
            return f"keeps the file {self.path}: it was changed since"
        return f"removes the file {self.path}" if self.before is None else f"puts back the file {self.path} as it was"

    def undo(self) -> str | None:
        """See `Change`."""
        found = self._found()
        if found != self.text:
            return None
        if self.before is None:
            os.unlink(self.path)
        else:
            write(Path(self.path), self.before, self.mode)
        return None

    def _found(self) -> str | None:
        try:
            return Path(self.path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


KINDS: Final[dict[str, type[User] | type[Folder] | type[File]]] = {kind.kind: kind for kind in (User, Folder, File)}


def packed(change: Change) -> dict[str, object]:
    """A change as JSON keeps it."""
    assert isinstance(change, (User, Folder, File))
    return {"kind": change.kind, **asdict(change)}


def unpacked(row: dict[str, object]) -> Change:
    """The inverse of `packed`.

    Raises:
        CommandError: It is none of ours.
    """
    values = dict(row)
    try:
        return KINDS[str(values.pop("kind"))](**values)  # type: ignore[arg-type]  # checked by attrs' own signature
    except (KeyError, TypeError):
        raise CommandError("the record of what was changed is damaged: nothing was taken back") from None


def tool(*command: str) -> None:
    """Runs a tool of the system.

    Raises:
        CommandError: It is missing, failed or took too long.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TOOL_SECONDS,
            check=False,
            env={"PATH": SYSTEM_PATH},
        )
    except FileNotFoundError:
        raise CommandError(f"{command[0]} is missing: apt-get install passwd") from None
    except subprocess.TimeoutExpired:
        raise CommandError(f"{command[0]} did not end within {TOOL_SECONDS:.0f} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        last = said[-1].removeprefix(f"{command[0]}: ") if said else f"ended with status {done.returncode}"
        raise CommandError(f"{command[0]}: {last}")


def write(path: Path, text: str, mode: int) -> None:
    """Puts a file in place as a whole, or leaves what was there."""
    new = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    os.replace(new, path)
