"""`opc pull`: a folder or file of the workspace lands on this host, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from computerd.contract import limits
from computerd.opc import coding, destinations, locate, patchwork, progress, say, sessions
from computerd.opc.backoff import Backoff, chance
from computerd.opc.beside import Land, is_folder, landed_beside
from computerd.opc.ended import Ended, ending
from computerd.opc.exchange import Exchange
from computerd.opc.failure import LINK_LOST, Failure
from computerd.opc.landing import Landing
from computerd.opc.locate import Place
from computerd.opc.patient import Patient
from computerd.opc.plain import visible
from computerd.opc.progress import Progress
from computerd.opc.say import Say
from computerd.opc.streams import sanitise
from computerd.opc.tree import Entry, Tree, route, spelled
from computerd.opc.unpack import Archive

COUNTED: Final = 2000
"""Entries that are looked at before a pull, to say how long it will take. Of more, only the bytes and the rate are told."""
TRIES: Final = 6
"""For each file that is fetched by itself, if the daemon says that it is too much or not now: some 3 s."""
_PASSING: Final = (429, 503)
_TOLD: Final = 5
"""Names of links that are left out that are told one by one."""
_UNREADABLE: Final = "Computer-Unreadable"
"""The trailer field of an archive: how many files and folders it lacks because the session's user may not read them."""


def run(options: Namespace, env: Mapping[str, str]) -> int:
    """Pulls.

    Raises:
        Failure: It can't be done.
        BrokenPipeError: Nobody reads the archive that goes to standard output.
    """
    sanitise()
    dest = None if options.dest == "-" or options.dry_run else destinations.pulled(options.source, options.dest)
    if options.dest == "-" and os.isatty(1):
        raise Failure("output_lost", "an archive is nothing for a terminal: redirect standard output.")
    settings = locate.configured(options, env)
    place = locate.locate(settings, env)
    speaker = say.speaker(options.quiet, options.verbose, settings.color.value, env)
    if place.address.exposed and place.token is not None:
        speaker.warn(f"the token crosses the network in clear; use wss:// instead of {place.address.url}.")
    pull = Pull(place, sessions.existing(options.session, place, speaker, "pull"), options, speaker)
    shown = progress.wanted(options.quiet, env)
    with ending():
        if options.dry_run:
            pull.listed()
        elif dest is None:
            pull.archive(shown)
        else:
            pull.land(dest, shown)
    return pull.status()


