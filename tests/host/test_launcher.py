"""Which launcher, with which arguments, and what its failures mean."""

from __future__ import annotations

import os
import platform
import resource
from importlib.resources import files
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from computerd.contract.errors import ApiError, Code
from computerd.host import launcher
from computerd.host.accounts import Account
from computerd.host.launcher import Launcher, failure
from computerd.host.settings import HostError, HostSettings
from computerd.terminal.port import Start

_AGENT = Account("agent", 1500, 1501, (1501, 27), "/home/agent", "/bin/zsh")
_START = Start("cs_0123456789abcdef", "tm_0123456789ab", "mb_1", None, "xterm", (80, 24))


class FindTests(SynchronousTestCase):
    def test_perl_where_it_can_be(self) -> None:
        if platform.machine() not in ("x86_64", "aarch64") or not os.path.exists("/usr/bin/perl"):
            raise SkipTest("needs perl on a machine whose numbers are known")
        found = Launcher.find()
        self.assertEqual(("perl", b"/usr/bin/perl"), (found.kind, found.head[0]))
        self.assertEqual(15, len(found.numbers.split(",")))
        self.assertEqual("python", Launcher.find("python").kind)

    def test_python_on_other_machines(self) -> None:
        self.patch(platform, "machine", lambda: "riscv64")
        self.assertEqual(("python", ""), (Launcher.find().kind, Launcher.find().numbers))
        self.assertRaises(HostError, Launcher.find, "perl")

    def test_python_where_perl_is_not_roots_alone(self) -> None:
        self.patch(launcher, "_trustworthy", lambda program: False)
        self.assertEqual("python", Launcher.find().kind)

    def test_trustworthy(self) -> None:
        program = Path(self.mktemp())
        self.assertFalse(launcher._trustworthy(str(program)))
        program.touch()
        program.chmod(0o755)
        self.assertEqual(os.geteuid() == 0, launcher._trustworthy(str(program)))
        for mode in (0o775, 0o757, 0o644):
            program.chmod(mode)
            self.assertFalse(launcher._trustworthy(str(program)))

    def test_python_is_isolated(self) -> None:
        """D17."""
        self.assertEqual((b"-I", b"-S", b"-E", b"-c"), Launcher.find("python").head[1:5])

    def test_perl_loads_nothing(self) -> None:
        text = files("computerd.host").joinpath("launch.pl").read_text()
        for line in text.splitlines():
            self.assertFalse(line.strip().startswith(("use ", "require ", "do ")), line)


class ArgumentsTests(SynchronousTestCase):
    def arguments(self, start: Start = _START, *, drop: bool = True, **settings: object) -> list[bytes]:
        chosen = HostSettings(Path("/w"), **settings)  # type: ignore[arg-type]
        found = Launcher("perl", (b"perl",), "1,2")
        return found.arguments(start, _AGENT, "/w/cs", chosen, drop=drop, tty_group=5, cgroup="")

    def test_on_a_terminal(self) -> None:
        ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limits = f"7=1024:{min(16384, ceiling)} 4=0:0".encode()
        wanted = [b"perl", b"1,2", b"tty", b"1500:5", b"", b"22", limits, b"200", b"1", b"1500:1501,1501,27", b"/w/cs"]
        wanted += [b"/home/agent", b"agent", b"/bin/zsh", b"/usr/local/bin:/usr/bin:/bin", b"C.UTF-8", b"xterm"]
        self.assertEqual(wanted, self.arguments(fork=True))

    def test_on_pipes_with_a_command(self) -> None:
        start = Start("cs_0123456789abcdef", "tm_0123456789ab", "mb_1", "écho", "dumb", None)
        found = self.arguments(start)
        self.assertEqual((b"pipes", b"1500:1501"), (found[2], found[3]))
        self.assertEqual([b"dumb", "écho".encode()], found[-2:])

    def test_without_root_power(self) -> None:
        found = self.arguments(drop=False)
        self.assertEqual((b"", b"", b""), (found[3], found[7], found[9]))

    def test_as_set(self) -> None:
        found = self.arguments(umask=0o077, no_new_privileges=False, core_bytes=50, oom_score_adj=0, fork=False)
        self.assertEqual((b"take", b"77", b"", b"0"), (found[2], found[5], found[8], found[7]))
        self.assertIn(b"4=50:50", found[6])

    def test_limits_within_the_daemons_own(self) -> None:
        self.patch(resource, "getrlimit", lambda what: (500, 500))
        self.assertIn(b"7=500:500", self.arguments()[6])
        self.patch(resource, "getrlimit", lambda what: (1, resource.RLIM_INFINITY))
        self.assertIn(b"7=1024:16384", self.arguments()[6])

    def test_what_is_no_text(self) -> None:
        for field, command, term in (("command", "\0", "x"), ("command", "\ud800", "x"), ("term", "x", "\0")):
            start = Start("cs_0123456789abcdef", "tm_0123456789ab", "mb_1", command, term, None)
            error = self.assertRaises(ApiError, self.arguments, start)
            self.assertEqual((Code.INVALID_REQUEST, field), (error.code, error.field))


class FailureTests(SynchronousTestCase):
    def test_each_says_what_to_do(self) -> None:
        for stage, number, code, text in (
            ("folder", 13, Code.COMPUTER_NOT_SET_UP, "Permission denied"),
            ("folder", 2, Code.COMPUTER_NOT_SET_UP, "must belong"),
            ("folder", 5, Code.COMPUTER_UNAVAILABLE, "Input/output error"),
            ("uid", 1, Code.COMPUTER_UNAVAILABLE, '"uid" (Operation not permitted)'),
            ("check-return", 0, Code.COMPUTER_UNAVAILABLE, '"check-return".'),
            ("cgroup", 2, Code.COMPUTER_UNAVAILABLE, "preparing it"),
        ):
            error = failure(stage, number, _AGENT)
            self.assertEqual(code, error.code, stage)
            self.assertIn(text, error.message)
