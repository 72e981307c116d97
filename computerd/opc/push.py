"""`opc push`: a folder or file of this host becomes a new folder of the workspace, whole or not at all."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from computerd.opc import coding, destinations, locate, progress, say, sessions
from computerd.opc.backoff import chance
from computerd.opc.ended import Ended, ending
from computerd.opc.equal import difference, divided
from computerd.opc.exchange import LANDING_SECONDS, PIECE, Exchange
from computerd.opc.failure import LINK_LOST, Failure
from computerd.opc.localtree import Item, LocalTree, look, staying, unreadable
from computerd.opc.locate import Place
from computerd.opc.pack import pack
from computerd.opc.patient import Patient
from computerd.opc.plain import json_line, visible
from computerd.opc.progress import Progress
from computerd.opc.say import Say
from computerd.opc.streams import sanitise
from computerd.opc.tree import Tree, route

_NOTHING_CHANGED = "Nothing was changed."
_TOLD = 5
"""Names of what is left out that are told one by one."""
_MAYBE = "It may have landed nevertheless: `opc ls` tells."


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Pushes.

    Raises:
        Failure: It can't be done.
    """
    sanitise()
    tree, out = (None, []) if options.source == "-" else staying(_looked(options))
    if options.dry_run and tree is not None:
        return _listed(tree, out)
    path = destinations.pushed(options.source, options.dest, single=tree is None or not tree.folder)
    if tree is None and os.isatty(0):
        raise Failure(
            "input_lost", "an archive can't be typed: give it on standard input, as in `tar -c . | opc push - DEST`."
        )
    settings = locate.configured(options, env)
    place = locate.locate(settings, env)
    speaker = say.speaker(options.quiet, options.verbose, settings.color.value, env)
    if place.address.exposed and place.token is not None:
        speaker.warn(f"the token crosses the network in clear; use wss:// instead of {place.address.url}.")
    for line in _left_out(tree, out) if tree is not None else ():
        speaker.warn(line)
    push = Push(place, options.session or sessions.mine(place, speaker), path, options, speaker)
    shown = progress.wanted(options.quiet, env)
    with ending():
        done = push.stream(shown) if tree is None else push.tree(tree, shown)
    if options.json:
        print(json_line(done))
    return 0


def _looked(options: Namespace) -> LocalTree:
    ignored = None
    if options.gitignore:
        from computerd.opc.ignore import Ignore  # noqa: PLC0415  pathspec

        ignored = Ignore(options.source)
    return look(options.source, ignored)


def _listed(tree: LocalTree, out: Sequence[str]) -> int:
    """What would be sent, without asking anybody."""
    for item in tree.items:
        end = {"directory": "/", "symlink": f" -> {item.target}"}.get(item.kind, "")
        print(visible(item.name + end))
    for line in _left_out(tree, out):
        sys.stderr.write(f"opc: {line}\n")
    return 0


def _left_out(tree: LocalTree, out: Sequence[str]) -> Iterator[str]:
    """What is to be said of what is not sent."""
    for names, why in (
        (tree.left_out, "is no file, folder or link, and is left out."),
        (out, "is a link that leads out of what is pushed, and is left out."),
    ):
        for name in names[:_TOLD]:
            yield f"{visible(name)} {why}"
        if len(names) > _TOLD:
            yield f"and so on: {len(names)} of this kind are left out."