class Pull:
    """One pull.

    Args:
        place: Which daemon.
        session: Its id.
        options: Of the command line.
        speaker: Tells the person.
    """

    def __init__(self, place: Place, session: str, options: Namespace, speaker: Say) -> None:
        self._place = place
        self._session = session
        self._source = spelled("/".join(p for p in options.source.split("/") if p not in ("", ".")))
        if options.source.startswith("/"):
            self._source = f"/{self._source}"
        self._force: bool = options.force
        self._compress: bool = options.compress
        self._same_name = options.dest is None or os.path.basename(options.dest) in ("", ".", "..")
        self._speaker = speaker
        self._tree = Tree(Patient(lambda: place, time.sleep, time.monotonic, chance), session)
        self._shown_name = visible(self._source or ".")
        self._unreadable = 0

    def status(self) -> int:
        """Of the whole command, once all has landed: 1 if something is missing, which is said here."""
        if not self._unreadable:
            return 0
        what, are = ("file or folder", "is") if self._unreadable == 1 else ("files or folders", "are")
        # said with --quiet too, as every status but 0 is explained
        self._speaker.error(
            f"{self._unreadable} {what} of {self._shown_name} can't be read by the session's user, and {are} missing."
        )
        return 1

    def listed(self) -> None:
        """Prints what would be fetched."""
        if not self._tree.is_folder(self._source):
            print(visible(self._source))
            return
        for entry in self._tree.below(self._source):
            end = {"directory": "/", "symlink": f" -> {entry.target}"}.get(entry.kind, "")
            if entry.kind != "other":
                print(visible(entry.name + end))

    def archive(self, shown: bool) -> None:
        """Writes the archive to standard output."""
        line = Progress(f"pull {self._shown_name}", None, shown=shown)
        try:
            with self._download() as pieces:
                for piece in pieces:
                    rest = piece
                    while rest:
                        rest = rest[os.write(1, rest) :]
                    line.add(len(piece))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Failure("output_lost", f"can't write the archive: {error.strerror or error}.") from None
        finally:
            line.clear()

    def land(self, dest: str, shown: bool) -> None:
        """Fetches it to `dest`, unless it is there already."""
        folder = self._tree.is_folder(self._source)
        dest = self._spelled_here(dest)
        parent = os.path.dirname(dest) or "."
        if not os.path.isdir(parent):
            raise Failure("path_not_found", f"there is no folder {visible(parent)} to land in. Make it first.")
        fetch: Land = self._whole
        total: int | None = None
        entries: list[Entry] | None = None
        if os.path.lexists(dest):
            if folder and is_folder(dest):
                entries = patchwork.gathered(self._tree.below(self._source), self._source)
                work = patchwork.work(entries, dest)
                if not work.differs:
                    self._speaker.note(
                        f"{visible(dest)} is there already: {progress.files(work.equal)} equal in size and time. "
                        "Nothing was fetched."
                    )
                    return
                if self._force and work.worth_it:
                    fetch, total = self._patched(work, dest), work.bytes
                self._may_replace(dest, folder, work.differs[0])
            else:
                self._may_replace(dest, folder, None)
        if total is None and shown and folder:
            total = self._total(entries)
        line = Progress(f"pull {self._shown_name}", total, shown=shown)
        try:
            with _unchanged():
                landed = self._landed(dest, fetch, line, folder=folder)
        except OSError as error:
            raise Failure(
                "output_lost", f"can't write {visible(dest)}: {error.strerror or error}. Nothing was changed."
            ) from None
        except (KeyboardInterrupt, Ended):
            line.clear()
            self._speaker.error("interrupted. Nothing was changed.")
            raise
        finally:
            line.clear()
        self._told(dest, landed, line)

    def _spelled_here(self, dest: str) -> str:
        """`dest` with its last name as it is in the workspace. If it is not UTF-8, it may have been typed as `opc ls` spells it."""
        if not self._same_name or "%" not in self._source:
            return dest
        above = self._source.rpartition("/")[0]
        for entry in islice(self._tree.below(above, depth=1), limits.MAX_ARCHIVE_ENTRIES):
            name = os.path.basename(entry.local_name)
            if entry.encoded and entry.path == self._source and name not in ("", ".", "..") and "\0" not in name:
                return os.path.join(os.path.dirname(dest), name)
        return dest

    def _landed(self, dest: str, fetch: Land, line: Progress, *, folder: bool) -> Landing:
        try:
            return landed_beside(dest, fetch, line, folder=folder)
        except Failure as failure:
            if fetch == self._whole or failure.code != "invalid_path":
                raise
        # a file that can't be read by itself; an archive leaves it out, and says so
        return landed_beside(dest, self._whole, line, folder=folder)

    def _total(self, entries: list[Entry] | None) -> int | None:
        """How many bytes the folder's files have; None if it takes too long to say."""
        total = 0
        for count, entry in enumerate(self._tree.below(self._source) if entries is None else entries):
            if entries is None and count == COUNTED:
                return None
            total += entry.size if entry.kind == "file" else 0
        return total

    def _may_replace(self, dest: str, folder: bool, differs: str | None) -> None:
        found = os.lstat(dest)
        if folder != stat.S_ISDIR(found.st_mode) or not (folder or stat.S_ISREG(found.st_mode)):
            raise Failure(
                "path_exists",
                f"{visible(dest)} is there already, and is {'no ' if folder else 'not '}"
                f"{'folder' if folder else 'a plain file'}. Choose another DEST"
                f"{'' if folder or not stat.S_ISDIR(found.st_mode) else f', such as {visible(dest)}/'}.",
            )
        if not self._force:
            which = f" and {visible(differs)} is not the same" if differs else ""
            raise Failure(
                "path_exists",
                f"{visible(dest)} is there already{which}. --force replaces it{' as a whole' if folder else ''}; "
                "or choose another DEST.",
            )

    @contextlib.contextmanager
    def _download(self) -> Iterator[Iterator[bytes]]:
        headers = {"Accept": "application/x-tar, application/json"}
        headers["Accept-Encoding"] = coding.GZIP if self._compress else "identity"
        with Exchange(self._place, "GET", route(self._session, "archive"), {"path": self._source}, headers) as exchange:
            exchange.response()
            yield coding.expanded(exchange.pieces(), exchange.header("content-encoding"), asked=self._compress)
            self._unreadable = _number(exchange.trailer(_UNREADABLE))

    def _whole(self, folder: str, line: Progress) -> Landing:
        landing = Landing(folder, line.add)
        try:
            with self._download() as pieces:
                landing.take(Archive(pieces))
        finally:
            landing.close()
        return landing

    def _patched(self, work: patchwork.Work, old: str) -> Land:
        def fetch(folder: str, line: Progress) -> Landing:
            landing = Landing(folder, line.add)
            try:
                landing.take(patchwork.Patchwork(work, old, self._file))
            finally:
                landing.close()
            return landing

        return fetch

    @contextlib.contextmanager
    def _file(self, entry: Entry) -> Iterator[Iterator[bytes]]:
        headers, query = {"Accept-Encoding": "identity"}, {"path": entry.path}
        waits = Backoff(chance)
        for left in reversed(range(TRIES)):
            with Exchange(self._place, "GET", route(self._session, "file"), query, headers) as exchange:
                if not left or exchange.response().status_code not in _PASSING:
                    yield coding.expanded(exchange.pieces(), exchange.header("content-encoding"), asked=False)
                    return
            time.sleep(waits.seconds())

    def _told(self, dest: str, landed: Landing, line: Progress) -> None:
        for name in landed.refused[:_TOLD]:
            self._speaker.warn(f"{visible(name)} is a link that leads out of it, and was left out.")
        if len(landed.refused) > _TOLD:
            self._speaker.warn(f"and so on: {len(landed.refused)} of this kind were left out.")
        seconds = max(line.seconds, 0.001)
        kept = f"; {landed.kept} more were here" if landed.kept else ""
        self._speaker.note(
            f"pulled {visible(dest)}: {progress.files(landed.files)}, {progress.size(landed.bytes)} "
            f"in {seconds:.1f} s ({progress.size(line.bytes / seconds)}/s){kept}"
        )


@contextlib.contextmanager
def _unchanged() -> Iterator[None]:
    """Adds to what does not say so itself that nothing was changed."""
    try:
        yield
    except Failure as failure:
        if failure.code in (LINK_LOST, "invalid_answer"):
            failure.message += " Nothing was changed."
        raise


def _number(told: str | None) -> int:
    """What the trailer says; 0 if there is none, or nothing that a daemon says."""
    return int(told) if told is not None and re.fullmatch("[0-9]{1,19}", told) else 0
