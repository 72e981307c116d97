"""`opc ls` and `opc cat`, the progress line, and the words of all four verbs."""

from __future__ import annotations

import json
import os
import subprocess
import zlib

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.opc import coding, progress
from computerd.opc.failure import Failure
from computerd.opc.tree import spelled
from computerd.opc.words import apart
from tests.opc.person import OPC, Person
from tests.opc.workspaces import ID, WithWorkspace, fill


class LsTests(WithWorkspace):
    def setUp(self) -> None:
        super().setUp()
        self.site = fill(self.there / "site")

    def ls(self, *words: str) -> list[str]:
        return self.good("ls", *words, env={"TZ": "UTC"}).stdout.decode().splitlines()

    def test_a_folder(self) -> None:
        os.utime(self.site / "data", (0, 86400))
        lines = self.ls("site")
        self.assertEqual(lines[0], "-rw-r--r--    1024000 1970-01-02 00:00 data")
        self.assertEqual([line.split(maxsplit=4)[4] for line in lines], ["data", "empty/", "link -> src/run", "src/"])
        self.assertEqual([line[0] for line in lines], ["-", "d", "l", "d"])
        for words in ((), (ID,), (".",), ("./",), ("",)):
            self.assertEqual([line.split()[-1] for line in self.ls(*words)], ["site/"], words)
        self.assertEqual([line.split()[-1] for line in self.ls(ID, "site/src/")], ["deep/", "run"])

    def test_all_that_is_below(self) -> None:
        names = [line.split(maxsplit=4)[4] for line in self.ls("-R", "site")]
        self.assertEqual(
            names, ["data", "empty/", "link -> src/run", "src/", "src/deep/", "src/deep/ünï.txt", "src/run"]
        )
        self.assertEqual(len(self.ls("-R")), 8)

    def test_all_pages_and_levels(self) -> None:
        deep = self.there.joinpath(*"abcdefghijklmnopqrstuvw")
        deep.mkdir(parents=True)
        for number in range(250):
            (deep / f"f{number:03d}").write_text("")
        lines = self.ls("-R", "a")
        self.assertEqual(len(lines), 22 + 250)
        self.assertEqual(lines[-1].split()[-1], f"{'/'.join('bcdefghijklmnopqrstuvw')}/f249")
        self.assertEqual(len(self.ls("/".join("abcdefghijklmnopqrstuvw"))), 250)

    def test_json(self) -> None:
        told = json.loads(self.good("ls", "--json", "site").stdout)
        self.assertEqual(told["path"], "site")
        self.assertEqual(
            [entry["path"] for entry in told["entries"]], ["site/data", "site/empty", "site/link", "site/src"]
        )
        self.assertEqual(told["entries"][2]["target"], "src/run")
        done = self.daemon.run("ls", "--json", "nothing")
        self.assertEqual((done.returncode, json.loads(done.stdout)["error"]["code"]), (255, "path_not_found"))

    def test_nothing_steers_the_terminal(self) -> None:
        (self.there / "a\x1b]0;x\x07\nb").write_text("")
        (self.there / "l").symlink_to("\x1b[2J")
        done = self.good("ls").stdout
        self.assertIn(b"a\\x1b]0;x\\x07\\x0ab\n", done)
        self.assertIn(b"l -> \\x1b[2J\n", done)

    def test_refusals(self) -> None:
        self.assertIn("nope: There is nothing at that path", self.bad("ls", "nope"))
        self.assertIn("relative to the workspace", self.bad("ls", "../x"))
        for verb in ("ls", "cat"):
            self.assertIn("The token is not valid", self.bad(verb, "x", env={"OPC_TOKEN": "garbage"}))
        for words in (("a", "b"), ("-r",), ("--recurs",)):
            self.assertIn("usage: opc", self.bad("ls", *words, status=2))

    def test_one_file(self) -> None:
        (line,) = self.ls("site/data")
        self.assertTrue(line.startswith("-rw") and line.endswith(" data"), line)
        (entry,) = json.loads(self.good("ls", "--json", "./site//data").stdout)["entries"]
        self.assertEqual(entry["path"], "site/data")

    def test_as_it_is_typed(self) -> None:
        """A slash at the end, two, a point; and the letters that fingers know."""
        for words in (("site/",), ("./site",), ("site//",), ("-l", "site"), ("-la", "site")):
            self.assertEqual(len(self.ls(*words)), 4, words)

    def test_a_daemon_that_is_away_for_a_moment(self) -> None:
        self.fault("GET files", code="computer_unavailable")
        self.assertEqual(len(self.ls("site")), 4)


