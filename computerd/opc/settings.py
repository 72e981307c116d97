"""The client's settings and where each came from: flag, environment, the user's file, the host's file, built-in value.

`url` and `host` both say which daemon, so they count as one: the nearest source that has either decides. A token goes only to
the daemon that it was given for: from a flag or the environment, that is whichever was chosen; from a file, the one named beside
it. An environment variable that is set but empty counts as set.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from computerd.opc import credentials
from computerd.opc.failure import Failure

KEYS: Final = {"url", "token_file", "host", "escape", "color"}
HOST_KEYS: Final = {"url", "token_file"}
COLORS: Final = ("auto", "always", "never")


class Setting(NamedTuple):
    """A value and its source, as `opc config show --origin` names it."""

    value: str
    origin: str


class Settings(NamedTuple):
    """What is set. None: nowhere.

    Attributes:
        host: The profile that was chosen.
        url: Where the daemon is; None: the local socket tells.
        token: Never shown.
    """

    host: Setting | None
    url: Setting | None
    token: Setting | None
    escape: Setting
    color: Setting


class File(NamedTuple):
    """A configuration file that is there."""

    path: str
    table: Mapping[str, Any]


def paths(env: Mapping[str, str]) -> list[str]:
    """The configuration files, the nearest first."""
    home = xdg(env, "XDG_CONFIG_HOME") or os.path.join(_home(env), ".config")
    return [os.path.join(home, "opc", "config.toml"), "/etc/opc/config.toml"]


def credentials_path(env: Mapping[str, str]) -> str:
    """The user's file of tokens."""
    return os.path.join(state_home(env), "opc", "credentials.toml")


def state_home(env: Mapping[str, str]) -> str:
    """The folder in which the user's programs keep what they remember."""
    return xdg(env, "XDG_STATE_HOME") or os.path.join(_home(env), ".local", "state")


def xdg(env: Mapping[str, str], name: str) -> str | None:
    """The folder that a variable of the XDG Base Directory Specification names; it says to ignore a relative one."""
    value = env.get(name, "")
    return value if value.startswith("/") else None


def _home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or os.path.expanduser("~")


