"""From flags, environment, files and built-in values to a `Config`: the first that says something wins, in this order."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, frozen

from computerd.config import sources
from computerd.config.errors import ConfigError
from computerd.config.options import BY_KEY, CONFIG_FLAG, CONFIG_VARIABLE, OPTIONS, Option, Place
from computerd.config.settings import Agent, Audit, Auth, Config, Journal, Log, Metrics, Sessions, Setting

SYSTEM_FILE: Final = Path("/etc/computerd/config.toml")
BUILT_IN: Final = "built in"
_TABLES: Final = frozenset({"agent.users"})

Flag = str | Sequence[str] | None
Reader = Callable[[Path, int], str]


@frozen
class _Found:
    """A value and who said it."""

    value: object
    origin: str


def load(
    flags: Mapping[str, Flag],
    environ: Mapping[str, str],
    uid: int,
    read: Reader = sources.read,
    account: Callable[[int], tuple[str, str]] | None = None,
    pid: int | None = None,
) -> Config:
    """The daemon's configuration.

    Args:
        flags: By their names, such as `state-dir`. None or an empty sequence: not given.
        environ: The environment.
        uid: Of the process.
        read: Gives a file's text; raises FileNotFoundError or ConfigError.
        account: Gives a uid's name and home folder.
        pid: Of the process, for which systemd has meant the sockets that it passed on.

    Raises:
        ConfigError: One line for the operator; the process is to end with status 78.
    """
    login, home = (account or _account)(uid)
    place = Place(uid, login, Path(environ.get("HOME") or home), environ, os.getpid() if pid is None else pid)
    return _Loader(flags, environ, place, read).load()


def _account(uid: int) -> tuple[str, str]:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return str(uid), "/"
    return entry.pw_name, entry.pw_dir


@define
class _Loader:
    flags: Mapping[str, Flag]
    environ: Mapping[str, str]
    place: Place
    read: Reader

    def load(self) -> Config:
        files = list(self.files())
        found = {option.key: self.find(option, files) for option in OPTIONS}
        _check_limits(found)
        notices = [*self.unknown_variables(), *self.settle_users(found)]
        settings = tuple(Setting(o.key, _shown(o, found[o.key].value), found[o.key].origin) for o in OPTIONS)
        config = _assemble({key: item.value for key, item in found.items()})
        return evolve(config, file=files[0][0] if files else None, notices=tuple(notices), settings=settings)

    # Files

    def files(self) -> Iterator[tuple[Path, Mapping[str, object]]]:
        """Those that are there, the one that wins first, each with its values by key."""
        named = self.named_file()
        if named is not None:
            try:
                yield named, self.parse(named)
            except FileNotFoundError:
                raise ConfigError(str(named), "is not there") from None
            return
        own = self.place.xdg("CONFIG", ".config") / "computerd" / "config.toml"
        for path in (SYSTEM_FILE,) if self.place.root else (own, SYSTEM_FILE):
            try:
                yield path, self.parse(path)
            except FileNotFoundError:
                continue

    def named_file(self) -> Path | None:
        flag, variable = self.flags.get(CONFIG_FLAG), self.environ.get(CONFIG_VARIABLE)
        if flag is None and variable is None:
            return None
        name = str(flag if flag is not None else variable)
        if not name:
            raise ConfigError(f"--{CONFIG_FLAG}" if flag is not None else CONFIG_VARIABLE, "must be the path of a file")
        return Path(name).absolute()

    def parse(self, path: Path) -> Mapping[str, object]:
        values = sources.flatten(self.read(path, self.place.uid), path, _TABLES)
        for key in values:
            if key not in BY_KEY:
                raise ConfigError(str(path), f"{key}: there is no such key{_suggestion(key, BY_KEY)}")
        return values

    # One option

    def find(self, option: Option, files: Sequence[tuple[Path, Mapping[str, object]]]) -> _Found:
        return (
            self.flag(option)
            or self.variable(option)
            or self.credential(option)
            or self.written(option, files)
            or self.built_in(option)
        )

    def built_in(self, option: Option) -> _Found:
        return _Found(option.built_in(self.place), BUILT_IN)

    def flag(self, option: Option) -> _Found | None:
        given = self.flags.get(option.flag) if option.flag else None
        if given is None or (option.repeatable and not given):
            return None
        given = [given] if isinstance(given, str) else list(given)
        origin = f"flag --{option.flag}"
        if not option.repeatable:
            return _Found(self.text(option, given[-1], f"--{option.flag}"), origin)
        try:
            return _Found(option.kind.from_toml(given), origin)
        except ValueError:
            raise ConfigError(f"--{option.flag}", _wrong(option, "", given)) from None

    def variable(self, option: Option) -> _Found | None:
        plain, from_file = option.variable, f"{option.variable}_FILE"
        if plain in self.environ and from_file in self.environ:
            raise ConfigError("environment", f"{plain} and {from_file} are both set; unset one of them")
        if plain in self.environ:
            return _Found(self.text(option, self.environ[plain], plain), f"environment {plain}")
        if from_file not in self.environ:
            return None
        name = self.environ[from_file]
        if not name.startswith("/"):
            raise ConfigError(from_file, "must be the absolute path of a file")
        if option.key == "auth.public_key":  # the one value whose file may come later
            return _Found(name, f"environment {from_file}")
        try:
            text = self.read(Path(name), self.place.uid)
        except FileNotFoundError:
            raise ConfigError(from_file, f"{name} is not there") from None
        return _Found(self.text(option, text.removesuffix("\n"), f"{from_file}: {name}"), f"environment {from_file}")

    def credential(self, option: Option) -> _Found | None:
        folder = self.environ.get("CREDENTIALS_DIRECTORY", "")
        if not folder.startswith("/"):
            return None
        path = Path(folder) / option.credential
        try:
            text = self.read(path, self.place.uid)
        except FileNotFoundError:
            return None
        return _Found(self.text(option, text.removesuffix("\n"), str(path)), str(path))

    def written(self, option: Option, files: Sequence[tuple[Path, Mapping[str, object]]]) -> _Found | None:
        for path, values in files:
            if option.key in values:
                value = values[option.key]
                try:
                    return _Found(option.kind.from_toml(value), str(path))
                except ValueError:
                    raise ConfigError(str(path), _wrong(option, option.key, value)) from None
        return None

    def text(self, option: Option, text: str, where: str) -> object:
        try:
            return option.kind.from_text(text)
        except ValueError:
            raise ConfigError(where, _wrong(option, "", text)) from None

    # What depends on more than one value

    def unknown_variables(self) -> Iterator[str]:
        """A name that nothing reads is more likely a slip than meant, and no reason not to start."""
        known = {name for o in OPTIONS for name in (o.variable, f"{o.variable}_FILE")} | {CONFIG_VARIABLE}
        for name in sorted(self.environ):
            if name.startswith("COMPUTERD_") and name not in known:
                yield f"the environment variable {name} means nothing to computerd{_suggestion(name, known)}"

    def settle_users(self, found: dict[str, _Found]) -> Iterator[str]:
        """Refuses users that can't be had; changes `found` where a value was not meant for this daemon."""
        return self.sharing(found) if self.place.root else self.only_the_caller(found)

    def only_the_caller(self, found: dict[str, _Found]) -> Iterator[str]:
        for key in ("agent.user", "agent.users"):
            item, own = found[key], self.built_in(BY_KEY[key])
            if item.value == own.value:
                continue
            if item.origin != str(SYSTEM_FILE):
                where, _, name = item.origin.rpartition(" ")
                raise ConfigError(
                    name or where,
                    f"{key}: only root can run terminals as another user than {self.place.login}; leave it out",
                )
            found[key] = own  # meant for the daemon of the host
        yield f"not started as root: every terminal runs as {self.place.login}, and nothing isolates it from the daemon"

    def sharing(self, found: Mapping[str, _Found]) -> Iterator[str]:
        fallback, users = found["agent.user"].value, found["agent.users"]
        owners: dict[object, list[str]] = {fallback: ["agent.user"]}
        for member, user in dict(users.value).items() if isinstance(users.value, Mapping) else ():
            owners.setdefault(user, []).append(member)
        for user, members in owners.items():
            if len(members) < 2:
                continue
            who = " and ".join(members)
            if not found["agent.shared"].value:
                raise ConfigError(
                    users.origin,
                    f"agent.users: {who} have the same Unix user {user}, so that each can read what is the other's; "
                    "give each a user of its own, or write agent.shared = true",
                )
            yield f"{who} share the Unix user {user}, and are not protected from each other"


