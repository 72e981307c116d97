"""The first module that runs in a worker: makes the others importable out of memory, and begins. It is run by `boot.BOOT`, with `boot` set."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PACKAGE = "computerd.host.worker"


class Memory(MetaPathFinder, Loader):
    """Finds modules among texts. What is above them are empty packages."""

    def __init__(self, modules: dict[str, str]) -> None:
        self._modules = modules

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """As import asks for it."""
        package = f"{_PACKAGE}.".startswith(f"{name}.")
        return ModuleSpec(name, self, is_package=package) if package or name in self._modules else None

    def exec_module(self, module: ModuleType) -> None:
        """Runs it. Compiled when it is first wanted: a listing needs no archives."""
        source = self._modules.get(module.__name__)
        if source is not None:
            exec(compile(source, f"<{module.__name__}>", "exec"), module.__dict__)  # noqa: S102 -- this is how the program arrives


def start(modules: dict[str, str], paths: list[str]) -> None:
    """Runs until the daemon is gone. Never returns."""
    sys.meta_path.insert(0, Memory(modules))
    from computerd.host.worker import serving  # noqa: PLC0415 -- not importable before

    serving.main(paths)


if __name__ == "starting":
    start(boot["modules"], boot["paths"])  # type: ignore[name-defined]  # noqa: F821 -- set by BOOT
