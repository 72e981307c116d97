"""A daemon, or whoever made an archive, who means harm to the one who pulls: nothing grows without end, and nothing steers the terminal."""

from __future__ import annotations

import itertools
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.opc import address, coding, landing, patchwork, requests
from computerd.opc.calls import Calls
from computerd.opc.failure import Failure
from computerd.opc.locate import Place
from computerd.opc.patchwork import Patchwork, Work, gathered
from computerd.opc.say import Say
from computerd.opc.tree import Entry, Tree
from computerd.opc.unpack import MAX_BEFORE, MAX_END, Archive
from tests.opc.test_archive import Folders, land, one, tar
from tests.opc.workspaces import WithWorkspace, fill, tree

STEERING = "\x1b]0;x\x07\x1b[31m"


def told(path: str, **more: Any) -> dict[str, Any]:
    """An entry of a listing."""
    entry = {"path": path, "type": "file", "size": 3, "mode": "0644", "modifiedAt": "2026-01-01T00:00:00.000Z"}
    return {**entry, "target": None, "encoded": False, **more}


def entry(path: str, size: int = 3) -> Entry:
    return Entry(path, path, "file", size, 0o644, 0, None, False, {})


def header(kind: bytes, body: bytes) -> bytes:
    """An extended one, with what it says."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, len(body)
    return info.tobuf(tarfile.USTAR_FORMAT) + body + bytes(-len(body) % 512)


def record(key: bytes, value: bytes) -> bytes:
    rest = len(key) + len(value) + 3
    length = next(n for n in range(rest, rest + 9) if len(str(n)) + rest == n)
    return b"%d %s=%s\n" % (length, key, value)


class Asked:
    """Answers in place of a daemon."""

    def __init__(self, *entries: Any, path: str = "src") -> None:
        self.answer = {"path": path, "entries": list(entries), "nextCursor": None}

    def ask(self, method: str, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self.answer


def listed(*entries: Any, path: str = "src") -> list[Entry]:
    daemon: Any = Asked(*entries, path=path)
    return list(Tree(daemon, "cs_1").below("src"))


class ListingTests(SynchronousTestCase):
    def test_what_can_not_be(self) -> None:
        self.assertEqual([one.name for one in listed(told("src/a"), told("src/ü"))], ["a", "ü"])
        wrong: Any
        for wrong in (
            told("src/a", size=-1),
            told("src/a", size=10**400),
            told("src/a", size=float("inf")),
            told("src/a", mode="-777"),
            told("src/a", mode="7" * 30),
            told("src/\ud800"),
            told("src/a", type="symlink", target="\ud800"),
            told("src/a", modifiedAt="0001-01-01T00:00:00"),
            None,
            [],
        ):
            failure = self.assertRaises(Failure, listed, wrong)
            self.assertEqual(failure.code, "invalid_answer", wrong)
        failure = self.assertRaises(Failure, listed, told("\ud800/a", encoded=True), path="\ud800")
        self.assertEqual(failure.code, "invalid_answer")

    def test_one_without_end(self) -> None:
        self.patch(limits, "MAX_ARCHIVE_ENTRIES", 5)
        endless = (entry(f"f{number}") for number in itertools.count())
        failure = self.assertRaises(Failure, gathered, endless, STEERING)
        self.assertEqual((failure.code, failure.message.isprintable()), ("too_large", True))
        self.assertEqual(len(gathered(map(entry, "abcde"), "d")), 5)
        self.patch(patchwork, "MAX_NAMES", 1000)
        self.assertRaises(Failure, gathered, [entry("n" * 501)], "d")

    def test_answers_that_are_none(self) -> None:
        place = Place(address.parse("ws://127.0.0.1:1"), None, "flag")
        deep = b"[" * 200_000
        for status, body in ((200, deep), (400, deep), (200, b"\xff"), (200, b"1" * 5000), (200, b'{"a":' * 200_000)):
            failure = self.assertRaises(Failure, requests.answer, place, status, body)
            self.assertEqual(failure.code, "invalid_answer")
        self.assertIsNone(Calls().take(deep))
        error = {"code": STEERING, "message": STEERING, "requestId": STEERING}
        failure = self.assertRaises(Failure, requests.answer, place, 400, json.dumps({"error": error}).encode())
        self.assertTrue(all(str(said).isprintable() for said in failure.body()["error"].values()))


class FilesTests(Folders):
    """What is fetched file by file."""

    def fetched(self, listed: Entry, pieces: Iterator[bytes]) -> Failure:
        def fetch(entry: Entry) -> AbstractContextManager[Iterator[bytes]]:
            return nullcontext(pieces)

        old = self.outside / "old"
        old.mkdir(exist_ok=True)
        landed = landing.Landing(tempfile.mkdtemp(dir=self.outside), lambda count: None)
        self.addCleanup(landed.close)
        patched = Patchwork(Work([listed], {}, [], 1, 3, 0, True), str(old), fetch)
        failure = self.assertRaises(Failure, landed.take, patched)
        assert isinstance(failure, Failure)
        return failure

    def test_a_body_that_is_not_as_long_as_listed(self) -> None:
        taken = []

        def endless() -> Iterator[bytes]:
            while True:
                taken.append(1)
                yield b"A" * 100

        self.assertIn("changed while it was fetched", self.fetched(entry("f", 150), endless()).message)
        self.assertEqual(len(taken), 2)
        self.assertIn("changed while it was fetched", self.fetched(entry("g", 150), iter([b"A"])).message)

    def test_its_name_does_not_steer_the_terminal(self) -> None:
        message = self.fetched(entry(STEERING + "n" * 240), iter([b""])).message
        self.assertTrue(message.isprintable())
        self.assertIn("\\x1b]0;x\\x07", message)
        self.assertLess(len(message), 400)

    def test_nothing_that_is_said_does(self) -> None:
        out, into = os.pipe()
        say = Say(quiet=False, verbose=0, color=False, fd=into)
        say.error(f"{STEERING}\nnext \udcff…")
        os.close(into)
        with os.fdopen(out, "rb") as lines:
            self.assertEqual(lines.read().decode(), "opc: \\x1b]0;x\\x07\\x1b[31m\\x0anext \\udcff…\n")


class ArchiveTests(Folders):
    def refused(self, data: bytes) -> str:
        failure = self.assertRaises(Failure, land, data, Path(tempfile.mkdtemp(dir=self.outside)))
        self.assertEqual(failure.code, "invalid_archive")
        message: str = failure.message
        return message

    def test_headers_without_end(self) -> None:
        def endless(kind: bytes) -> Iterator[bytes]:
            for number in itertools.count():
                yield header(kind, b"".join(record(b"k%d.%d" % (number, one), b"v" * 40) for one in range(20)))

        for kind in (b"x", b"g", b"L"):
            source = endless(kind)
            failure = self.assertRaises(Failure, list, Archive(source))
            self.assertIn("too many headers before an entry", failure.message)
        for kinds in (b"x" * (MAX_BEFORE - 1), b"g" * (MAX_BEFORE - 1)):
            before = b"".join(header(bytes([kind]), record(b"path", b"name")) for kind in kinds)
            top = Path(tempfile.mkdtemp(dir=self.outside))
            land(before + tar(one("f", body=b"x")), top)
            self.assertEqual(os.listdir(top), ["name"])

    def test_only_what_concerns_us_is_kept(self) -> None:
        known = record(b"mtime", b"5.5") + record(b"SCHILY.xattr.user.x", b"v" * 1000) + record(b"path", b"name")
        land(header(b"g", known) + tar(one("f", body=b"x")), self.top)
        self.assertEqual((self.top / "name").stat().st_mtime, 5.5)
        old = record(b"GNU.sparse.size", b"5") + record(b"GNU.sparse.map", b"0,1")
        self.assertIn("sparse in an old format", self.refused(header(b"x", old) + tar(one("f", body=b"x"))))

    def test_after_the_end(self) -> None:
        good = tar(one("f", body=b"x")).rstrip(b"\0")
        good += bytes(-len(good) % 512)
        land(good + bytes(MAX_END), self.top)
        taken = []

        def endless(piece: bytes) -> Iterator[bytes]:
            yield good + bytes(1024)
            while True:
                taken.append(1)
                yield piece

        failure = self.assertRaises(Failure, list, Archive(endless(bytes(65536))))
        self.assertIn("too much comes after its end", failure.message)
        self.assertLess(len(taken), MAX_END // 65536 + 1)
        self.assertIn("something comes after its end", self.refused(good + bytes(1024) + b"junk"))
        failure = self.assertRaises(Failure, list, Archive(endless(b"junk")))
        self.assertIn("something comes after its end", failure.message)

    def test_a_coding_that_was_not_asked_for(self) -> None:
        packed = b"".join(coding.compressed([b"data"]))
        self.assertEqual(list(coding.expanded([packed], "gzip", asked=True)), [b"data"])
        for name, asked in (("gzip", False), ("br", True), (STEERING * 100, True)):
            failure = self.assertRaises(Failure, list, coding.expanded([packed], name, asked=asked))
            self.assertIn("which was not asked for", failure.message)
            self.assertTrue(failure.message.isprintable() and len(failure.message) < 200, failure.message)

    def test_what_comes_after_the_end_of_the_coding(self) -> None:
        packed = b"".join(coding.compressed([b"data"]))
        for pieces in ([packed, b"more"], [packed + b"more"], itertools.chain([packed], itertools.repeat(b"x"))):
            failure = self.assertRaises(Failure, list, coding.expanded(pieces, "gzip", asked=True))
            self.assertIn("something comes after the end", failure.message)

    def test_folders_again_and_again(self) -> None:
        long = "/".join(["d" * 200] * 5)
        self.patch(landing, "MAX_NAMES", 2000)
        same = [one(long, tarfile.DIRTYPE, mode=0o700, mtime=number) for number in range(9)]
        land(tar(*same), self.top)
        self.assertEqual((self.top / long).stat().st_mtime, 8)
        other = [one(f"{long}/{number}", tarfile.DIRTYPE) for number in range(3)]
        self.assertIn("too long, all of them together", self.refused(tar(*other)))

    def test_links_that_lead_out(self) -> None:
        name = "/".join(["d" * 200] * 3)
        landed = land(tar(one(name, tarfile.SYMTYPE, linkname="/etc")), self.top)
        self.assertEqual((len(landed.refused[0]), landed.refused[0][-1]), (200, "…"))
        self.patch(landing, "MAX_NAMES", 500)
        out = [one(f"{number}{name}", tarfile.SYMTYPE, linkname="/etc") for number in range(3)]
        self.assertIn("too long, all of them together", self.refused(tar(*out)))

    def test_folders_that_nobody_listed(self) -> None:
        self.patch(limits, "MAX_ARCHIVE_ENTRIES", 10)
        land(tar(one("/".join("abcdefghij") + "/f", body=b"x")), self.top)
        self.assertIn("more than 10 folders", self.refused(tar(one("/".join("abcdefghijk") + "/f", body=b"x"))))


class PullTests(WithWorkspace):
    def test_names_that_are_no_utf_8(self) -> None:
        """They are typed as `opc ls` spells them, and land as they are."""
        site = self.there / "site"
        (site / os.fsdecode(b"d\xff")).mkdir(parents=True)
        for name in (b"bad\xff\xfename", b"d\xff/f", b"x%41"):
            (site / os.fsdecode(name)).write_bytes(name)
        (self.here / "q").mkdir()
        for words, landed in (
            (("site/bad%FF%FEname", "q/"), b"q/bad\xff\xfename"),
            (("./site//bad%FF%FEname",), b"bad\xff\xfename"),
            (("site/d%FF/", "q/."), b"q/d\xff/f"),
            (("site/x%41", "q/"), b"q/x%41"),
            (("site/bad%FF%FEname", "q/a%FF"), b"q/a%FF"),
        ):
            self.good("pull", *words)
            self.assertTrue(os.path.isfile(os.path.join(os.fsencode(self.here), landed)), words)
        self.assertIn("is there already", self.bad("pull", "site/bad%FF%FEname", "q/"))

    def test_many_links_that_lead_out(self) -> None:
        (self.there / "site").mkdir()
        names = [f"{number}{STEERING}" for number in range(9)]
        self.archive(tar(*(one(name, tarfile.SYMTYPE, linkname="/etc") for name in names)))
        lines = self.good("pull", "site").stderr.decode().splitlines()
        self.assertTrue(all(line.isprintable() for line in lines))
        self.assertEqual(sum("leads out of it" in line for line in lines), 5)
        self.assertIn("opc: and so on: 9 of this kind were left out.", lines)

    def test_a_connection_that_is_lost(self) -> None:
        site = fill(self.there / "site")
        self.fault("GET archive", cut=10_000)
        said = self.bad("pull", "site")
        self.assertTrue("was lost" in said and said.endswith("Nothing was changed.\n"), said)
        self.good("pull", "site")
        before = tree(self.here / "site")
        (site / "src" / "run").write_text("changed")
        self.fault("GET file", cut=3)
        said = self.bad("pull", "-f", "site")
        self.assertTrue("was lost" in said and said.endswith("Nothing was changed.\n"), said)
        self.assertEqual(tree(self.here / "site"), before)
        self.fault("GET archive", cut=10_000)
        self.assertNotIn("Nothing was changed", self.bad("pull", "site", "-"))
