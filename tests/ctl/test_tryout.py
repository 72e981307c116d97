"""`computerctl try`, as a person runs it: a real daemon, a real client."""

from __future__ import annotations

import os
import pty
import pwd
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from twisted.trial.unittest import SkipTest

from computerd.config import load
from computerd.ctl.changes import User, tool
from tests.ctl.running import CtlTestCase

SECONDS = 60.0
"""For one try; it takes about three."""
TOP = Path(__file__).resolve().parent.parent.parent


class Try(CtlTestCase):
    """Ends with the command's status, and leaves nothing."""

    timeout = 180

    def setUp(self) -> None:
        super().setUp()
        self.temporary = Path(tempfile.mkdtemp(dir="/var/tmp"))
        self.addCleanup(self.temporary.rmdir)  # fails when a try left something
        self.temporary.chmod(0o1777)
        self.environ = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.folder),
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": str(TOP),
        }
        if os.geteuid() == 0:
            self.user = f"trytest{os.getpid()}"
            tool("useradd", "--create-home", "--password", "*", self.user)
            self.addCleanup(tool, "userdel", "--remove", self.user)
            self.environ |= {"COMPUTERD_AGENT_USER": self.user, "COMPUTERD_STATE_DIR": str(self.state)}
        else:
            self.user = pwd.getpwuid(os.geteuid()).pw_name

    def start(self, *words: str, **streams: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "computerd.ctl.main", "try", *words]
        return subprocess.Popen(command, env=self.environ, cwd="/", **streams)  # type: ignore[call-overload,no-any-return]  # streams only

    def run_try(self, *words: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        child = self.start(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = child.communicate(stdin, timeout=SECONDS)
        return child.returncode, out, err

    def test_greeting(self) -> None:
        status, out, err = self.run_try()
        self.assertEqual(status, 0, err)
        self.assertTrue(out.startswith(f"Hello from {self.user} in ".encode()), out)
        self.assertEqual(out.count(b"\n"), 1)

    def test_status_input_and_words(self) -> None:
        status, out, err = self.run_try("--", "cat; exit 7", stdin=b"through\n")
        self.assertEqual((status, out), (7, b"through\n"), err)
        status, out, err = self.run_try("--", "printf", "%s|", "a b", "$HOME")
        self.assertEqual((status, out), (0, b"a b|$HOME|"), err)

    def test_killed_command(self) -> None:
        status, _, err = self.run_try("--", "kill -TERM $$")
        self.assertEqual(status, 128 + signal.SIGTERM, err)

    def test_greeting_does_not_wait_for_input(self) -> None:
        child = self.start(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert child.stdin is not None
        assert child.stdout is not None
        self.addCleanup(child.stdin.close)
        self.assertTrue(child.stdout.readline().startswith(b"Hello"))
        self.assertEqual(child.wait(SECONDS), 0)
        child.stdout.close()

    def test_terminated(self) -> None:
        child = self.start(
            "--",
            "echo ready; exec sleep 600",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdout is not None
        self.assertEqual(child.stdout.readline(), b"ready\n")
        child.terminate()
        self.assertEqual(child.wait(SECONDS), 128 + signal.SIGTERM)
        child.stdout.close()

    def test_terminal(self) -> None:
        """A login shell on a tty; what is typed reaches it, and its status comes back."""
        pid, master = pty.fork()
        if pid == 0:
            os.execve(sys.executable, [sys.executable, "-m", "computerd.ctl.main", "try"], self.environ)
        shown = self.read_until(master, b"$ ")
        os.write(master, b"tty && test -t 2 && id -un; exit 5\r")
        shown += self.read_until(master, None)
        _, status = os.waitpid(pid, 0)
        os.close(master)
        self.assertEqual(os.waitstatus_to_exitcode(status), 5, shown)
        self.assertRegex(shown, rb"/dev/pts/[0-9]+\r\n" + self.user.encode() + rb"\r\n")

    def read_until(self, master: int, wanted: bytes | None) -> bytes:
        """What a terminal shows, up to `wanted`, or up to its end."""
        shown, deadline = b"", time.monotonic() + SECONDS
        while wanted is None or wanted not in shown:
            self.assertTrue(select.select([master], [], [], max(0.0, deadline - time.monotonic()))[0], shown)
            try:
                data = os.read(master, 65536)
            except OSError:  # EIO: nobody has it open any more
                data = b""
            if not data:
                self.assertIsNone(wanted, shown)
                break
            shown += data
        return shown

    def test_broken_host_configuration(self) -> None:
        self.environ["COMPUTERD_AGENT_UMASK"] = "nonsense"
        status, out, err = self.run_try()
        self.assertEqual((status, out), (78, b""))
        self.assertEqual(err.count(b"\n"), 1, err)


def remove(name: str) -> None:
    """Takes a Unix user away, if he is there."""
    if User(name).entry() is not None:
        tool("userdel", "--remove", name)


class MissingUser(CtlTestCase):
    """As root, `try` makes the Unix user, and `setup --undo` takes him away."""

    def test_made_and_taken_back(self) -> None:
        if os.geteuid() != 0:
            raise SkipTest("only root can make Unix users")
        name = f"trymade{os.getpid()}"
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "PYTHONPATH": str(TOP), "TMPDIR": "/var/tmp"}
        environ |= {"COMPUTERD_AGENT_USER": name, "COMPUTERD_STATE_DIR": str(self.state)}
        done = subprocess.run(
            [sys.executable, "-m", "computerd.ctl.main", "try"],
            stdin=subprocess.DEVNULL, capture_output=True, env=environ, cwd="/", timeout=SECONDS, check=False,
        )  # fmt: skip
        self.addCleanup(remove, name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"makes the Unix user {name}", done.stderr.decode())
        self.assertTrue(done.stdout.startswith(f"Hello from {name}".encode()))
        self.assertEqual(load({}, environ, 0).state_dir, self.state)
        self.good("setup", "--undo", environ=environ)
        self.assertRaises(KeyError, pwd.getpwnam, name)
        self.assertFalse(self.state.exists())
