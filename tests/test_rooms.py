"""The rooms of the house are all there, all in the contract that import-linter checks, and the names of their modules say something."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

TOP = Path(__file__).resolve().parent.parent
PACKAGE = TOP / "computerd"
ROOMS = {
    "tap", "ctl", "config", "net", "host", "journal", "opc", "api", "openterminal", "agent", "workspace", "session", "terminal", "wire", "contract",
}  # fmt: skip
EMPTY_NAMES = {"manager", "handler", "handlers", "utils", "util", "helpers", "helper", "common", "base", "misc"}


class Rooms(SynchronousTestCase):
    """What `make rooms` relies on."""

    def test_every_room_and_no_other(self) -> None:
        found = {
            path.stem
            for path in PACKAGE.iterdir()
            if (path.is_dir() and (path / "__init__.py").is_file()) or path.suffix == ".py"
        }
        self.assertEqual(found - {"__init__"}, ROOMS)

    def test_layers_name_every_room(self) -> None:
        setup = configparser.ConfigParser()
        setup.read(TOP / "setup.cfg")
        layers = setup["importlinter:contract:rooms"]["layers"]
        self.assertEqual(sorted(re.findall(r"\w+", layers)), sorted(ROOMS))
        self.assertEqual(setup["importlinter:contract:rooms"]["exhaustive"], "True")

    def test_module_names(self) -> None:
        names = {path.stem for path in PACKAGE.rglob("*.py")}
        self.assertEqual(names & EMPTY_NAMES, set())

    def test_every_module_postpones_annotations(self) -> None:
        texts = {str(path): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
        with_code = {path for path, text in texts.items() if "import " in text}
        without = [path for path in with_code if "from __future__ import annotations" not in texts[path]]
        self.assertEqual(without, [])

    def test_no_package_of_ours_within_twisted(self) -> None:
        self.assertEqual(list((TOP / "twisted").rglob("__init__.py")), [])