def _check_limits(found: Mapping[str, _Found]) -> None:
    soft, hard = found["agent.nofile_soft"].value, found["agent.nofile_hard"].value
    if isinstance(soft, int) and isinstance(hard, int) and soft > hard:
        raise ConfigError(
            found["agent.nofile_soft"].origin, f"agent.nofile_soft: must not be over agent.nofile_hard, {hard}"
        )


def _assemble(values: Mapping[str, Any]) -> Config:
    def section(name: str) -> dict[str, Any]:
        return {key.removeprefix(f"{name}."): value for key, value in values.items() if key.startswith(f"{name}.")}

    key = section("auth")["public_key"]
    pem = key if key is not None and not key.startswith("/") else None
    return Config(
        file=None,
        **{name: value for name, value in values.items() if "." not in name},
        agent=Agent(**section("agent")),
        auth=Auth(public_key=pem, public_key_file=Path(key) if key is not None and pem is None else None),
        sessions=Sessions(**section("sessions")),
        journal=Journal(**section("journal")),
        audit=Audit(**section("audit")),
        metrics=Metrics(**section("metrics")),
        log=Log(**section("log")),
    )


def _shown(option: Option, value: object) -> str:
    return "none" if value is None and option.key == "auth.public_key" else option.kind.shown(value)


def _wrong(option: Option, key: str, value: object) -> str:
    shown = repr(value)
    short = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return f"{key + ': ' if key else ''}must be {option.kind.allowed}, not {short}"


def _suggestion(name: str, known: Mapping[str, object] | set[str]) -> str:
    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
