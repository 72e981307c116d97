"""The command line of `twistd computerd`: a flag for each row of the table of options that has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from twisted.python import usage

from computerd.config.options import CONFIG_FLAG, OPTIONS


class Options(usage.Options):
    """What the command line gave; nothing is checked here."""

    synopsis = "[options]"
    longdesc = (
        "Opens terminals as an agent's Unix user and serves them over WebSocket. Every option is also a key of the configuration "
        "file and an environment variable COMPUTERD_…"
    )
    optParameters: ClassVar[list[list[Any]]] = [
        [option.flag, None, None, option.meaning] for option in OPTIONS if option.flag and not option.repeatable
    ] + [[CONFIG_FLAG, None, None, "The configuration file."]]

    def opt_listen(self, endpoint: str) -> None:
        """A Twisted server endpoint to listen on. May be given more than once."""
        self.setdefault("listen", []).append(endpoint)

    def flags(self) -> Mapping[str, str | list[str] | None]:
        """The flags that were given, by name."""
        return {name: value for name, value in self.items() if value is not None}
