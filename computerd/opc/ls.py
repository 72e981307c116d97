"""`opc ls`: what a folder of the workspace holds."""

from __future__ import annotations

import stat
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Final

from computerd.opc import locate, say, sessions
from computerd.opc.backoff import chance
from computerd.opc.failure import Failure
from computerd.opc.patient import Patient
from computerd.opc.plain import json_line, visible
from computerd.opc.streams import sanitise
from computerd.opc.tree import Entry, Tree, plain, told

_TYPES: Final = {"file": stat.S_IFREG, "directory": stat.S_IFDIR, "symlink": stat.S_IFLNK, "other": 0}


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Lists.

    Raises:
        Failure: There is nothing to list.
    """
    sanitise()
    settings = locate.configured(options, env)
    place = locate.locate(settings, env)
    speaker = say.speaker(options.quiet, options.verbose, settings.color.value, env)
    session = sessions.existing(options.session, place, speaker, "ls")
    path = plain(options.path)
    tree = Tree(Patient(lambda: locate.locate(settings, env), time.sleep, time.monotonic, chance), session)
    found = _found(tree, path, recursive=options.recursive)
    if options.json:
        print(json_line({"path": path, "entries": [entry.told for entry in found]}))
        return 0
    for entry in found:
        print(line(entry))
    return 0


def _found(tree: Tree, path: str, *, recursive: bool) -> Iterator[Entry]:
    """What is in a folder; of anything else, itself."""
    try:
        yield from tree.below(path, depth=None if recursive else 1)
    except Failure as failure:
        if failure.code != "invalid_path" or not path:
            raise told(path, failure) from None
        above, _, name = path.rpartition("/")
        try:
            yield next(entry for entry in tree.below(above, depth=1) if entry.name == name)
        except (Failure, StopIteration):
            raise told(path, failure) from None


def line(entry: Entry) -> str:
    """What a person reads: mode, size, local time, name; a folder's name ends in a slash, and a link says where it leads."""
    mode = stat.filemode(_TYPES[entry.kind] | (entry.mode & 0o7777))
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.modified_ms / 1000))
    end = {"directory": "/", "symlink": f" -> {entry.target}"}.get(entry.kind, "")
    return f"{mode} {entry.size:>10} {when} {visible(entry.name + end)}"
