"""Starting processes when something is in the way, and stopping."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
from collections.abc import Callable
from time import monotonic

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.host.launcher import Launcher
from computerd.host.line import Ptys
from computerd.host.settings import HostError, HostSettings
from computerd.host.spawner import HostSpawner
from computerd.terminal.port import Process
from tests.host.people import needs_root, person, status
from tests.host.real import SESSION_ID, RealCase, children, descriptors
from tests.host.waiting import Recorder, reactor, until


def failing(code: int) -> Callable[..., object]:
    def fail(*arguments: object, **named: object) -> object:
        raise OSError(code, os.strerror(code))

    return fail


class RefusalTests(RealCase):
    """BR-063, R5, R6: whatever fails, the caller is told which, and nothing is left."""

    async def refused(self, size: tuple[int, int] | None = (80, 24)) -> ApiError:
        before = descriptors()
        error = await self.assertFailure(self.spawner.spawn(self.begin("true", size)), ApiError)
        assert isinstance(error, ApiError)
        self.assertEqual(before.keys(), descriptors().keys())
        await until(lambda: set(children()) <= self.born, "no child is left")
        return error

    async def test_no_pseudo_terminal_is_left(self) -> None:
        for code in (errno.ENOSPC, errno.EIO):
            self.patch(os, "openpty", failing(code))
            error = await self.refused()
            self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
            self.assertIn("no pseudo-terminal is left", error.message)

    async def test_no_descriptor_is_left(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        before = descriptors().keys()
        top = max(map(int, before))
        for size in ((80, 24), None):
            for room in range(6):
                resource.setrlimit(resource.RLIMIT_NOFILE, (top + 1 + room, hard))
                held: list[int] = []
                try:
                    while True:
                        held.append(os.open("/dev/null", os.O_RDONLY))
                except OSError:
                    for _ in range(room):
                        os.close(held.pop())
                try:
                    error = await self._any_refusal(size)
                finally:
                    for number in held:
                        os.close(number)
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                if error is not None:
                    self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code, error.message)
                    self.assertEqual(before, descriptors().keys())
        self.assertIn(b"hi", await self.run_command("echo hi"))

    async def _any_refusal(self, size: tuple[int, int] | None) -> ApiError | None:
        try:
            process = await self.spawner.spawn(self.begin("true", size))
        except ApiError as error:
            return error
        recorder = Recorder()
        process.start(recorder)
        await recorder.finish()
        return None

    async def test_no_process_can_be_started(self) -> None:
        for name, size in (("posix_spawn", (80, 24)), ("posix_spawnp", None)):
            for code in (errno.EAGAIN, errno.ENOMEM):
                self.patch(os, name, failing(code))
                error = await self.refused(size)
                self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
                self.assertIn("for want of processes or memory", error.message)

    async def test_no_launcher(self) -> None:
        self.spawner.launcher = Launcher("perl", (b"/no/such/perl",), "")
        for size in ((80, 24), None):
            error = await self.refused(size)
            self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
            self.assertNotIn("/no/such", error.message)

    async def test_a_launcher_that_dies(self) -> None:
        for command, how in (
            (b"exit 7", "status 7"),
            (b"kill -9 $$", "SIGKILL"),
            (b"echo -n nonsense; exit 7", "status 7"),
        ):
            self.spawner.launcher = Launcher("perl", (b"/bin/sh", b"-c", command), "")
            for size in ((80, 24), None):
                error = await self.refused(size)
                self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
                self.assertIn(how, error.message)

    async def test_a_user_that_wont_do(self) -> None:
        self.spawner.configure(self.settings(agent_user="no-such-user"))
        self.assertEqual(Code.COMPUTER_NOT_SET_UP, (await self.refused()).code)
        self.assertEqual([], os.listdir(self.root))

    async def test_a_workspace_that_cant_be_made(self) -> None:
        self.patch(os, "mkdir", failing(errno.ENOSPC))
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, (await self.refused()).code)

    async def test_a_hundred_refusals_leave_nothing(self) -> None:
        self.root.chmod(0o700)
        for n in range(100):
            self.assertEqual(Code.COMPUTER_NOT_SET_UP, (await self.refused((80, 24) if n % 2 else None)).code)

    async def test_cancelled(self) -> None:
        """BR-064: who asked has gone meanwhile."""
        before = descriptors().keys()
        for size in ((80, 24), None):
            waiting: Deferred[Process] = self.spawner.spawn(self.begin("true", size))
            waiting.cancel()
            with contextlib.suppress(CancelledError):  # on a busy machine it may have said already that it runs
                (await waiting).discard()
            await until(lambda: set(children()) <= self.born, "no child is left")
            self.assertEqual(before, descriptors().keys())


class ReserveTests(RealCase):
    """R5: an owner can still get in."""

    async def test_a_spare_terminal_is_used_when_none_is_left(self) -> None:
        self.spawner._terminals = Ptys(2)
        self.spawner._terminals.fill()
        openpty = os.openpty
        self.patch(os, "openpty", failing(errno.ENOSPC))
        opened = [await self.open("echo hi; tty; cat", (123, 37)) for _ in range(2)]
        for _, recorder in opened:
            await recorder.see(b"/dev/pts/")
        error = await self.assertFailure(self.spawner.spawn(self.begin("true")), ApiError)
        self.assertIn("no pseudo-terminal is left", str(error))
        self.patch(os, "openpty", openpty)
        for process, recorder in opened:
            process.hang_up()
            await recorder.finish()
        self.assertEqual(2, self.spawner._terminals.spare)

    async def test_spare_ones_are_nobodys(self) -> None:
        terminals = Ptys(1)
        terminals.fill()
        master, slave = terminals.take()
        self.assertEqual(0, os.fstat(slave).st_uid)
        self.assertFalse(os.get_inheritable(master) or os.get_inheritable(slave))
        os.close(master)
        os.close(slave)
        terminals.close()


class ShutdownTests(RealCase):
    """BR-066."""

    async def test_all_that_runs_is_hung_up(self) -> None:
        opened = [await self.open("echo go; sleep 1000 & wait", size) for size in ((80, 24), None, (80, 24))]
        for _, recorder in opened:
            await recorder.see(b"go")
        began = monotonic()
        await self.spawner.shutdown()
        self.assertLess(monotonic() - began, limits.LINGER_SECONDS + 3)
        for _, recorder in opened:
            self.assertEqual((None, "SIGHUP"), recorder.end)

    async def test_the_stubborn_and_the_deaf(self) -> None:
        _, stubborn = await self.open("trap '' HUP; echo go; while :; do sleep 1; done")
        await stubborn.see(b"go")
        _, deaf = await self.open("exec yes", None, full_after=1)
        began = monotonic()
        await self.spawner.shutdown()
        self.assertLess(monotonic() - began, limits.KILL_SECONDS + 3)
        self.assertEqual((None, "SIGKILL"), stubborn.end)
        self.assertEqual((None, "SIGHUP"), deaf.end)

    async def test_what_is_being_started(self) -> None:
        waiting = [self.spawner.spawn(self.begin("sleep 100", size)) for size in ((80, 24), None)]
        done = self.spawner.shutdown()
        for one in waiting:
            error = await self.assertFailure(one, ApiError)
            self.assertIn("stopping", str(error))
        await done
        await until(lambda: set(children()) <= self.born, "no child is left")

    async def test_nothing_is_started_any_more(self) -> None:
        await self.spawner.shutdown()
        error = await self.assertFailure(self.spawner.spawn(self.begin("true")), ApiError)
        self.assertIn("stopping", str(error))
        await self.spawner.shutdown()


class UsersTests(RealCase):
    async def test_each_member_its_own_user(self) -> None:
        other = person("b")
        self.spawner.configure(self.settings(users={"mb_owner": other.pw_name}))
        text = await self.run_command(f"id -un; cat {self.root}/cs_aaaaaaaaaaaaaaaa/secret 2>&1; true", None)
        self.assertEqual(other.pw_name, text.decode().split()[0])

    async def test_the_daemon_stays_root(self) -> None:
        for _ in range(10):
            await self.run_command("true")
            self.assertEqual(["0"] * 4, status(os.getpid(), "Uid").split())

    async def test_privileges_may_be_left_open(self) -> None:
        self.spawner.configure(self.settings(no_new_privileges=False, umask=0o027, path="/bin", lang="C"))
        text = await self.run_command("grep NoNewPrivs /proc/$$/status; umask; echo $PATH $LANG", None)
        self.assertEqual(["NoNewPrivs:", "0", "0027", "/bin", "C"], text.decode().split())


class OrdinaryUserTests(RealCase):
    """A daemon that isn't root opens terminals as who started it."""

    as_root = False

    async def test_its_own_user(self) -> None:
        for size in ((80, 24), None):
            self.assertEqual(str(os.getuid()), (await self.run_command("id -u", size)).decode().strip())
            self.assertEqual(str(self.root / SESSION_ID), (await self.run_command("pwd", size)).decode().strip())

    async def test_a_clean_start_all_the_same(self) -> None:
        os.environ["SECRET"] = "canary"
        self.addCleanup(os.environ.pop, "SECRET")
        text = (await self.run_command("tr '\\0' '\\n' </proc/$$/environ; umask", None)).decode()
        self.assertNotIn("canary", text)
        self.assertIn("0022", text)

    async def test_hang_up(self) -> None:
        process, recorder = await self.open("echo go; exec sleep 100")
        await recorder.see(b"go")
        process.hang_up()
        self.assertEqual((None, "SIGHUP"), await recorder.finish())


class SettingsTests(SynchronousTestCase):
    def test_a_root_that_wont_do_is_said_at_once(self) -> None:
        needs_root()
        before = descriptors()
        folder = self.mktemp()
        os.mkdir(folder, 0o777)
        os.chmod(folder, stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
        self.assertRaises(HostError, HostSpawner, reactor, HostSettings(folder))
        self.assertEqual(before.keys(), descriptors().keys())
