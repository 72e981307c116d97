"""`computerctl try`: a daemon of one's own on the loopback, a terminal in it, and nothing left afterwards."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import http.client
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import define, frozen

from computerd.config import Config, ConfigError, trust
from computerd.ctl import programs, setup
from computerd.ctl.errors import CommandError

START_SECONDS: Final = 30.0
"""For the daemon to answer, in seconds; it takes about one."""
STOP_SECONDS: Final = 15.0
"""For the daemon to end after SIGTERM; it promises 10."""
POLL_SECONDS: Final = 0.05
_PR_SET_PDEATHSIG: Final = 1

HELLO: Final = 'echo "Hello from $(id -un) in $(pwd), through computerd"'


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "try", parents=[common], help="a daemon of your own and a terminal in it, gone when you leave",
        usage="computerctl try [--] [COMMAND [ARGUMENT ...]]",
    )  # fmt: skip
    command.add_argument("words", nargs="*", metavar="COMMAND", help="what to run; without it a shell")
    command.set_defaults(
        run=lambda context, arguments: Tryout(context.config(), context.environ, context.say).run(arguments.words)
    )


@frozen
class Tryout:
    """One try.

    Attributes:
        config: The host's, for where `setup` keeps its record.
        environ: The environment.
        say: Takes lines for the person.
    """

    config: Config
    environ: Mapping[str, str]
    say: Callable[[str], None]

    def run(self, command: Sequence[str]) -> int:
        """Sets up, starts, enters, stops.

        Args:
            command: Words for the terminal; none: a shell on a terminal, otherwise a greeting.

        Returns:
            The status that the command ended with.

        Raises:
            CommandError: It did not get that far.
        """
        if os.geteuid() == 0:
            self._make_user()
        with _ending_well(), _folder() as folder, self._daemon(folder) as url:
            self.say(f"computerd serves {url} until you leave")
            return self._client(folder, command)

    def _make_user(self) -> None:
        plan = setup.plan_user(self.config, self.config.agent.user, self.say)
        if plan.carry_out(dry_run=False):
            self.say(f"{programs.computerctl(sys.argv[0])} setup --undo takes that back")

    @contextlib.contextmanager
    def _daemon(self, folder: Path) -> Iterator[str]:
        port = _free_port()
        (folder / "config.toml").touch(mode=0o644)  # what the host's own configuration says is not for this one
        arguments = [
            "--config", f"{folder}/config.toml", "--listen", f"tcp:{port}:interface=127.0.0.1", "--state-dir", f"{folder}/state",
            "--workspace-root", f"{folder}/workspaces", "--local-socket", f"{folder}/local.sock",
        ]  # fmt: skip
        if os.geteuid() == 0:
            arguments += ["--agent-user", self.config.agent.user]
        log = folder / "log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                programs.twistd("--nodaemon", "--pidfile=", "computerd", *arguments),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/",
                start_new_session=True,  # ^C is for the program in the terminal
                preexec_fn=_die_with_us,  # noqa: PLW1509  # there is no second thread
                env={name: value for name, value in self.environ.items() if not name.startswith("COMPUTERD_")},
            )  # fmt: skip
        try:
            _wait_until_it_answers(child, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            _stop(child)

    def _client(self, folder: Path, command: Sequence[str]) -> int:
        terminal = sys.stdin.isatty()
        if command:
            arguments = (
                ["shell", "-t", "--", *command] if terminal and sys.stdout.isatty() else ["exec", "--", *command]
            )
        else:
            arguments = ["shell"] if terminal else ["exec", "--", HELLO]
        environ = {name: value for name, value in self.environ.items() if not name.startswith("OPC_")}
        environ["OPC_LOCAL_SOCKET"] = f"{folder}/local.sock"
        # A greeting reads nothing, so that it ends also where standard input never does.
        stdin = subprocess.DEVNULL if not command and not terminal else None
        with subprocess.Popen(programs.opc(*arguments), stdin=stdin, env=environ) as child, _passed_on(child):
            status = child.wait()
        return status if status >= 0 else 128 - status


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A temporary folder whose workspaces another Unix user can enter, if we are root."""
    places = [None, "/var/tmp", "/tmp"] if os.geteuid() == 0 else [None]  # noqa: S108  # mkdtemp makes a name of its own in there
    place = next((place for place in places if _good_for_all(Path(place or tempfile.gettempdir()))), None)
    folder = Path(tempfile.mkdtemp(prefix="computerd-try-", dir=place))
    try:
        folder.chmod(0o755 if os.geteuid() == 0 else 0o700)
        yield folder
    finally:
        # not shutil.rmtree, which a program can stop with folders a thousand deep
        subprocess.run(
            ["/bin/rm", "-rf", "--", folder], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )


def _good_for_all(folder: Path) -> bool:
    """Whether others can pass through, and nobody but root can move what root makes there."""
    try:
        trust.check(folder)
    except ConfigError:
        return False
    return all(part.stat().st_mode & stat.S_IXOTH for part in (folder.resolve(), *folder.resolve().parents))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_us() -> None:
    """So that not even SIGKILL of this process leaves a daemon behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait_until_it_answers(child: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(port):
        if child.poll() is not None:
            raise CommandError(f"the daemon did not start (status {child.returncode}): {_last_line(log)}")
        if time.monotonic() > deadline:
            raise CommandError(f"the daemon did not answer within {START_SECONDS:.0f} s: {_last_line(log)}")
        time.sleep(POLL_SECONDS)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextlib.contextmanager
def _ending_well() -> Iterator[None]:
    """SIGTERM and SIGHUP end this process by way of every `finally`."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


@define
class _Passing:
    """Passes signals on to the client, which puts the terminal back before it ends."""

    child: subprocess.Popen[bytes]

    def __call__(self, number: int, frame: object) -> None:
        if number != signal.SIGINT:  # the keyboard's reaches the client by itself
            with contextlib.suppress(ProcessLookupError):
                self.child.send_signal(number)


@contextlib.contextmanager
def _passed_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    passing = _Passing(child)
    before = {number: signal.signal(number, passing) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
