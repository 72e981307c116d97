"""Which files git would not look at, by the `.gitignore` files in and above a folder (gitignore(5)); pathspec knows the patterns."""

from __future__ import annotations

import os

from pathspec import GitIgnoreSpec

from computerd.opc.failure import Failure
from computerd.opc.plain import visible

FILE = ".gitignore"


class Ignore:
    """The rules for what is below `top`. Those of a folder are read when its first name is asked about.

    The rules above `top` count up to the folder with `.git`, if there is one: git has them too.
    """

    def __init__(self, top: str) -> None:
        self._top = os.path.realpath(top)
        self._above = self._outer()
        self._inner: dict[str, GitIgnoreSpec | None] = {}

    def __call__(self, name: str, folder: bool) -> bool:
        """Whether `name`, relative to `top`, is left out. Whoever asks does not ask for what is in a folder that is."""
        parts = name.split("/")
        if parts[-1] == ".git":
            return True
        for depth in range(len(parts) - 1, -1, -1):  # the nearest rule wins
            spec = self._spec("/".join(parts[:depth]))
            if (told := _told(spec, "/".join(parts[depth:]), folder)) is not None:
                return told
        return any(_told(spec, f"{prefix}{name}", folder) for spec, prefix in self._deciding(name, folder))

    def _deciding(self, name: str, folder: bool) -> list[tuple[GitIgnoreSpec, str]]:
        for spec, prefix in self._above:
            if _told(spec, f"{prefix}{name}", folder) is not None:
                return [(spec, prefix)]
        return []

    def _spec(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._inner:
            self._inner[folder] = _read(os.path.join(self._top, folder))
        return self._inner[folder]

    def _outer(self) -> list[tuple[GitIgnoreSpec, str]]:
        """The rules above, the nearest first, each with what leads from there to `top`."""
        found: list[tuple[GitIgnoreSpec, str]] = []
        here, prefix = self._top, ""
        while not os.path.lexists(os.path.join(here, ".git")):
            prefix = f"{os.path.basename(here)}/{prefix}"
            above = os.path.dirname(here)
            if above == here:
                return []
            here = above
            if (spec := _read(here)) is not None:
                found.append((spec, prefix))
        return found


def _told(spec: GitIgnoreSpec | None, name: str, folder: bool) -> bool | None:
    """Whether the rules leave `name` out (True) or take it in again (False); None: they do not speak of it."""
    return None if spec is None else spec.check_file(name + "/" if folder else name).include


def _read(folder: str) -> GitIgnoreSpec | None:
    path = os.path.join(folder, FILE)
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return GitIgnoreSpec.from_lines(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Failure("unreadable", f"can't use {visible(path)}: {error}. Nothing was changed.") from None