class Push:
    """One push.

    Args:
        place: Which daemon.
        session: Its id.
        path: Of the new folder.
        options: Of the command line.
        speaker: Tells the person.
    """

    def __init__(self, place: Place, session: str, path: str, options: Namespace, speaker: Say) -> None:
        self._place = place
        self._session = session
        self._path = path
        self._force: bool = options.force
        self._compress: bool = options.compress
        self._speaker = speaker
        self._remote = Tree(Patient(lambda: place, time.sleep, time.monotonic, chance), session)

    def tree(self, tree: LocalTree, shown: bool) -> dict[str, Any]:
        """Sends a folder or file, unless it is there already. Returns the API's answer, or the like."""
        items: Sequence[Item] = tree.items
        if self._force:
            items, differs = self._compared(tree)
            if differs is None:
                return self._up_to_date(tree)
            if not tree.folder:
                self._spare(tree.items[0].name)
        try:
            return self._send_items(items, shown)
        except Failure as failure:
            if failure.code == "invalid_archive" and any(item.kept for item in items):
                self._speaker.detail("what was equal there is so no more: sending all of it.")
                return self._send_items(tree.items, shown)
            if failure.code != "path_exists" or self._force:
                raise
            _, differs = self._compared(tree)
            if differs is None:
                return self._up_to_date(tree)
            raise _exists(self._path, failure, differs) from None

    def _send_items(self, items: Sequence[Item], shown: bool) -> dict[str, Any]:
        sent = [item.size for item in items if item.kind == "file" and not item.kept]
        line = Progress(f"push {visible(self._path)}", sum(sent), shown=shown)
        done = self._send(pack(items, line.add), line, coding.GZIP if self._compress else None)
        self._told(done, line, sum(item.kept for item in items))
        return done

    def stream(self, shown: bool) -> dict[str, Any]:
        """Sends the archive on standard input."""
        line = Progress(f"push {visible(self._path)}", None, shown=shown)
        pieces = _input(line)
        start = next(pieces, b"")
        known = coding.sniffed(start)

        def all_of_it() -> Iterator[bytes]:
            yield start
            yield from pieces

        compress = self._compress and known is None
        try:
            done = self._send(all_of_it(), line, coding.GZIP if compress else None, known)
        except Failure as failure:
            raise _exists(self._path, failure, None) if failure.code == "path_exists" else failure from None
        self._told(done, line)
        return done

    def _compared(self, tree: LocalTree) -> tuple[Sequence[Item], str | None]:
        """What is to be sent, and what is not the same there; `""` if nothing is there."""
        try:
            there = self._remote.below(self._path)
            return divided(tree.items, there) if self._force else (tree.items, difference(tree.items, there))
        except Failure as failure:
            if failure.code == "path_not_found":
                return tree.items, ""
            raise self._no_folder(failure) if failure.code == "invalid_path" else failure from None

    def _spare(self, name: str) -> None:
        """Refuses to replace a folder by a single file: whoever asks for that most likely means to add it."""
        try:
            found = {entry.name for entry in self._remote.below(self._path, depth=1)}
        except Failure as failure:
            if failure.code == "path_not_found":
                return
            raise
        if found - {name}:
            raise Failure(
                "path_exists",
                f"{visible(self._path)} holds more than {visible(name)}, and a push replaces a folder as a whole. "
                "Choose another DEST, or push a folder.",
            )

    def _no_folder(self, failure: Failure) -> Failure:
        """What is there is not replaced by a folder: whoever asks for that most likely means to write the file."""
        return Failure(
            "path_exists",
            f"{visible(self._path)} can't be replaced by a folder, which a push makes. {failure.message} Choose another DEST.",
            failure.request_id,
        )

    def _send(
        self, pieces: Iterable[bytes], line: Progress, wrap: str | None, wrapped: str | None = None
    ) -> dict[str, Any]:
        query = {"path": self._path} | ({"replace": "true"} if self._force else {})
        headers = {"Content-Type": "application/x-tar", "Accept": "application/json"}
        if wrap or wrapped:
            headers["Content-Encoding"] = wrap or wrapped or ""
        exchange = Exchange(self._place, "PUT", route(self._session, "archive"), query, headers, upload=True)
        try:
            with exchange:
                if exchange.invited():
                    all(exchange.send(piece) for piece in (coding.compressed(pieces) if wrap else pieces))
                    exchange.finish()
                done = exchange.whole(LANDING_SECONDS)
        except Failure as failure:
            if failure.code == "path_not_found" and "/" in self._path:
                failure.message = (
                    f"there is no folder {visible(os.path.dirname(self._path))} in the workspace; make it first."
                )
            elif failure.code == "invalid_archive":
                failure.message += f" {_NOTHING_CHANGED}"
            elif failure.code == LINK_LOST:
                failure.message += f" {_MAYBE if exchange.complete else _NOTHING_CHANGED}"
            raise
        except (KeyboardInterrupt, Ended):
            line.clear()
            self._speaker.error(f"interrupted. {_MAYBE if exchange.complete else _NOTHING_CHANGED}")
            raise
        finally:
            line.clear()
        if not exchange.complete or not all(isinstance(done.get(name), int) for name in ("files", "bytes")):
            raise Failure("invalid_answer", f"the daemon did not say that it has landed. {_MAYBE}")
        return done

    def _told(self, done: Mapping[str, Any], line: Progress, kept: int = 0) -> None:
        seconds = max(line.seconds, 0.001)
        rate = "" if kept else f" ({progress.size(done['bytes'] / seconds)}/s)"
        self._speaker.note(
            f"pushed {visible(str(done.get('path')))}: {progress.files(done['files'])}, {progress.size(done['bytes'])} "
            f"in {seconds:.1f} s{rate}{', replaced' if done.get('replaced') else ''}"
            f"{f'; {progress.files(kept)} equal, {progress.size(line.bytes)} sent' if kept else ''}"
        )

    def _up_to_date(self, tree: LocalTree) -> dict[str, Any]:
        files = sum(item.kind != "directory" for item in tree.items)
        self._speaker.note(
            f"{visible(self._path)} is there already: {progress.files(files)} equal in size and time. Nothing was sent."
        )
        return {"path": self._path, "files": 0, "bytes": 0, "replaced": False, "seq": None}


def _exists(path: str, failure: Failure, differs: str | None) -> Failure:
    which = f" and {visible(differs)} is not the same" if differs else ""
    return Failure(
        "path_exists",
        f"{visible(path)} is there already{which}. --force replaces it as a whole; or choose another DEST.",
        failure.request_id,
    )


def _input(line: Progress) -> Iterator[bytes]:
    """Standard input."""
    while True:
        try:
            data = os.read(0, PIECE)
        except OSError as error:
            raise unreadable("standard input", error) from None
        if not data:
            return
        line.add(len(data))
        yield data