class CatTests(WithWorkspace):
    def test_files(self) -> None:
        data = bytes(range(256)) * 5000
        (self.there / "a").write_bytes(data)
        (self.there / os.fsdecode(b"\xff%")).write_bytes(b"b")
        self.assertEqual(self.good("cat", "a").stdout, data)
        done = subprocess.run(
            [*OPC, "cat", ID.encode(), b"a", b"\xff%"],
            env=self.daemon.env(),
            cwd=self.here,
            capture_output=True,
            check=True,
        )
        self.assertEqual(done.stdout, data + b"b")

    def test_failures(self) -> None:
        (self.there / "a").write_bytes(bytes(500_000))
        self.assertIn("b: There is nothing at that path", self.bad("cat", "b"))
        (self.there / "c").write_bytes(b"c")
        done = self.daemon.run("cat", "b", "./c", ".")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"opc: ")), (255, b"c", 2))
        self.assertIn("no regular file", self.bad("cat", "."))
        self.fault("GET file", cut=100_000)
        done = self.daemon.run("cat", "a")
        self.assertEqual((done.returncode, len(done.stdout)), (255, 100_000))
        self.assertIn(b"was lost", done.stderr)
        self.assertIn("usage: opc cat", self.bad("cat", status=2))
        with open("/dev/full", "wb") as full:
            failed = subprocess.run(
                [*OPC, "cat", "a"], env=self.daemon.env(), cwd=self.here, stdout=full, stderr=-1, check=False
            )
        self.assertEqual(failed.returncode, 255)
        self.assertIn(b"can't write the file: No space left", failed.stderr)

    def seen(self, *words: str) -> tuple[int, bytes]:
        person = Person.at([*OPC, "cat", *words], self.daemon.env(), cwd=self.here)
        self.addCleanup(person.leave)
        return person.end()

    def test_on_a_terminal(self) -> None:
        (self.there / "text").write_text("ünï\tcode\n")
        for name, data in (("escape", b"red \x1b[31m"), ("nul", b"\0"), ("c1", "\x9b2J".encode())):
            (self.there / name).write_bytes(data)
            status, shown = self.seen(name)
            self.assertEqual((status, data in shown, b"would steer your terminal" in shown), (255, False, True), name)
            self.assertEqual(self.seen("-f", name), (0, data))
        self.assertEqual(self.seen("text"), (0, "ünï\tcode\r\n".encode().replace(b"\t", b"\t")))


class SmallTests(SynchronousTestCase):
    def test_the_progress_line(self) -> None:
        for told, line in (
            ((50, 100, 10.0), "x   50 %  50 B of 100 B  10 B/s  0:05 left"),
            ((0, 100, 0.0), "x    0 %  0 B of 100 B  0 B/s  -:-- left"),
            ((10**9, 10**9, 12_340_000.0), "x  100 %  1.0 GB of 1.0 GB  12.3 MB/s  0:00 left"),
            ((1, 0, 1.0), "x  100 %  1 B of 0 B  1 B/s  0:00 left"),
            ((1500, None, 1.0), "x  1.5 kB  1 B/s"),
        ):
            self.assertEqual(progress.status("x", *told), line)
        for count, text in ((999, "999 B"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (10**16, "10000.0 TB")):
            self.assertEqual(progress.size(count), text)
        for seconds, text in ((59.4, "0:59"), (3599.6, "1:00:00"), (10**9, "99:59:59")):
            self.assertEqual(progress.clock(seconds), text)

    def test_words(self) -> None:
        valued = {"--url", "-x"}
        for line, flags, others in (
            ("a -f b", "-f", "a b"),
            ("--url u a - -C", "--url u -C", "a -"),
            ("-fx v a", "-fx v", "a"),
            ("a -- -f --", "", "a -f --"),
        ):
            self.assertEqual(apart(line.split(), valued), (flags.split(), others.split()))

    def test_paths_that_are_no_utf_8(self) -> None:
        self.assertEqual(spelled("ünï%41"), "ünï%41")
        self.assertEqual(spelled(os.fsdecode(b"\xc3\xbc%\xff/a")), "%C3%BC%25%FF/a")

    @given(st.lists(st.binary(max_size=200)), st.integers(1, 40))
    def test_coding(self, pieces: list[bytes], size: int) -> None:
        packed = b"".join(coding.compressed(pieces))
        cut = [packed[start : start + size] for start in range(0, len(packed), size)]
        clear = list(coding.expanded(cut, "gzip", asked=True))
        self.assertEqual((b"".join(clear), b"" in clear), (b"".join(pieces), False))
        self.assertRaises(Failure, list, coding.expanded([packed[:-1]], "gzip", asked=True))

    def test_what_expands_is_had_in_pieces(self) -> None:
        bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
        data = bomb.compress(bytes(50_000_000)) + bomb.flush()
        self.assertLessEqual(max(map(len, coding.expanded([data], "gzip", asked=True))), 1 << 20)
        self.assertRaises(Failure, list, coding.expanded([b"nonsense"], "gzip", asked=True))
        self.assertRaises(Failure, list, coding.expanded([b""], "br", asked=True))
        self.assertEqual(
            (coding.sniffed(data), coding.sniffed(b"\x28\xb5\x2f\xfdx"), coding.sniffed(b"")), ("gzip", "zstd", None)
        )
