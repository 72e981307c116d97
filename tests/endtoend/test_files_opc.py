"""`opc push`, `pull`, `ls` and `cat` with a whole daemon."""

from __future__ import annotations

import io
import json
import os
import signal
import statistics
import subprocess
import tarfile

from twisted.trial.unittest import SkipTest

from tests.endtoend import folders
from tests.endtoend.client import WAIT
from tests.endtoend.computer import eventually
from tests.endtoend.files_case import BIG, SOON, FilesCase, staged
from tests.endtoend.folders import tree
from tests.endtoend.test_flow import echo_times
from tests.endtoend.test_opc import opc


class OpcFilesTests(FilesCase):
    """`opc push`, `pull`, `ls`, `cat`."""

    def test_push_and_pull(self) -> None:
        """F6: what lands is what was sent; a second run sends nothing; a changed file with --force."""
        source = self.here / "source"
        folders.varied(source)
        wanted = folders.without_set_id(tree(source))
        done = json.loads(self.opc("push", self.session, "--json", "source").stdout)
        (event,) = self.pushed()
        self.assertEqual(
            (done["files"], done["bytes"], done["seq"]), (event["data"]["files"], event["data"]["bytes"], event["seq"])
        )
        self.assertEqual(wanted, tree(self.top / "source"))
        self.assertIn(b"there already", self.opc("push", self.session, "source").stderr)
        (source / "text.txt").write_text("other\n")
        self.opc("push", self.session, "source", status=255)
        self.opc("push", self.session, "--force", "-C", "source")
        wanted = folders.without_set_id(tree(source))
        self.assertEqual(wanted, tree(self.top / "source"))
        self.assertEqual([event["data"]["replaced"] for event in self.pushed()], [False, True])
        for number, options in enumerate(([], ["-C"])):
            self.opc("pull", self.session, *options, "source", f"back{number}")
            self.assertEqual(folders.without_set_id(tree(self.here / f"back{number}")), self.open(wanted))
        self.assertIn(b"Nothing was fetched", self.opc("pull", self.session, "source", "back0").stderr)
        self.write("source/empty", b"no longer")
        self.opc("pull", self.session, "--force", "source", "back0")
        self.assertEqual((self.here / "back0/empty").read_bytes(), b"no longer")

    def open(self, found: folders.Tree) -> folders.Tree:
        """Folders that are pulled can be changed by who pulled them."""
        return {
            name: (what[0], what[1] | 0o700, *what[2:]) if what[0] == "folder" else what for name, what in found.items()
        }

    def test_only_what_differs_is_sent(self) -> None:
        """F5: and what is replaced is replaced as a whole; a file that the agent has changed meanwhile comes anew."""
        source = self.here / "source"
        for number in range(50):
            path = source / f"{number % 5}" / f"{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(200_000))
        self.opc("push", self.session, "source")
        landed = self.top / "source"
        before = (landed / "1/1").stat().st_ino
        (source / "0/0").write_text("changed")
        (source / "0/5").unlink()
        (landed / "new").write_text("the agent's")
        received = 'computerd_file_bytes_total{direction="received"}'
        count = self.computer.metrics()[received]
        self.assertIn(
            b", replaced; 48 files equal, 7 B sent", self.opc("push", self.session, "--force", "source").stderr
        )
        self.assertLess(self.computer.metrics()[received] - count, 100_000)
        self.assertEqual(tree(source), tree(landed))
        self.assertEqual((before, 1), ((landed / "1/1").stat().st_ino, (landed / "1/1").stat().st_nlink))
        self.assertEqual([event["data"]["replaced"] for event in self.pushed()], [False, True])
        self.assertEqual(self.pushed()[-1]["data"]["files"], 49)
        (landed / "1/1").write_text("the agent's")
        self.opc("push", self.session, "--force", "source")
        self.assertEqual(tree(source), tree(landed))

    def test_streams(self) -> None:
        archive = folders.of_files(a=b"one", b=b"two")
        self.opc("push", self.session, "-", "from stdin", given=archive)
        self.assertEqual((self.top / "from stdin/b").read_bytes(), b"two")
        out = self.opc("pull", self.session, "from stdin", "-").stdout
        with tarfile.open(fileobj=io.BytesIO(out)) as tar:
            self.assertEqual(sorted(tar.getnames()), ["a", "b"])
        self.assertEqual(self.opc("cat", self.session, "from stdin/a", "from stdin/b").stdout, b"onetwo")
        self.assertIn(b"from stdin", self.opc("ls", self.session).stdout)
        listed = self.opc("ls", self.session, "-R").stdout
        self.assertEqual(listed.count(b"\n"), 3)
        self.opc("cat", self.session, "nothing", status=255)
        self.opc("pull", self.session, "nothing", status=255)
        self.opc("push", self.session, "-", "from stdin", given=archive, status=255)
        self.assertEqual(os.listdir(self.here), [])

    def test_what_the_agent_may_not_read(self) -> None:
        """F9: what lands lacks it, and opc says so and does not end with 0."""
        if self.agent is None:
            raise SkipTest("its user may not read it: run as root")
        self.write("u/one", bytes(10_000))
        self.write("u/two", b"two").chmod(0)
        os.chown(self.top / "u/two", 0, 0)
        self.write_closed("u/closed")
        said = b"2 files or folders of u can't be read by the session's user, and are missing."
        done = self.opc("pull", self.session, "u", status=1)
        self.assertEqual(done.stderr.splitlines()[-1], b"opc: " + said)
        self.assertIn(b"pulled u: 1 file,", done.stderr)
        self.assertEqual(sorted(os.listdir(self.here / "u")), ["closed", "one"])
        done = self.opc("pull", self.session, "-C", "u", "-", status=1)
        self.assertEqual(done.stderr, b"opc: " + said + b"\n")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
            self.assertEqual(tar.getnames(), ["closed", "one"])
        self.write("u/more", b"more")
        self.opc("pull", self.session, "u", "u", status=255)
        for name in ("two", "closed"):
            os.chown(self.top / "u" / name, 0, 0)
        self.assertIn(said, self.opc("pull", self.session, "--force", "u", status=1).stderr)
        self.assertEqual((self.here / "u/more").read_bytes(), b"more")
        self.opc("pull", self.session, "u/one")

    def write_closed(self, name: str) -> None:
        """A folder with a file, which only root may enter."""
        (self.top / name).mkdir(mode=0o700)
        (self.top / name / "inside").write_bytes(b"inside")

    def test_interrupted(self) -> None:
        """F5: Ctrl-C leaves nothing half, here or there."""
        with open(self.here / "big", "wb") as big:
            for _ in range(200):
                big.write(os.urandom(1 << 20))
        for words in (["push", self.session, "big", "place"], ["pull", self.session, "place/big", "back"]):
            command, environ = opc(self.computer, *words)
            if words[0] == "pull":
                self.opc("push", self.session, "big", "place")
            child = subprocess.Popen(command, env=environ, cwd=self.here, stderr=subprocess.PIPE)
            assert child.stderr is not None
            self.addCleanup(child.stderr.close)
            where = self.top if words[0] == "push" else self.here
            eventually(lambda where=where: len(os.listdir(where)) > 1 or staged(where), "it is on its way")
            child.send_signal(signal.SIGINT)
            self.assertIn(child.wait(WAIT), (130, -signal.SIGINT), child.stderr.read())
            eventually(lambda: not staged(self.top), "nothing is left")
            self.assertEqual(os.listdir(self.here), ["big"])
            self.assertEqual((self.top / "place").exists(), words[0] == "pull")

    def test_an_echo_meanwhile(self) -> None:
        """W15: keys come back while a large file is pulled; the daemon's memory stays."""
        with open(self.top / "big", "wb") as big:
            for _ in range(BIG >> 20):
                big.write(os.urandom(1 << 20))
        self.give(self.top)
        shell = self.echo(self.connect())
        idle = statistics.quantiles(echo_times(shell, 200), n=100)[98]
        before = self.computer.memory()
        command, environ = opc(self.computer, "pull", self.session, "big", "-")
        with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as pull:
            times: list[float] = []
            most = 0
            while pull.poll() is None:
                times += echo_times(shell, 20)
                most = max(most, self.computer.memory())
        self.assertEqual(pull.returncode, 0)
        self.assertLess(most - before, 64 << 20)
        self.assertLess(statistics.quantiles(times, n=100)[98], max(SOON / 10, 10 * idle))
