"""The sessions' folders. Root makes them and hands them over, and never looks into one: what is below belongs to the user."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from attrs import define, field

from computerd.contract.errors import ApiError, Code
from computerd.contract.identifiers import SESSION
from computerd.host.accounts import Account
from computerd.host.settings import HostError

_OPEN: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@define
class Workspaces:
    """The folder that holds all workspaces, opened once: whoever renames its parents later doesn't move the daemon.

    Attributes:
        root: Its path: a terminal enters its workspace by it, as the user.
        hand_over: Workspaces belong to the user of their session; otherwise to the daemon's own.
    """

    root: Path
    hand_over: bool
    _folder: int = field(default=-1, init=False)

    @classmethod
    def open(cls, root: Path, *, hand_over: bool) -> Workspaces:
        """Opens the folder.

        Raises:
            HostError: It is not there, no folder, a symbolic link, not the daemon's own, or others may write to it.
        """
        opened = cls(root, hand_over)
        try:
            opened._folder = os.open(root, _OPEN)
        except OSError as error:
            raise HostError(f"The workspace root {root} can't be opened: {error.strerror}.") from None
        status = os.fstat(opened._folder)
        if status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return opened
        opened.close()
        raise HostError(
            f"The workspace root {root} must belong to the daemon's user, and nobody else may write to it: "
            f"chown {os.geteuid()} and chmod go-w it."
        )

    def make(self, session_id: str, account: Account) -> str:
        """Makes a session's workspace if it is missing, and returns its path. Nothing of an existing one is touched.

        Raises:
            ApiError: `computer_unavailable`: the disk or the quota is full, or the like.
        """
        if not SESSION.matches(session_id):
            raise ValueError(f"not a session id: {session_id!r}")
        try:
            os.mkdir(session_id, 0o700, dir_fd=self._folder)
        except FileExistsError:
            pass
        except OSError as error:
            raise self._failed(error) from None
        else:
            self._give(session_id, account)
        return os.path.join(self.root, session_id)

    def _give(self, session_id: str, account: Account) -> None:
        if not self.hand_over:
            return
        try:
            os.chown(session_id, account.uid, account.gid, dir_fd=self._folder, follow_symlinks=False)
        except OSError as error:
            os.rmdir(session_id, dir_fd=self._folder)  # or it would stay root's, for ever
            raise self._failed(error) from None

    @staticmethod
    def _failed(error: OSError) -> ApiError:
        return ApiError(Code.COMPUTER_UNAVAILABLE, f"The session's workspace could not be made: {error.strerror}.")

    def close(self) -> None:
        """Lets go of the folder."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1
