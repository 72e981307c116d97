"""`opc push`, as people and scripts run it."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import signal
import tarfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from computerd.opc import destinations, exchange
from computerd.opc.address import parse
from computerd.opc.exchange import Exchange
from computerd.opc.failure import Failure
from computerd.opc.locate import Place
from computerd.opc.tree import route
from tests.opc.fake_server import TOKEN
from tests.opc.person import OPC, Person, wait_until
from tests.opc.workspaces import ID, WithWorkspace, fill, tree


class PushTests(WithWorkspace):
    def setUp(self) -> None:
        super().setUp()
        self.site = fill(self.here / "site")

    def noise(self, mib: int = 8) -> None:
        (self.site / "noise").write_bytes(random.Random(1).randbytes(mib << 20))

    def test_a_folder(self) -> None:
        done = self.good("push", "site")
        self.assertEqual(tree(self.there / "site"), tree(self.site))
        self.assertEqual(done.stdout, b"")
        self.assertIn("opc: pushed site: 4 files, 1.0 MB in ", done.stderr.decode())
        (one,) = self.pushed()
        self.assertEqual((one["query"], one["coding"], one["waited"]), ({"path": "site"}, None, True))

    def test_where_it_goes(self) -> None:
        (self.there / "var").mkdir()
        for words, there in (
            (("site", "a"), "a"),
            (("site", "./b/"), None),
            (("site/", "var/"), "var/site"),
            (("site", "var/c"), "var/c"),
            (("./site", "."), "site"),
            (("site/src", "--", "-d"), "-d"),
        ):
            if there is None:
                self.assertIn("make it first", self.bad("push", ID, *words))
            else:
                self.good("push", ID, "-q", *words)
                self.assertTrue((self.there / there).is_dir(), words)

    def test_a_single_file_lands_in_a_new_folder(self) -> None:
        self.assertIn("say what it is to be called", self.bad("push", "site/data"))
        self.good("push", "site/data", "d/")
        self.assertEqual(list(tree(self.there)), ["d", "d/data"])
        self.good("push", "site/link", "e")
        self.assertEqual((self.there / "e" / "link").read_text(), "#!/bin/sh\n")

    def test_what_is_no_folder_is_not_replaced_by_one(self) -> None:
        (self.there / "conf").write_text("precious")
        for source in ("site", "site/data"):
            self.assertIn("conf can't be replaced by a folder", self.bad("push", "-f", source, "conf"))
        self.assertEqual((self.there / "conf").read_text(), "precious")

    def test_links_that_lead_out_are_left_out(self) -> None:
        """As a pull leaves them out: no daemon takes them."""
        for number, target in enumerate(("/etc/passwd", "../../x", "../..", "/", "..", "//x", "../../../y")):
            (self.site / "src" / f"out{number}").symlink_to(target)
        (self.site / "src" / "in").symlink_to("../data")
        for words in (("-n",), ()):
            done = self.good("push", *words, "site")
            said = done.stderr.decode()
            self.assertIn("src/out0 is a link that leads out of what is pushed, and is left out", said)
            self.assertIn("6 of this kind are left out", said)
            self.assertNotIn("out4", said)  # `..` is the top itself
        self.assertEqual(len(list((self.there / "site/src").glob("out*"))), 1)
        self.assertEqual((self.there / "site/src/in").readlink(), Path("../data"))

    def test_as_scp_has_it(self) -> None:
        """A session and a path in one word make no folder of that name."""
        self.assertIn("the session is a word of its own", self.bad("push", "site", f"{ID}:x", status=2))
        self.assertIn("the session is a word of its own", self.bad("pull", f"{ID}:x", status=2))
        self.assertEqual(list(self.there.iterdir()), [])

    def test_a_single_file_does_not_take_the_place_of_others(self) -> None:
        self.good("push", "site")
        self.assertIn("holds more than data", self.bad("push", "-f", "site/data", "site"))
        self.assertEqual(tree(self.there / "site"), tree(self.site))
        self.good("push", "site/data", "d")
        (self.site / "data").write_text("new")
        self.good("push", "-f", "site/data", "d")
        self.assertEqual((self.there / "d" / "data").read_text(), "new")
        self.good("push", "-f", "site/data", "new")

    def test_what_is_there_already(self) -> None:
        self.good("push", "site")
        (self.site / "data").write_text("changed")
        said = self.bad("push", "site")
        self.assertIn("site is there already and data is not the same. --force replaces it as a whole", said)
        self.assertEqual(self.pushed()[-1]["bytes"], 0)
        (self.there / "site" / "old").write_text("x")
        done = self.good("push", "--force", "--json", "site")
        self.assertEqual(json.loads(done.stdout)["replaced"], True)
        self.assertIn(", replaced", done.stderr.decode())
        self.assertEqual(tree(self.there / "site"), tree(self.site))

    def test_what_is_equal_is_not_sent_again(self) -> None:
        self.good("push", "site")
        for words in ((), ("-f",)):
            done = self.good("push", *words, "--json", "site")
            self.assertIn(
                "site is there already: 4 files equal in size and time. Nothing was sent.", done.stderr.decode()
            )
            self.assertEqual(json.loads(done.stdout)["files"], 0)
        self.assertEqual([one["bytes"] > 0 for one in self.pushed()], [True, False])
        now = (self.site / "data").stat().st_mtime_ns
        for change in (
            lambda: os.utime(self.site / "data", ns=(now, now + 5_000_000)),
            lambda: (self.site / "data").chmod(0o755),
            lambda: (self.site / "more").write_text(""),
            lambda: (self.site / "more").unlink(),
            lambda: (self.site / "link").unlink(),
            lambda: (self.site / "link").symlink_to("data"),
        ):
            count = len(self.pushed())
            change()
            self.good("push", "-f", "site")
            self.assertEqual(len(self.pushed()), count + 1)
            self.assertEqual(tree(self.there / "site"), tree(self.site))
            self.good("push", "-f", "site")
            self.assertEqual(len(self.pushed()), count + 1)

    def test_only_what_differs_is_sent(self) -> None:
        self.noise()
        self.good("push", "site")
        (self.site / "data").write_text("changed")
        (self.site / "more").write_text("more")
        done = self.good("push", "-f", "site")
        self.assertRegex(
            done.stderr.decode(), r"pushed site: 6 files, 8.4 MB in [\d.]+ s, replaced; 3 files equal, 11 B sent\n"
        )
        last = self.pushed()[-1]
        self.assertLess(last["bytes"], 20_000)
        self.assertGreater(last["kept"], 0)
        self.assertEqual(tree(self.there / "site"), tree(self.site))

    def test_no_more_is_listed_than_can_tell_something(self) -> None:
        """What is there beside it may be very much."""
        self.good("push", "site")
        (self.site / "data").write_text("changed")
        for number in range(1000):
            (self.there / "site" / f"z{number:03}").touch()
        for words, check in (((), self.bad), (("-f",), self.good)):
            count = self.state()["lists"]
            check("push", *words, "site")
            self.assertEqual(self.state()["lists"], count + 1)

    def test_what_is_equal_no_more_is_sent(self) -> None:
        """It has changed since it was looked at: the daemon refuses, and all of it is sent."""
        self.noise(1)
        self.good("push", "site")
        (self.site / "data").write_text("changed")
        self.fault("PUT archive", middle="invalid_archive", after=100)
        done = self.good("push", "-f", "-v", "site")
        self.assertIn("sending all of it", done.stderr.decode())
        last = self.pushed()[-1]
        self.assertGreater(last["bytes"], 1 << 20)
        self.assertNotIn("kept", last)
        self.assertEqual(tree(self.there / "site"), tree(self.site))
        (self.site / "data").write_text("changed again")
        for fault in ({"code": "forbidden"}, {"middle": "too_large", "after": 100}):
            self.fault("PUT archive", **fault)
            self.bad("push", "-f", "site")

    def test_deep_and_wide_trees_are_compared(self) -> None:
        deep = self.site.joinpath(*"abcdefghijklmnopqrstuvw")
        deep.mkdir(parents=True)
        (deep / "f").write_text("x")
        (deep / os.fsdecode(b"\xff%")).write_text("x")
        for number in range(250):
            (deep / f"f{number}").write_text("y")
        self.good("push", "site", "é")
        self.assertIn("Nothing was sent", self.good("push", "-f", "site", "é").stderr.decode())
        self.assertGreater(self.state()["lists"], 4)
        (deep / "f249").write_text("z")
        self.assertIn(f"{'/'.join('abcdefghijklmnopqrstuvw')}/f249 is not the same", self.bad("push", "site", "é"))

    def test_gitignore(self) -> None:
        for name, text in (
            (".gitignore", "*.log\n/build/\n!keep.log\n"),
            ("src/.gitignore", "deep/*\n!deep/kept\n*.tmp\n"),
            ("src/deep/kept", ""),
            ("src/a.log", ""),
            ("src/b.tmp", ""),
            ("keep.log", ""),
            ("c.tmp", ""),
            ("build/x", ""),
            ("src/build/x", ""),
            (".git/config", ""),
        ):
            (self.site / name).parent.mkdir(exist_ok=True)
            (self.site / name).write_text(text)
        listed = self.good("push", "--gitignore", "--dry-run", "site").stdout.decode().splitlines()
        self.assertEqual(
            [name for name in listed if not name.endswith("/")],
            [".gitignore", "c.tmp", "data", "keep.log", "link -> src/run", "src/.gitignore", "src/build/x",
             "src/deep/kept", "src/run"],
        )  # fmt: skip
        self.good("push", "--gitignore", "site")
        self.assertFalse((self.there / "site" / ".git").exists())
        # of a part of a repository, too
        listed = self.good("push", "--gitignore", "-n", "site/src").stdout.decode().splitlines()
        self.assertNotIn("a.log", listed)
        (self.site / ".git" / "config").unlink()
        (self.site / ".git").rmdir()
        self.assertIn("a.log", self.good("push", "--gitignore", "-n", "site/src").stdout.decode().splitlines())

    def test_a_dry_run_asks_nobody(self) -> None:
        done = self.good("push", "-n", "site", env={"OPC_URL": "ws://127.0.0.1:1", "OPC_TOKEN": "x"})
        self.assertEqual(
            done.stdout.decode().splitlines(),
            ["data", "empty/", "link -> src/run", "src/", "src/deep/", "src/deep/ünï.txt", "src/run"],
        )
        (self.site / "a\x1b[2J\n").write_text("")
        self.assertIn(b"a\\x1b[2J\\x0a\n", self.good("push", "-n", "site").stdout)

    def test_an_archive_on_standard_input(self) -> None:
        body = io.BytesIO()
        with tarfile.open(fileobj=body, mode="w") as archive:
            archive.add(self.site, ".")
        self.good("push", "-", "a", stdin=body.getvalue())
        self.assertEqual(tree(self.there / "a").keys(), tree(self.site).keys())
        self.good("push", "-", "b", stdin=gzip.compress(body.getvalue()))
        self.good("push", "-C", "-", "c", stdin=body.getvalue())
        self.assertEqual([one["coding"] for one in self.pushed()], [None, "gzip", "gzip"])
        self.assertEqual(tree(self.there / "b").keys(), tree(self.there / "c").keys())
        self.assertIn("--force", self.bad("push", "-", "a", stdin=body.getvalue()))
        self.good("push", "-f", "-", "a", stdin=body.getvalue())
        self.assertIn("damaged", self.bad("push", "-", "d", stdin=body.getvalue()[:5000]))
        self.assertFalse((self.there / "d").exists())

    def test_compression(self) -> None:
        self.good("push", "-C", "site")
        (one,) = self.pushed()
        self.assertEqual(one["coding"], "gzip")
        self.assertLess(one["bytes"], 20_000)
        self.assertEqual(tree(self.there / "site"), tree(self.site))

    def test_what_no_archive_takes_is_said(self) -> None:
        os.mkfifo(self.site / "fifo")
        self.assertIn("fifo is no file, folder or link, and is left out", self.good("push", "site").stderr.decode())
        self.assertIn("neither a file nor a folder", self.bad("push", "site/fifo", "x"))
        self.assertIn("No such file", self.bad("push", "nothing"))

    def test_a_refusal_comes_before_the_body(self) -> None:
        self.noise()
        self.fault("PUT archive", code="forbidden")
        self.assertIn("Not now", self.bad("push", "site"))
        self.assertEqual(self.pushed(), [])
        self.assertIn("not valid", self.bad("push", ID, "site", env={"OPC_URL": self.daemon.url, "OPC_TOKEN": "a.b.c"}))

    def test_a_refusal_in_the_middle_is_heard(self) -> None:
        self.noise(32)
        self.fault("PUT archive", middle="too_large", after=1 << 20)
        self.assertIn("That is too much", self.bad("push", "site"))
        self.assertLess(self.pushed()[0]["bytes"], 4 << 20)

    def test_a_lost_connection_is_said(self) -> None:
        self.noise(32)
        self.fault("PUT archive", cut=1 << 20)
        said = self.bad("push", "site")
        self.assertIn("was lost", said)
        self.assertIn("Nothing was changed", said)
        self.fault("PUT archive", deaf=True)
        self.assertIn("It may have landed nevertheless", self.bad("push", "site"))

    def test_signals_leave_nothing(self) -> None:
        self.noise(32)
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            count = len(self.pushed())
            self.fault("PUT archive", pause=0.05)

            def begun(count: int = count) -> bool:
                return any(one["bytes"] > 0 for one in self.pushed()[count:])

            self.assertEqual(
                self.interrupted(number, begun, "push", "site"), (status, "opc: interrupted. Nothing was changed.\n")
            )
            wait_until(lambda: "cut" in self.pushed()[-1], "the daemon sees it")
            self.assertEqual(list(self.there.iterdir()), [])

    def test_progress(self) -> None:
        self.noise(16)
        self.fault("PUT archive", pause=0.02)
        person = Person.at([*OPC, "push", "site"], self.daemon.env(PWD=str(self.here)), cwd=self.here)
        self.addCleanup(person.leave)
        person.look(b"\rpush site  ")
        person.look(b" % ")
        person.look(b" of 17.8 MB")
        person.look(b"/s  0:")
        person.look(b" left")
        person.look(b"\r\x1b[Kopc: pushed site: 5 files")
        self.assertEqual(person.end()[0], 0)
        for words, env in ((("-q",), {}), ((), {"TERM": "dumb"})):
            self.fault("PUT archive", pause=0.02)
            person = Person.at([*OPC, "push", *words, "site", f"s{len(words)}"], self.daemon.env(**env), cwd=self.here)
            self.addCleanup(person.leave)
            status, shown = person.end()
            self.assertEqual((status, b"\x1b" in shown, b"pushed" in shown), (0, False, not words))

    def test_a_new_session_if_there_is_none(self) -> None:
        self.daemon.tell("/_/set", sessions=[])
        said = self.good("push", "site").stderr.decode()
        self.assertIn("opc: new session cs_", said)
        self.assertIn("opc: pushed site", said)

    def test_errors_as_json(self) -> None:
        self.good("push", "site")
        (self.site / "data").write_text("changed")
        done = self.daemon.run("push", "--json", "site")
        self.assertEqual((done.returncode, done.stderr), (255, b""))
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "path_exists")

    def test_wrong_usage(self) -> None:
        for words in (
            (),
            ("a", "b", "c"),
            (ID,),
            ("-",),
            ("-", "d", "-n"),
            ("-", "d", "--gitignore"),
            ("",),
            ("a", ""),
        ):
            self.assertIn("usage: opc push", self.bad("push", *words, status=2))


class DestinationTests(SynchronousTestCase):
    def test_names(self) -> None:
        for source, dest, single, path in (
            ("a/b", None, False, "b"),
            ("a/b/", None, False, "b"),
            ("a/..", None, False, os.path.basename(os.getcwd())),
            ("b", "x//./y", False, "x/y"),
            ("b", "x/", False, "x/b"),
            ("b", "x/", True, "x"),
            ("b", "/x", True, "/x"),
            ("b", "../x", False, "../x"),
        ):
            self.assertEqual(destinations.pushed(source, dest, single=single), path)
        for source, dest, single in (("/", None, False), ("b", ".", True), ("b", "\udcff", False)):
            self.assertRaises(Failure, destinations.pushed, source, dest, single=single)


class ExchangeTests(WithWorkspace):
    def put(self, *, silent: bool) -> dict[str, object]:
        self.fault("PUT archive", silent=silent)
        place = Place(parse(self.daemon.url), TOKEN, "")
        with Exchange(place, "PUT", route(ID, "archive"), {"path": "x"}, {}, upload=True) as one:
            self.assertTrue(one.invited())
            self.assertTrue(one.send(bytes(1024)))
            self.assertFalse(one.complete)
            one.finish()
            self.assertTrue(one.complete)
            return one.whole()

    def test_a_daemon_that_does_not_say_go_on(self) -> None:
        self.patch(exchange, "CONTINUE_SECONDS", 0.2)
        self.assertEqual(self.put(silent=True)["path"], "x")

    def test_a_daemon_that_is_silent(self) -> None:
        self.fault("PUT archive", pause=60)
        place = Place(parse(self.daemon.url), TOKEN, "")
        with Exchange(place, "PUT", route(ID, "archive"), {"path": "x"}, {}, upload=True) as one:
            self.assertTrue(one.invited() and one.send(bytes(1024)))
            one.finish()
            with self.assertRaises(Failure) as caught:
                one.whole(0.2)
        self.assertIn("did not answer", caught.exception.message)

    def test_over_a_unix_socket(self) -> None:
        (self.here / "f").write_text("x")
        self.good("push", ID, "f", "d", env={"OPC_URL": f"unix:{self.here}/api.sock", "OPC_TOKEN": TOKEN})
        self.assertEqual((Path(self.there) / "d" / "f").read_text(), "x")
