"""What a program finds when it starts: the requirements on becoming the user, over both launchers."""

from __future__ import annotations

import contextlib  # not suppress from it: trial takes a module's `suppress` for its own
import os
import pwd
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import attrs
from twisted.trial.unittest import SkipTest

from computerd.contract.errors import ApiError, Code
from computerd.host.accounts import Accounts
from computerd.host.launcher import Launcher
from computerd.host.opening import LAUNCH_SECONDS
from tests.host.people import person, run, status
from tests.host.real import SESSION_ID, RealCase, children
from tests.host.waiting import Recorder, until

_SHOW = "cat /proc/self/status"


def _fields(text: bytes) -> dict[str, str]:
    return dict(re.findall(r"^(\w+):\s*(.*?)\r?$", text.decode(), re.M))


class PerlLauncherTests(RealCase):
    launcher: Literal["perl", "python"] | None = "perl"

    # D1, D11: who it is

    async def test_ids_groups_and_capabilities(self) -> None:
        """D1, D11."""
        for size in ((80, 24), None):
            seen = _fields(await self.run_command(_SHOW, size))
            uid, gid = str(self.uid), str(self.person.pw_gid)
            self.assertEqual([uid] * 4, seen["Uid"].split())
            self.assertEqual([gid] * 4, seen["Gid"].split())
            wanted = os.getgrouplist(self.person.pw_name, self.person.pw_gid)
            self.assertEqual(sorted(wanted), sorted(map(int, seen["Groups"].split())))
            for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                self.assertEqual(0, int(seen[name], 16), name)
            self.assertEqual("1", seen["NoNewPrivs"])

    async def test_supplementary_groups_are_the_users(self) -> None:
        """D1, BR-046."""
        name = f"cdtg{os.getpid()}"
        run("groupadd", name)
        self.addCleanup(run, "groupdel", name)
        run("usermod", "-aG", name, self.person.pw_name)
        self.assertEqual({self.person.pw_name, name}, set((await self.run_command("id -Gn")).decode().split()))

    async def test_set_uid_programs_gain_nothing(self) -> None:
        """D11."""
        program = self.root / "id"
        shutil.copy("/usr/bin/id", program)
        program.chmod(0o4755)
        self.assertEqual(str(self.uid), (await self.run_command(f"{program} -u")).decode().strip())

    async def test_order_of_the_drop(self) -> None:
        """D1, D4: groups, gid, uid, and all of it before the first program of the user."""
        if shutil.which("strace") is None:
            raise SkipTest("needs strace")
        trace = self.root / "trace"
        self._wrap(
            "strace",
            "-f",
            "-qq",
            "-o",
            str(trace),
            "-e",
            "trace=setgroups,setresgid,setresuid,capset,chdir,execve,openat",
        )
        await self.run_command("true")
        calls = re.findall(r"^\d+ +(\w+)\(([^,)]*)", trace.read_text(), re.M)
        names = [name for name, _ in calls if name not in ("execve", "openat")]
        at = names.index("setgroups")
        self.assertEqual(["setgroups", "setresgid", "setresuid", "capset"], names[at : at + 4])
        self.assertEqual("chdir", names[-1])
        ours = trace.read_text().partition('execve("/bin/bash"')[0]
        for database in ("nsswitch", "/etc/passwd", "/etc/group"):  # D4: users were looked up before the fork
            self.assertNotIn(database, ours)
        executed = [argument for name, argument in calls if name == "execve"]
        self.assertEqual('"/bin/bash"', executed[1])  # after the launcher itself, traced from its own exec

    def _wrap(self, *command: str) -> None:
        """Puts a command before the launcher's own."""
        launcher = self.spawner.launcher
        program = shutil.which(command[0])
        assert program is not None
        head = (os.fsencode(program), *map(os.fsencode, command[1:]), *launcher.head)
        self.spawner.launcher = Launcher(launcher.kind, head, launcher.numbers)

    # D2: a drop that fails

    async def test_a_failed_drop_runs_nothing(self) -> None:
        """D2."""
        if shutil.which("strace") is None:
            raise SkipTest("needs strace")
        mark = self.root / SESSION_ID / "ran"
        plain = self.spawner.launcher
        for what in ("setgroups:error=EPERM", "setresgid:error=EPERM", "setresuid:error=EPERM", "capset:error=EPERM",
                     "setgroups:retval=0", "setresgid:retval=0", "setresuid:retval=0"):  # fmt: skip
            for size in ((80, 24), None):
                self.spawner.launcher = plain
                self._wrap("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={what}")
                error = await self._refused(f"touch {mark}", size)
                self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code, what)
                self.assertIn("becoming the Unix user", error.message, what)
                self.assertFalse(mark.exists(), what)
                await until(lambda: set(children()) <= self.born, "no child is left")

    async def _refused(self, command: str | None, size: tuple[int, int] | None = (80, 24)) -> ApiError:
        try:
            await self.spawner.spawn(self.begin(command, size))
        except ApiError as error:
            for text in (str(self.root), "/usr", "Traceback", "perl", "python"):
                self.assertNotIn(text, error.message)
            return error
        raise AssertionError("the program was started")

    # D5: descriptors

    async def test_three_descriptors(self) -> None:
        """D5, BR-045."""
        held = [os.open("/dev/null", os.O_RDONLY) for _ in range(50)]
        os.dup2(held[0], 900, inheritable=True)
        os.set_inheritable(held[1], True)
        try:
            for size in ((80, 24), None):
                text = (await self.run_command("ls -l /proc/self/fd", size)).decode()
                seen = dict(re.findall(r" (\d+) -> (\S+)", text))
                self.assertEqual({"0", "1", "2", "3"}, set(seen), text)  # ls itself opens 3
                for name in "012":
                    self.assertRegex(seen[name], r"^/dev/pts/\d+$" if size else r"^pipe:")
                self.assertRegex(seen["3"], r"^/proc/")
        finally:
            for number in (*held, 900):
                os.close(number)

    # D6: the folder

    async def test_starts_in_the_workspace(self) -> None:
        """D6."""
        for size in ((80, 24), None):
            self.assertEqual(str(self.root / SESSION_ID), (await self.run_command("pwd", size)).decode().strip())
        found = os.stat(self.root / SESSION_ID)
        self.assertEqual((self.uid, self.person.pw_gid, 0o40700), (found.st_uid, found.st_gid, found.st_mode))

    async def test_a_workspace_that_the_user_cant_reach(self) -> None:
        """D6."""
        self.root.chmod(0o700)
        error = await self._refused("true")
        self.assertEqual(Code.COMPUTER_NOT_SET_UP, error.code)
        self.assertIn("Permission denied", error.message)

    async def test_a_link_in_place_of_the_workspace_is_the_users_own_business(self) -> None:
        """D6."""
        (self.root / SESSION_ID).symlink_to("/root")
        self.assertEqual(Code.COMPUTER_NOT_SET_UP, (await self._refused("true")).code)
        self.assertEqual(0, os.stat("/root").st_uid)

    # D7, D9: environment and command

    async def test_exactly_seven_variables(self) -> None:
        """D7, BR-048."""
        canaries = ["SECRET", "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY", "LISTEN_FDS", "WATCHDOG_USEC", "INVOCATION_ID"]
        canaries += ["JOURNAL_STREAM", "PYTHONPATH", "PERL5LIB", "NONCE", "LC_ALL"]
        for name in canaries:
            self.addCleanup(os.environ.pop, name, None)
            os.environ[name] = "canary"
        wanted = {
            "HOME": self.person.pw_dir,
            "USER": self.person.pw_name,
            "LOGNAME": self.person.pw_name,
            "SHELL": "/bin/bash",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
        for size, term in (((80, 24), "xterm-256color"), (None, "dumb")):
            text = (await self.run_command("tr '\\0' '\\n' </proc/$$/environ", size, term)).decode()
            self.assertEqual({**wanted, "TERM": term}, dict(line.split("=", 1) for line in text.split()))

    async def test_any_command_arrives_as_it_is(self) -> None:
        """D9."""
        command = "printf %s 'žluťoučký 🐎 \\ $HOME \"x\" '\"'\"'é'; : " + "𝄞" * 9900
        text = await self.run_command(command, None)
        self.assertEqual('žluťoučký 🐎 \\ $HOME "x" \'é'.encode(), text)
        _, recorder = await self.open("-x", None)
        self.assertNotEqual((0, None), await recorder.finish())

    async def test_what_no_program_can_be_given(self) -> None:
        """D9."""
        for command in ("a\0b", "\udc80", "\ud800"):
            error = await self._refused(command)
            self.assertEqual((Code.INVALID_REQUEST, "command"), (error.code, error.field))

    # D10: process state

    async def test_clean_state(self) -> None:
        """D10, BR-044, BR-053."""
        umask = os.umask(0o077)
        self.addCleanup(os.umask, umask)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR2})
        self.addCleanup(signal.pthread_sigmask, signal.SIG_SETMASK, mask)
        self.addCleanup(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_IGN))
        for size in ((80, 24), None):
            seen = _fields(await self.run_command(_SHOW, size))
            for name in ("SigBlk", "SigIgn"):
                self.assertEqual(0, int(seen[name], 16), name)
            command = "umask; nice; ulimit -c; ulimit -Sn; ulimit -Hn; cat /proc/self/oom_score_adj"
            hard = min(16384, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
            text = (await self.run_command(command, size)).split()
            self.assertEqual(["0022", "0", "0", "1024", str(hard), "200"], [word.decode() for word in text])

    async def test_nice_is_reset(self) -> None:
        """D10, BR-053."""
        self._wrap("nice", "-n", "5")
        self.assertEqual(b"0", (await self.run_command("nice", None)).strip())

    async def test_sigpipe_and_sigint_work(self) -> None:
        """BR-043."""
        for size in ((80, 24), None):
            text = await self.run_command("yes | head -n1; echo ${PIPESTATUS[@]}", size)
            self.assertEqual([b"y", b"141", b"0"], text.split())

    # D12: the terminal; BR-018, BR-033, BR-040, BR-042

    async def test_the_terminal_is_the_users(self) -> None:
        """D12, BR-018, BR-033, BR-040, BR-042."""
        text = await self.run_command(
            "stat -c '%U %G %a' $(tty); : <>$(tty) && echo again; echo x >/dev/tty; stty -a | grep -o ' iutf8'; stty size"
        )
        self.assertEqual(f"{self.person.pw_name} tty 600 again x iutf8 24 80".split(), text.decode().split())

    async def test_another_user_never_opens_the_terminal(self) -> None:
        """D12: at no moment of an open can the other user open it, and it is never wider than 0600."""
        watcher = self._snoop(
            "  if s.st_uid == int(sys.argv[2]) and s.st_mode & 0o77: print('wide', oct(s.st_mode))\n"
            "  try: os.open(path, os.O_RDWR | os.O_NOCTTY); print('opened', path)\n"
            "  except OSError: pass\n",
            person("b"),
        )
        for _ in range(30):
            await self.run_command("true")
        self.assertEqual((b"", 0), self._caught(watcher))

    async def test_the_terminal_is_roots_until_it_is_the_programs(self) -> None:
        """Or a process of the user, the leader of a session without a terminal, could make it its own before the program does."""
        seen: list[tuple[int, int]] = []
        spawn = self.spawner._reactor.spawnProcess

        def look(*arguments: Any, **named: Any) -> Any:
            found = os.fstat(named["usePTY"][1])
            seen.append((found.st_uid, found.st_mode & 0o777))
            return spawn(*arguments, **named)

        self.patch(self.spawner._reactor, "spawnProcess", look)
        await self.run_command("true")
        self.assertEqual([(0, 0o600)], seen)

    def _snoop(self, look: str, who: pwd.struct_passwd) -> subprocess.Popen[bytes]:
        """Looks at every terminal, again and again, as a user."""
        script = (
            "import os, sys, time\nend = time.time() + 30\n"
            "while time.time() < end and not os.path.exists(sys.argv[1]):\n"
            " for name in os.listdir('/dev/pts'):\n  path = '/dev/pts/' + name\n"
            "  try: s = os.stat(path)\n  except OSError: continue\n"
        )
        python = shutil.which("python3", path="/usr/bin") or sys.executable
        return subprocess.Popen(
            [python, "-c", script + look, self.root / "stop", str(self.uid)],
            user=who.pw_uid, group=who.pw_gid, extra_groups=[], stdout=subprocess.PIPE, cwd="/", start_new_session=True,
        )  # fmt: skip

    def _caught(self, snoop: subprocess.Popen[bytes]) -> tuple[bytes, int]:
        (self.root / "stop").touch()
        out, _ = snoop.communicate(timeout=30)
        return out, snoop.returncode

    async def test_job_control(self) -> None:
        """BR-041, BR-032."""
        process, recorder = await self.open("exec bash --norc --noprofile -i")
        for keys, seen in ((b"set -o | grep monitor; PS1=\n", b"on"), (b"sleep 200\n", b"sleep 200"), (b"\x1a", b"Stopped"),
                           (b"fg\n", b"sleep 200\r\n"), (b"\x03", b"^C"), (b"echo rc=$?\n", b"rc=130")):  # fmt: skip
            if keys in (b"\x1a", b"\x03"):
                await until(lambda: self._foreground_is(b"sleep"), "sleep has the terminal")
            process.write(keys)
            await recorder.see(seen)
        for text in (b"job control", b"process group"):
            self.assertNotIn(text, recorder.text)
        process.write(b"exit\n")
        await recorder.finish()

    def _foreground_is(self, name: bytes) -> bool:
        for child in set(children()) - self.born:
            with contextlib.suppress(OSError):
                group = int(Path(f"/proc/{child}/stat").read_bytes().rpartition(b")")[2].split()[5])
                if Path(f"/proc/{group}/comm").read_bytes().strip() == name:
                    return True
        return False

    async def test_ctrl_c(self) -> None:
        process, recorder = await self.open("echo go; exec sleep 100")
        await recorder.see(b"go")
        process.write(b"\x03")
        self.assertEqual((None, "SIGINT"), await recorder.finish())
        self.assertIn(b"^C", recorder.text)

    # D13: pipes

    async def test_pipes_have_a_session_of_their_own(self) -> None:
        """D13."""
        text = await self.run_command("ps -o pid=,pgid=,sid=,tty= -p $$; true </dev/tty || echo none", None)
        pid, group, session, tty, none = text.decode().split()[:5]
        self.assertEqual((pid, pid, "?", "none"), (group, session, tty, none))
        self.assertNotEqual(os.getsid(0), int(session))

    async def test_the_names_of_the_standard_streams(self) -> None:
        """They lead to the pipes, which root has made: the user must be able to open them."""
        process, recorder = await self.open("cat /dev/stdin > /dev/stdout; echo two > /dev/stderr", None)
        process.write(b"one\n")
        process.eof()
        self.assertEqual((0, None), await recorder.finish())
        self.assertEqual((b"one\n", b"two\n"), (recorder.text, recorder.errors))

    # D15: a shell that can't be run; BR-051

    async def _with_shell(self, shell: str, command: str | None = "echo $SHELL") -> Recorder:
        account = attrs.evolve(self.spawner.account("mb_owner"), shell=shell)
        self.patch(Accounts, "of", lambda accounts, owner: account)
        _, recorder = await self.open(command, None)
        return recorder

    async def test_a_shell_that_is_missing_or_not_executable(self) -> None:
        """D15, BR-051."""
        plain = self.root / "plain"
        plain.write_text("echo no")
        for shell in ("/no/such/shell", str(plain), "/etc", "not/absolute"):
            recorder = await self._with_shell(shell)
            self.assertEqual((0, None), await recorder.finish(), shell)
            self.assertEqual(b"/bin/sh\n", recorder.text)

    async def test_a_shell_in_a_wrong_format(self) -> None:
        """D15."""
        broken = self.root / "broken"
        broken.write_bytes(b"\x7fELF nonsense")
        broken.chmod(0o755)
        recorder = await self._with_shell(str(broken))
        self.assertEqual((126, None), await recorder.finish())
        self.assertEqual(f"{broken}: Exec format error\n".encode(), recorder.errors)
        self.assertEqual(b"", recorder.text)

    async def test_a_shell_that_is_being_written(self) -> None:
        """D15."""
        busy = self.root / "busy"
        shutil.copy("/bin/sh", busy)
        writing = os.open(busy, os.O_WRONLY)
        try:
            recorder = await self._with_shell(str(busy))
            self.assertEqual((126, None), await recorder.finish())
        finally:
            os.close(writing)
        self.assertEqual(f"{busy}: Text file busy\n".encode(), recorder.errors)

    async def test_a_script_for_a_shell(self) -> None:
        """D15: without an interpreter that is there it is as good as missing; without any, 126 and one line that says so."""
        script = self.root / "script"
        for text, end, out, errors in (
            ("#!/no/such/interpreter\n", (0, None), b"/bin/sh\n", b""),
            ("echo no\n", (126, None), b"", f"{script}: Exec format error\n".encode()),
        ):
            script.write_text(text)
            script.chmod(0o755)
            recorder = await self._with_shell(str(script))
            self.assertEqual(end, await recorder.finish(), text)
            self.assertEqual((out, errors), (bytes(recorder.text), bytes(recorder.errors)))

    async def test_a_shell_where_nothing_may_be_executed(self) -> None:
        """D15: a `noexec` mount is like a file that is not executable."""
        folder = self.root / "mount"
        folder.mkdir(mode=0o755)
        try:
            run("mount", "-t", "tmpfs", "-o", "noexec,mode=755", "tmpfs", str(folder))
        except subprocess.CalledProcessError:
            raise SkipTest("needs to mount") from None
        try:
            shutil.copy("/bin/sh", folder / "sh")
            recorder = await self._with_shell(str(folder / "sh"))
            self.assertEqual((0, None), await recorder.finish())
            self.assertEqual((b"/bin/sh\n", b""), (bytes(recorder.text), bytes(recorder.errors)))
        finally:
            run("umount", str(folder))

    async def test_nologin(self) -> None:
        """BR-051."""
        recorder = await self._with_shell("/usr/sbin/nologin", None)
        self.assertEqual((1, None), await recorder.finish())
        self.assertIn(b"not available", recorder.text)

    async def test_commands_that_the_shell_cant_run(self) -> None:
        """BR-010."""
        for command, code in (("/no/such", 127), ("/etc", 126), ("/etc/passwd", 126)):
            _, recorder = await self.open(command)
            self.assertEqual((code, None), await recorder.finish(), command)
            self.assertNotIn(b"Traceback", recorder.text)

    # D16: nobody looks inside before the exec

    async def test_the_launcher_cant_be_inspected(self) -> None:
        """D16: stopped right after the drop, it is the user's process; and yet the user can't read it."""
        if shutil.which("strace") is None:
            raise SkipTest("needs strace")
        self._wrap("strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=chdir:signal=SIGSTOP")
        waiting = self.spawner.spawn(self.begin("true", None))
        await until(self._dropped, "the launcher has dropped its rights and is stopped")
        pid = self._dropped()
        for file in ("environ", "maps", "mem", "fd/", "cwd/"):
            self.assertIn(b"Permission denied", self._read_as_user(f"/proc/{pid}/{file}"), file)
        os.kill(pid, signal.SIGCONT)
        recorder = Recorder()
        (await waiting).start(recorder)
        self.assertEqual((0, None), await recorder.finish())

    def _read_as_user(self, file: str) -> bytes:
        command = ["ls" if file.endswith("/") else "cat", file]
        tried = subprocess.run(
            command, user=self.uid, group=self.person.pw_gid, extra_groups=[], capture_output=True, cwd="/", check=False
        )
        return tried.stderr

    def _dropped(self) -> int:
        for task in Path("/proc").iterdir():
            try:
                if task.name.isdigit() and status(int(task.name), "Uid").split() == [str(self.uid)] * 4:
                    return int(task.name) if status(int(task.name), "State")[0] in "tT" else 0
            except OSError:
                continue
        return 0

    # D17: nothing of the user's is loaded as root

    async def test_the_user_cant_steer_it(self) -> None:
        """D17."""
        await self.run_command("true")  # so that the workspace is there
        code = f"open({str(self.root)!r} + '/' + str(__import__('os').getuid()), 'w')\n"
        self.root.chmod(0o755)
        for folder in (Path(self.person.pw_dir), self.root / SESSION_ID):
            for name in ("sitecustomize.py", "os.py", "ctypes.py", "signal.py", "resource.py", "strict.pm"):
                (folder / name).write_text(code)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.root / SESSION_ID)
        for name in ("PYTHONPATH", "PERL5LIB"):
            os.environ[name] = str(self.root / SESSION_ID)
            self.addCleanup(os.environ.pop, name, None)
        self.assertEqual(b"fine", (await self.run_command("echo fine", None)).strip())
        self.assertEqual([SESSION_ID], os.listdir(self.root))

    # D19: login shells; BR-050

    async def test_login_shell(self) -> None:
        """D19, BR-050."""
        (Path(self.person.pw_dir) / ".bash_profile").write_text("export FROM_PROFILE=1\n")
        process, recorder = await self.open(None)
        process.write(b'echo "$0 $FROM_PROFILE"; shopt -q login_shell && echo LOG""IN; exit\n')
        await recorder.see(b"-bash 1")
        await recorder.see(b"LOGIN")
        self.assertEqual((0, None), await recorder.finish())

    async def test_a_command_is_for_the_shell(self) -> None:
        """D19."""
        name, flags = (await self.run_command("echo $0; echo $-", None)).decode().split()
        self.assertEqual("bash", name)
        self.assertIn("c", flags)

    # The time limit

    async def test_a_launcher_that_hangs(self) -> None:
        self.spawner.launcher = Launcher(self.spawner.launcher.kind, (b"/bin/sh", b"-c", b"exec sleep 1000"), "")
        self.patch(sys.modules["computerd.host.opening"], "LAUNCH_SECONDS", 0.2)
        self.assertEqual(10.0, LAUNCH_SECONDS)
        began = monotonic()
        for size in ((80, 24), None):
            error = await self._refused("true", size)
            self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
        self.assertLess(monotonic() - began, 5)


class PythonLauncherTests(PerlLauncherTests):
    launcher = "python"


class ByForkTests(PerlLauncherTests):
    """Twisted forks, as on old kernels."""

    fork = True
