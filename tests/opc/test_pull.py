"""`opc pull`, as people and scripts run it."""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import subprocess
import tarfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from computerd.opc import destinations
from computerd.opc.beside import landed_beside
from computerd.opc.failure import Failure
from computerd.opc.landing import Landing
from computerd.opc.progress import Progress
from tests.opc.person import OPC, Person
from tests.opc.test_archive import one, tar
from tests.opc.workspaces import ID, WithWorkspace, fill, tree


class PullTests(WithWorkspace):
    def setUp(self) -> None:
        super().setUp()
        self.site = fill(self.there / "site")

    def fetched(self) -> list[str]:
        found: list[str] = self.state()["fetched"]
        return found

    def test_a_folder(self) -> None:
        done = self.good("pull", "site")
        self.assertEqual(tree(self.here / "site"), tree(self.site))
        self.assertEqual(done.stdout, b"")
        self.assertIn("opc: pulled site: 4 files, 1.0 MB in ", done.stderr.decode())
        self.assertEqual((self.here / "site").stat().st_mode & 0o777, 0o777 & ~_umask())
        self.assertEqual(self.left_over(), [])

    def test_where_it_goes(self) -> None:
        (self.here / "var").mkdir()
        for words, here in (
            (("site/", "a"), "a"),
            (("./site", "var/"), "var/site"),
            (("site/src", "."), "src"),
            ((".", "all"), "all/site/src"),
            (("site/data", "."), "data"),
            (("site/data", "var/b"), "var/b"),
            (("site", str(self.here / "c")), "c/src"),
        ):
            self.good("pull", ID, "-q", *words)
            self.assertTrue((self.here / here).exists(), words)
        self.assertIn("say what . is to be called here", self.bad("pull", "."))
        self.assertIn("there is no folder none to land in", self.bad("pull", "site", "none/"))
        self.assertIn("There is nothing at that path", self.bad("pull", "nothing"))
        self.assertIn("relative to the workspace", self.bad("pull", "/etc", "x"))

    def test_a_single_file(self) -> None:
        self.good("pull", "site/src/run")
        self.assertEqual((self.here / "run").read_text(), "#!/bin/sh\n")
        self.assertTrue(os.access(self.here / "run", os.X_OK))
        self.assertIn("run is there already. --force replaces it", self.bad("pull", "site/src/run"))
        (self.site / "src" / "run").write_text("new")
        self.good("pull", "-f", "site/src/run")
        self.assertEqual((self.here / "run").read_text(), "new")

    def test_a_folder_never_takes_the_place_of_a_file_nor_the_reverse(self) -> None:
        (self.here / "data").mkdir()
        (self.here / "site").write_text("mine")
        (self.here / "link").symlink_to("site")
        self.assertIn("is not a plain file. Choose another DEST, such as data/", self.bad("pull", "-f", "site/data"))
        self.assertIn("is no folder", self.bad("pull", "-f", "site"))
        self.assertIn("is not a plain file", self.bad("pull", "-f", "site/data", "link"))
        self.assertEqual((self.here / "site").read_text(), "mine")

    def test_what_is_here_already(self) -> None:
        self.good("pull", "site")
        before = self.fetched()
        done = self.good("pull", "site")
        self.assertIn(
            "site is there already: 4 files equal in size and time. Nothing was fetched.", done.stderr.decode()
        )
        self.good("pull", "-f", "site")
        self.assertEqual(self.fetched(), before)
        (self.here / "site" / "mine").write_text("x")
        self.assertIn("mine is not the same. --force replaces it as a whole", self.bad("pull", "site"))
        (self.site / "data").write_bytes(b"new")
        (self.site / "more").write_bytes(b"more")
        self.assertIn("data is not the same", self.bad("pull", "site"))

    def test_only_what_differs_is_fetched(self) -> None:
        self.good("pull", "site")
        (self.here / "site" / "mine").write_text("x")
        (self.site / "src" / "run").write_text("changed")
        (self.site / "new").mkdir()
        (self.site / "new" / "more").write_text("more")
        (self.site / "link").unlink()
        kept = (self.here / "site" / "data").stat().st_ino
        done = self.good("pull", "-f", "site")
        self.assertEqual(tree(self.here / "site"), tree(self.site))
        self.assertEqual(self.fetched(), ["archive site", "file site/new/more", "file site/src/run"])
        self.assertIn("pulled site: 2 files, 11 B", done.stderr.decode())
        self.assertIn("; 2 more were here", done.stderr.decode())
        self.assertEqual(
            ((self.here / "site" / "data").stat().st_ino, (self.here / "site" / "data").stat().st_nlink), (kept, 1)
        )
        # when the daemon is busy
        (self.site / "src" / "run").write_text("again")
        self.fault("GET file", code="rate_limited")
        self.fault("GET file", code="computer_unavailable")
        self.good("pull", "-f", "site")
        self.assertEqual((self.here / "site" / "src" / "run").read_text(), "again")
        # most of it: then it is one archive
        (self.site / "data").write_bytes(bytes(2_000_000))
        self.good("pull", "-f", "site")
        self.assertEqual(self.fetched()[-1], "archive site")
        self.assertEqual(tree(self.here / "site"), tree(self.site))

    def test_a_failure_in_the_middle_leaves_the_old_one(self) -> None:
        self.good("pull", "site")
        before = tree(self.here / "site")
        (self.site / "src" / "run").write_text("changed")
        self.fault("GET file", cut=3)
        self.assertIn("was lost", self.bad("pull", "-f", "site"))
        (self.site / "data").write_bytes(bytes(2_000_000))
        self.fault("GET archive", cut=1_000_000)
        self.assertIn("was lost", self.bad("pull", "-f", "site"))
        self.fault("GET archive", code="computer_unavailable")
        self.assertIn("Not now", self.bad("pull", "-f", "site"))
        self.assertEqual(tree(self.here / "site"), before)
        self.assertEqual(self.left_over(), [])
        self.good("pull", "-f", "site")

    def test_the_old_one_comes_back_if_the_new_one_can_not_be_put(self) -> None:
        (self.here / "old").mkdir()
        (self.here / "old" / "f").write_text("x")
        real, calls = os.rename, []

        def rename(source: str, target: str) -> None:
            calls.append(target)
            if len(calls) == 2:
                raise KeyboardInterrupt
            real(source, target)

        self.patch(os, "rename", rename)

        def fetch(folder: str, line: Progress) -> Landing:
            landing = Landing(folder, line.add)
            landing.close()
            return landing

        dest = str(self.here / "old")
        self.assertRaises(KeyboardInterrupt, landed_beside, dest, fetch, Progress("", None, shown=False), folder=True)
        self.assertEqual((len(calls), tree(self.here / "old").keys(), self.left_over()), (3, {"f"}, []))

    def test_what_can_not_be_entered_is_replaced_too(self) -> None:
        self.good("pull", "site")
        (self.here / "site" / "src").chmod(0)
        (self.site / "data").write_bytes(bytes(2_000_000))
        self.good("pull", "-f", "site")
        self.assertEqual(tree(self.here / "site"), tree(self.site))
        self.assertEqual(self.left_over(), [])

    def test_an_archive_on_standard_output(self) -> None:
        done = self.good("pull", "site", "-")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            self.assertEqual(
                sorted(archive.getnames()), ["data", "empty", "link", "src", "src/deep", "src/deep/ünï.txt", "src/run"]
            )
        self.assertEqual(self.good("pull", "-C", "site", "-").stdout, done.stdout)
        self.fault("GET archive", cut=10_000)
        self.assertIn("was lost", self.bad("pull", "site", "-"))
        self.assertIn("nothing at that path", self.bad("pull", "nothing", "-"))
        process = subprocess.run(
            f"{' '.join(OPC)} pull site - | head -c 10",
            shell=True,
            env=self.daemon.env(),
            cwd=self.here,
            capture_output=True,
            check=True,
        )
        self.assertEqual((len(process.stdout), process.stderr), (10, b""))
        person = Person.at([*OPC, "pull", "site", "-"], self.daemon.env(), cwd=self.here)
        self.addCleanup(person.leave)
        status, shown = person.end()
        self.assertEqual((status, b"nothing for a terminal" in shown), (255, True))

    def test_what_the_sessions_user_may_not_read(self) -> None:
        """It lands without that, and is no success."""
        for words in (["site"], ["-C", "site", "packed"], ["-q", "site", "quiet"]):
            self.fault("GET archive", unreadable=2)
            done = self.daemon.run("pull", *words)
            last = done.stderr.decode().splitlines()[-1]
            self.assertEqual(
                (done.returncode, last),
                (1, "opc: 2 files or folders of site can't be read by the session's user, and are missing."),
            )
            self.assertEqual(done.stderr.count(b"\n"), 1 if "-q" in words else 2)
            self.assertEqual(tree(self.here / words[-1]), tree(self.site))
        self.assertEqual(self.left_over(), [])
        self.fault("GET archive", unreadable=1)
        done = self.daemon.run("pull", ".", "-")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            self.assertIn("site/data", archive.getnames())
        self.assertEqual(
            (done.returncode, done.stderr.decode()),
            (1, "opc: 1 file or folder of . can't be read by the session's user, and is missing.\n"),
        )

    def test_what_may_not_be_read_of_what_differs(self) -> None:
        """An archive comes instead, as the first time."""
        self.good("pull", "site")
        (self.site / "src" / "run").write_text("changed")
        self.fault("GET file", code="invalid_path")
        self.fault("GET archive", unreadable=1)
        done = self.daemon.run("pull", "-f", "site")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("1 file or folder of site can't be read", done.stderr.decode())
        self.assertEqual(self.fetched(), ["archive site", "archive site"])
        self.assertEqual(tree(self.here / "site"), tree(self.site))
        self.assertEqual(self.left_over(), [])

    def test_daemons_that_do_not_say_what_is_missing(self) -> None:
        """Older ones, proxies that drop it, and what is no number."""
        for number, told in enumerate((None, 0, "", "-1", "two", "9" * 5000, "1, 2")):
            self.fault("GET archive", unreadable=told)
            done = self.good("pull", "site", f"copy{number}")
            self.assertNotIn(b"missing", done.stderr)

    def test_what_is_missing_of_what_was_cut(self) -> None:
        self.fault("GET archive", unreadable=2, cut=10_000)
        self.assertIn("was lost", self.bad("pull", "site"))
        self.assertFalse((self.here / "site").exists())

    def test_compression(self) -> None:
        self.good("pull", "-C", "site")
        self.assertEqual(tree(self.here / "site"), tree(self.site))

    def test_a_dry_run(self) -> None:
        done = self.good("pull", "-n", "site")
        self.assertEqual(
            done.stdout.decode().splitlines(),
            ["data", "empty/", "link -> src/run", "src/", "src/deep/", "src/deep/ünï.txt", "src/run"],
        )
        self.assertEqual(self.good("pull", "-n", "site/data").stdout, b"site/data\n")
        self.assertEqual(self.fetched(), [])

    def test_an_archive_that_means_harm(self) -> None:
        for members in (
            [one("../up", body=b"x")],
            [one("f", body=b"x"), one("/f", body=b"x")],
            [one("d", tarfile.FIFOTYPE)],
        ):
            self.archive(tar(*members))
            self.assertIn("the archive can't be unpacked", self.bad("pull", "site"))
            self.assertFalse((self.here / "site").exists() or (self.here / "up").exists())
            self.assertEqual(self.left_over(), [])
        self.archive(tar(one("out", tarfile.SYMTYPE, linkname="../../x\x1b"), one("f", body=b"x")))
        said = self.good("pull", "site").stderr.decode()
        self.assertIn("opc: out is a link that leads out of it, and was left out.", said)
        self.assertEqual(list(tree(self.here / "site")), ["f"])
        for members in ([one("a", body=b"x"), one("b", body=b"y")], [one("d", tarfile.DIRTYPE)], []):
            self.archive(tar(*members))
            self.assertIn("is not one file", self.bad("pull", "site/data"))
            self.assertFalse((self.here / "data").exists())

    def test_an_archive_that_is_cut_without_a_word(self) -> None:
        self.archive(tar(one("a", body=bytes(2000)), one("b", body=b"y"))[:3000])
        self.assertIn("it is cut", self.bad("pull", "site"))
        self.assertFalse((self.here / "site").exists())

    def test_signals_leave_nothing(self) -> None:
        (self.site / "noise").write_bytes(random.Random(1).randbytes(8 << 20))
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            self.fault("GET archive", pause=0.05)

            def begun() -> bool:
                return any(path.stat().st_size for path in self.here.glob(".opc-pull-*/new/data"))

            self.assertEqual(
                self.interrupted(number, begun, "pull", "site"), (status, "opc: interrupted. Nothing was changed.\n")
            )
            self.assertEqual(self.left_over(), [])
            self.assertFalse((self.here / "site").exists())

    def test_progress(self) -> None:
        (self.site / "noise").write_bytes(random.Random(1).randbytes(2 << 20))
        self.fault("GET archive", pause=0.02)
        person = Person.at([*OPC, "pull", "site"], self.daemon.env(), cwd=self.here)
        self.addCleanup(person.leave)
        person.look(b"\rpull site  ")
        person.look(b" % ")
        person.look(b" of 3.1 MB")
        person.look(b" left\x1b[K")
        person.look(b"\r\x1b[Kopc: pulled site: 5 files")
        self.assertEqual(person.end()[0], 0)

    def test_no_session(self) -> None:
        self.daemon.tell("/_/set", sessions=[])
        for words in (("pull", "site"), ("ls",), ("cat", "x")):
            self.assertIn(f"you have no session. Name one: `opc {words[0]} SESSION", self.bad(*words))

    def test_there_and_back(self) -> None:
        (self.site / os.fsdecode(b"\xff%n")).write_text("no utf-8")
        self.good("pull", "site", "a")
        self.good("push", "a", "b")
        self.assertEqual(tree(self.there / "b"), tree(self.site))
        self.assertIn("Nothing was sent", self.good("push", "-f", "a", "b").stderr.decode())
        shutil.rmtree(self.here / "a")
        self.good("pull", "b", "a")
        self.assertEqual(tree(self.here / "a"), tree(self.site))
        self.assertIn("Nothing was fetched", self.good("pull", "b", "a").stderr.decode())
        (self.site / "src" / "run").write_text("!")
        self.good("pull", "-f", "site", "a")
        self.assertEqual(tree(self.here / "a"), tree(self.site))

    def test_wrong_usage(self) -> None:
        for words in ((), ("a", "b", "c"), (ID,), ("",), ("a", ""), ("a", "--jso")):
            self.assertIn("usage: opc", self.bad("pull", *words, status=2))


class DestinationTests(SynchronousTestCase):
    def test_names(self) -> None:
        for source, dest, here in (
            ("a/b", None, "b"),
            ("a/b/", "./", "./b"),
            ("a/b", "..", "../b"),
            ("a/b", "c/", "c/b"),
            ("a/b", "c", "c"),
            ("a/b", "/c", "/c"),
            (".", "c", "c"),
        ):
            self.assertEqual(destinations.pulled(source, dest), here)
        for source in (".", "/", "a/.."):
            self.assertRaises(Failure, destinations.pulled, source, None)


def _umask() -> int:
    return int(
        next(line for line in Path("/proc/self/status").read_text().splitlines() if "Umask" in line).split()[1], 8
    )
