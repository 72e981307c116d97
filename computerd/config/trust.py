"""Whether only root can change what a path leads to: what root reads, and where it makes its folders, must not be another's to move."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from computerd.config.errors import ConfigError
from computerd.config.settings import Config

_LINKS: Final = 40
"""Symbolic links that the kernel follows in one path (path_resolution(7))."""


def check(path: Path) -> None:
    """Follows a path as the kernel does, up to the first name that is not there.

    Raises:
        ConfigError: A folder or a symbolic link on the way is not root's, or others may put something else in its place.
    """
    for place, state in steps(path):
        check_one(place, state)


def check_one(place: Path, state: os.stat_result) -> None:
    """One file, folder or link.

    Raises:
        ConfigError: It is not root's, or others may write to it. In a folder with the sticky bit nobody can move what is another's.
    """
    if state.st_uid != 0:
        raise ConfigError(
            str(place), f"must belong to root, not to uid {state.st_uid}, because root depends on what is there"
        )
    sticky = stat.S_ISDIR(state.st_mode) and state.st_mode & stat.S_ISVTX
    if state.st_mode & 0o022 and not sticky and not stat.S_ISLNK(state.st_mode):
        raise ConfigError(str(place), f"must not be writable by group or others: chmod go-w {place}")


def steps(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every folder and link that the kernel passes through on its way to `path`, and what is there."""
    left = list(reversed(path.absolute().parts[1:]))
    place = Path("/")
    links = 0
    yield place, place.lstat()
    while left:
        name = left.pop()
        if name == "..":
            place = place.parent
            continue
        try:
            state = (place / name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        yield place / name, state
        if not stat.S_ISLNK(state.st_mode):
            place /= name
            continue
        links += 1
        if links > _LINKS:
            raise ConfigError(str(path), "leads through too many symbolic links")
        target = Path(os.readlink(place / name))
        if target.is_absolute():
            place = Path("/")
        left += reversed([part for part in target.parts if part != "/"])


def check_folders(config: Config) -> None:
    """The folders in which a daemon that is root makes its own.

    Raises:
        ConfigError: Somebody else could have it make them, or find others, elsewhere.
    """
    for folder in (config.state_dir, config.workspace_root, config.local_socket.parent):
        check(folder.parent)