def read(path: str) -> File | None:
    """A configuration file; None when there is none.

    Raises:
        Failure: It is not TOML, or holds what is no setting.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(credentials.MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Failure("invalid_configuration", f"can't read {path}: {error.strerror}.") from None
    table = parse(data, path)
    _check(table, KEYS | {"hosts"}, path, "")
    hosts = table.get("hosts", {})
    if not isinstance(hosts, dict):
        raise Failure("invalid_configuration", f"{path}: hosts: must be tables such as [hosts.work].")
    for name, host in hosts.items():
        if not isinstance(host, dict):
            raise Failure("invalid_configuration", f"{path}: hosts.{name}: must be a table.")
        _check(host, HOST_KEYS, path, f"hosts.{name}.")
    return File(path, table)


def parse(data: bytes, path: str) -> dict[str, Any]:
    """The TOML document `data`.

    Raises:
        Failure: It is none.
    """
    import tomllib  # noqa: PLC0415  25 ms, and mostly there is no file

    try:
        return tomllib.loads(data.decode())
    except ValueError as error:
        raise Failure("invalid_configuration", f"{path} is not TOML: {error}.") from None


def _check(table: Mapping[str, Any], keys: Iterable[str], path: str, within: str) -> None:
    for key, value in table.items():
        if key == "token":
            raise Failure(
                "invalid_configuration", f"{path}: {within}token: a token has its own file; name it in token_file."
            )
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            hint = f"did you mean {near[0]}?" if near else f"allowed are {', '.join(sorted(keys))}."
            raise Failure("invalid_configuration", f"{path}: {within}{key}: there is no such setting; {hint}")
        if key != "hosts" and not isinstance(value, str):
            raise Failure("invalid_configuration", f"{path}: {within}{key}: must be text in quotes.")


def resolve(
    flags: Mapping[str, str | None], env: Mapping[str, str], files: list[File], read_private: Callable[[str], bytes]
) -> Settings:
    """Settles every setting.

    Args:
        flags: `url`, `token_file`, `host`, `escape`, `color`; None when not given.
        env: Of this process.
        files: The nearest first.
        read_private: Reads a token file.

    Raises:
        Failure: Two forms of one setting are set, a value is unusable, or a profile is not there.
    """
    near = _Near(flags, env, files, read_private)
    source, host, url = near.daemon()
    return Settings(
        host,
        url,
        near.token(source, host),
        _valid("escape", near.plain("escape", "~"), _escape_ok, "one ASCII character or none"),
        _valid("color", near.plain("color", "auto"), COLORS.__contains__, ", ".join(COLORS)),
    )


def _valid(key: str, setting: Setting, good: Callable[[str], bool], allowed: str) -> Setting:
    if not good(setting.value):
        raise Failure(
            "invalid_configuration", f"{setting.origin}: {key} can't be {setting.value!r}; allowed: {allowed}."
        )
    return setting


def _escape_ok(text: str) -> bool:
    return text == "none" or (len(text) == 1 and " " < text <= "~")


class _Near:
    """Looks settings up, the nearest source first."""

    def __init__(
        self,
        flags: Mapping[str, str | None],
        env: Mapping[str, str],
        files: list[File],
        read_private: Callable[[str], bytes],
    ) -> None:
        self._flags = flags
        self._env = env
        self._files = files
        self._read_private = read_private

    def plain(self, key: str, default: str) -> Setting:
        """A setting that concerns nothing but itself."""
        if (flag := self._flags.get(key)) is not None:
            return Setting(flag, f"--{key}")
        if (value := self._variable(key)) is not None:
            return value
        for file in self._files:
            if key in file.table:
                return Setting(file.table[key], file.path)
        return Setting(default, "built in")

    def _variable(self, key: str) -> Setting | None:
        name = f"OPC_{key.upper()}"
        if name in self._env and f"{name}_FILE" in self._env:
            raise Failure("invalid_configuration", f"{name} and {name}_FILE are both set: unset one of them.")
        if name in self._env:
            return Setting(self._env[name], name)
        if (path := self._env.get(f"{name}_FILE")) is not None:
            if key == "token":
                return Setting(credentials.token(self._read_private(path), path), f"{name}_FILE")
            return Setting(_contents(path), f"{name}_FILE")
        return None

    def daemon(self) -> tuple[File | None, Setting | None, Setting | None]:
        """The file that decides which daemon, if one does; the profile; the URL."""
        near: list[tuple[File | None, Setting | None, Setting | None]] = [
            (None, self._flag("host"), self._flag("url")),
            (None, self._variable("host"), self._variable("url")),
        ]
        near += [(file, _entry(file, "host"), _entry(file, "url")) for file in self._files]
        for place, (file, host, url) in enumerate(near):
            if host is not None and url is not None and place < 2:
                raise Failure(
                    "invalid_configuration", f"{host.origin} and {url.origin} name two daemons: give one of them."
                )
            if host is not None:
                return self._profile(host)
            if url is not None:
                return file, None, url
        return None, None, None

    def _flag(self, key: str) -> Setting | None:
        value = self._flags.get(key)
        return None if value is None else Setting(value, f"--{key}")

    def _profile(self, host: Setting) -> tuple[File, Setting, Setting]:
        for file in self._files:
            profile = file.table.get("hosts", {}).get(host.value)
            if profile is not None and "url" in profile:
                return file, host, Setting(profile["url"], f"{file.path} [hosts.{host.value}]")
        known = sorted({name for file in self._files for name in file.table.get("hosts", {})})
        hint = (
            f"There are: {', '.join(known)}."
            if known
            else f"Add [hosts.{host.value}] with a url to {paths(self._env)[0]}."
        )
        raise Failure(
            "invalid_configuration", f"{host.origin}: no profile {host.value!r} with a url is configured. {hint}"
        )

    def token(self, file: File | None, host: Setting | None) -> Setting | None:
        """The token for the daemon that `daemon` settled on."""
        if (path := self._flags.get("token_file")) is not None:
            return Setting(credentials.token(self._read_private(path), path), "--token-file")
        if (value := self._variable("token")) is not None:
            return Setting(credentials.token(value.value, value.origin), value.origin)
        if file is None:
            return None
        table = file.table if host is None else file.table["hosts"][host.value]
        if "token_file" not in table:
            return None
        path = os.path.join(os.path.dirname(file.path), os.path.expanduser(table["token_file"]))
        return Setting(credentials.token(self._read_private(path), path), path)


def _entry(file: File, key: str) -> Setting | None:
    return Setting(file.table[key], file.path) if key in file.table else None


def _contents(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(4096).strip()
    except (OSError, ValueError) as error:
        raise Failure("invalid_configuration", f"can't read {path}: {error}.") from None
