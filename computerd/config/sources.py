"""Reading files: those that root takes orders from must not be another's to write."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from computerd.config import trust
from computerd.config.errors import ConfigError

MAX_BYTES: Final = 1 << 20
"""Of a configuration file or a value's file."""


def read(path: Path, uid: int) -> str:
    """The text of a file.

    Args:
        path: What to read.
        uid: Of the process. As root the file, and every folder above it, has to be root's and not writable by others.

    Raises:
        FileNotFoundError: There is none.
        ConfigError: It can't be read, or is not to be trusted.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise ConfigError(str(path), f"can't be read: {problem.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(str(path), "must be a regular file")
        if uid == 0:
            trust.check_one(path, found)
            trust.check(path)
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ConfigError(str(path), f"must have {MAX_BYTES} bytes at most")
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(str(path), "must be UTF-8") from None


def flatten(text: str, path: Path, tables: frozenset[str]) -> Mapping[str, object]:
    """Parses TOML into values by key: `[agent] umask` becomes `agent.umask`.

    Args:
        text: TOML.
        path: For the error.
        tables: Keys whose value is itself a table.

    Raises:
        ConfigError: It is not TOML.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise ConfigError(str(path), f"is not TOML: {problem}") from None
    return dict(_flat(document, "", tables))


def _flat(values: Mapping[str, object], prefix: str, tables: frozenset[str]) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        key = prefix + name
        if isinstance(value, dict) and not prefix and key not in tables:
            yield from _flat(value, f"{key}.", tables)
        else:
            yield key, value
