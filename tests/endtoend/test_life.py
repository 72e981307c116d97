"""The daemon's own life: start, refusal to start, reload, end, and death (BR-066, L1, L2, L4, T13)."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from twisted.trial.unittest import SynchronousTestCase

from tests.endtoend.client import Client, ConnectionClosed, http, raw
from tests.endtoend.computer import Account, Computer, alive, eventually, free_port


class LifeCase(SynchronousTestCase):
    """Tests that start their own daemons."""

    def setUp(self) -> None:
        self.agent = None
        if os.geteuid() == 0:
            self.agent = Account.make()
            self.addCleanup(self.agent.remove)

    def computer(self, *options: str, **environ: str) -> Computer:
        """A daemon that runs, and is removed after the test."""
        made = Computer(agent=self.agent, options=options, environ=environ)
        self.addCleanup(made.remove)
        made.start()
        return made

    def shell_pid(self, client: Client, session: str, before: str = "") -> int:
        """A terminal's process that stays."""
        shell = client.open(session, f"{before} echo p=$$=; while :; do sleep 1; done")
        shell.expect(b"p=")
        return int(shell.expect(b"=")[:-1])


class EndTests(LifeCase):
    """SIGTERM and SIGKILL."""

    def test_sigterm(self) -> None:
        """BR-066, L2: terminals are hung up, clients hear 1012, the end comes within 10 s, and the journal has it all."""
        computer = self.computer()
        session = computer.session()
        client = computer.client()
        pids = [self.shell_pid(client, session, before) for before in ("", "trap '' HUP;")]
        began = time.monotonic()
        assert computer.process is not None
        computer.process.send_signal(signal.SIGTERM)
        self.assertEqual(client.closed()[0], 1012)
        self.assertIn(computer.process.wait(15), (0, -signal.SIGTERM))
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual([alive(pid) for pid in pids], [False, False])
        self.assertFalse((computer.folder / "local.sock").exists())
        computer.start()
        types = [event["type"] for event in computer.events(session)]
        self.assertEqual((types.count("terminal.opened"), types.count("terminal.closed")), (2, 2))

    def test_no_new_connections_while_it_ends(self) -> None:
        computer = self.computer()
        client = computer.client()
        self.shell_pid(client, computer.session(), "trap '' HUP;")
        assert computer.process is not None
        computer.process.send_signal(signal.SIGTERM)

        def refused() -> bool:
            try:
                socket.create_connection(("127.0.0.1", computer.port), 1).close()
            except OSError:
                return True
            return False

        eventually(refused, "the port is closed", 3)
        self.assertTrue(computer.running)

    def test_sigkill(self) -> None:
        """L1, T13: the next start closes in the journal what the death left open; terminals do not outlive their master."""
        computer = self.computer()
        session = computer.session()
        client = computer.client()
        pid = self.shell_pid(client, session)
        computer.stop(signal.SIGKILL)
        self.assertRaises(ConnectionClosed, client.until, lambda: False)
        eventually(lambda: not alive(pid), "the shell died of the hang-up")
        computer.start()
        events = computer.events(session)
        self.assertEqual([event["seq"] for event in events], list(range(1, len(events) + 1)))
        opened, closed = (e for e in events if str(e["type"]).startswith("terminal."))
        self.assertEqual((opened["type"], closed["type"]), ("terminal.opened", "terminal.closed"))
        self.assertEqual(dict(closed["data"])["exitCode"], None)  # type: ignore[call-overload]
        self.assertEqual(computer.client().run(session, "exit 4")[1], 4)

    def test_revocations_outlive_a_kill(self) -> None:
        """C7."""
        computer = self.computer()
        token = computer.ctl("token", "create", "--member", "eve", "--scope", "sessions:read").stdout.strip()
        computer.ctl("token", "revoke", "--member", "eve")
        computer.stop(signal.SIGKILL)
        computer.start()
        self.assertEqual(http(computer.base + "/sessions", token=token).status, 401)
        self.assertEqual(http(computer.base + "/sessions", token=computer.token()).status, 200)


class ReloadTests(LifeCase):
    """SIGHUP."""

    def test_a_reload_drops_no_terminal(self) -> None:
        computer = self.computer()
        client = computer.client()
        shell = client.open(computer.session(), "stty raw -echo; echo go; cat")
        shell.expect(b"go")
        assert computer.process is not None
        self.reload(computer)
        shell.type(b"still here")
        shell.expect(b"still here")
        self.assertIsNone(computer.process.poll())

    def test_a_reload_reads_limits_anew(self) -> None:
        """For terminals that are opened from then on; a configuration that is wrong changes nothing."""
        computer = self.computer()
        session, client = computer.session(), computer.client()
        computer.configuration.write_text('[agent]\numask = "027"\nnofile_soft = 333\n')
        self.reload(computer)
        self.assertEqual(client.run(session, "umask; ulimit -Sn")[0].split(), [b"0027", b"333"])
        computer.configuration.write_text('[agent]\numask = "nonsense"\n')
        self.reload(computer)
        self.assertEqual(client.run(session, "umask; ulimit -Sn")[0].split(), [b"0027", b"333"])
        self.assertIn("agent.umask", computer.log)

    def reload(self, computer: Computer) -> None:
        """SIGHUP, and waits until it was heeded."""
        said = "were read again"
        before = computer.log.count(said)
        assert computer.process is not None
        computer.process.send_signal(signal.SIGHUP)
        eventually(lambda: computer.log.count(said) > before, "the reload is done")

    def test_a_key_that_appears_later_is_picked_up(self) -> None:
        """4503 and 503 until the configured key is there, then service without a restart."""
        keys = Computer()
        self.addCleanup(keys.remove)
        keys.ctl("key", "init")
        public = (keys.folder / "state" / "keys" / "host_ed25519.pub").read_text()
        token = keys.token("alice")
        late = keys.folder / "late.pub"
        computer = Computer(agent=self.agent, environ={"COMPUTERD_AUTH_PUBLIC_KEY_FILE": str(late)})
        self.addCleanup(computer.remove)
        computer.start()
        reply = http(computer.base + "/sessions", token=token)
        self.assertEqual((reply.status, reply.code), (503, "unavailable"))
        self.assertEqual(reply.json["error"]["retryAfterMs"], 2000)
        socket_ = raw(
            computer.url,
            additional_headers={"Authorization": f"Bearer {token}"},
            subprotocols=["opc.v1"],
        )
        self.assertEqual(Client(socket_).closed(), (4503, '{"retryAfterMs":2000}'))
        late.write_text(public)
        late.chmod(0o644)
        eventually(lambda: http(computer.base + "/sessions", token=token).status == 200, "the key is picked up", 6)


class StartTests(LifeCase):
    """A start that can't be: one line, status 78, no traceback."""

    def refusal(self, arrange: Callable[[Computer], None]) -> str:
        """The last line of a start that fails with 78."""
        computer = Computer(agent=self.agent)
        self.addCleanup(computer.remove)
        arrange(computer)
        done = subprocess.run(
            computer.command(),
            capture_output=True,
            check=False,
            text=True,
            timeout=20,
            env={
                **os.environ,
                "COMPUTERD_CONFIG": str(computer.configuration),
                "COMPUTERD_LOCAL_SOCKET": str(computer.folder / "l.sock"),
                **computer.environ,
            },
        )
        self.assertEqual(done.returncode, 78, done.stderr + done.stdout)
        self.assertNotIn("Traceback", done.stderr + done.stdout)
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_an_unknown_key(self) -> None:
        """L4."""

        def arrange(computer: Computer) -> None:
            file = computer.folder / "config.toml"
            file.write_text('[agent]\nusr = "x"\n')
            computer.environ["COMPUTERD_CONFIG"] = str(file)

        line = self.refusal(arrange)
        self.assertIn("config.toml", line)
        self.assertIn("agent.usr", line)

    def test_a_wrong_type(self) -> None:
        def arrange(computer: Computer) -> None:
            file = computer.folder / "config.toml"
            file.write_text("[agent]\nkill_leftovers = 3\n")
            computer.environ["COMPUTERD_CONFIG"] = str(file)

        self.assertIn("agent.kill_leftovers", self.refusal(arrange))

    def test_both_forms_of_a_variable(self) -> None:
        def arrange(computer: Computer) -> None:
            computer.environ.update(COMPUTERD_AGENT_LANG="C.UTF-8", COMPUTERD_AGENT_LANG_FILE="/dev/null")

        line = self.refusal(arrange)
        self.assertIn("COMPUTERD_AGENT_LANG_FILE", line)

    def test_a_port_that_is_taken(self) -> None:
        """L4."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()

            def arrange(computer: Computer) -> None:
                computer.port = taken.getsockname()[1]

            self.assertIn(str(taken.getsockname()[1]), self.refusal(arrange))

    def test_a_state_folder_that_is_no_folder(self) -> None:
        def arrange(computer: Computer) -> None:
            (computer.folder / "state").write_text("")

        self.assertIn("state", self.refusal(arrange))

    def test_no_such_user(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs root: otherwise the agent's user is the invoking one")

        def arrange(computer: Computer) -> None:
            computer.options = ("--agent-user", "nobody-like-this")

        self.assertIn("nobody-like-this", self.refusal(arrange))

    def test_root_is_no_agent(self) -> None:
        """D3."""
        if os.geteuid() != 0:
            self.skipTest("needs root: otherwise the agent's user is the invoking one")

        def arrange(computer: Computer) -> None:
            computer.options = ("--agent-user", "root")

        self.assertIn("root", self.refusal(arrange))

    def test_a_key_that_others_may_read(self) -> None:
        """K2."""

        def arrange(computer: Computer) -> None:
            computer.ctl("key", "init")
            (computer.folder / "state" / "keys" / "host_ed25519").chmod(0o644)

        self.assertIn("host_ed25519", self.refusal(arrange))


class LocalTests(LifeCase):
    """The local credential."""

    def test_root_and_the_daemons_user_get_one_and_others_do_not(self) -> None:
        computer = self.computer()
        path = computer.folder / "local.sock"
        given = ask_local(path)
        self.assertEqual(given["url"], computer.url)
        with Client.to(str(given["url"]), str(given["token"])) as client:
            client.ask("ping")
        if self.agent is None:
            return
        script = (
            "import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);print(s.makefile().readline())"
        )
        done = subprocess.run(
            ["runuser", "-u", self.agent.name, "--", "/usr/bin/python3", "-c", script, str(path)],
            capture_output=True, check=False, text=True, timeout=20, cwd="/",
        )  # fmt: skip
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "forbidden")

    def test_silence_is_not_waited_for(self) -> None:
        computer = self.computer()
        idle = []
        for _ in range(20):
            one = socket.socket(socket.AF_UNIX)
            one.connect(str(computer.folder / "local.sock"))
            idle.append(one)
            self.addCleanup(one.close)
        self.assertIn("token", ask_local(computer.folder / "local.sock"))


class TlsTests(LifeCase):
    """`wss`, on an endpoint beside the plain one."""

    def test_a_terminal_over_tls(self) -> None:
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        key, certificate = make_certificate(folder)
        port = free_port()
        computer = self.computer("--listen", f"ssl:{port}:interface=127.0.0.1:privateKey={key}:certKey={certificate}")
        trusting = ssl.create_default_context(cafile=str(certificate))
        with Client.to(f"wss://127.0.0.1:{port}/connect", computer.token(), ssl=trusting) as client:
            out, code, _ = client.run(computer.session(), "seq 1 200000", tty=False)
        self.assertEqual((len(out), code), (1_288_895, 0))


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A key and a certificate for 127.0.0.1 that it has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    key_file, certificate_file = folder / "key.pem", folder / "cert.pem"
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return key_file, certificate_file


class NotifyTests(LifeCase):
    """`sd_notify`: ready when it listens, and the watchdog is fed by the reactor."""

    def test_ready_and_watchdog(self) -> None:
        made = Computer(agent=self.agent)
        self.addCleanup(made.remove)
        path = str(made.folder / "notify")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.settimeout(15)
        made.environ = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"}
        made.start()
        seen: list[str] = []
        limit = time.monotonic() + 10
        while time.monotonic() < limit and not {"READY=1", "WATCHDOG=1"} <= set(seen):
            seen += listener.recv(4096).decode().split("\n")
        self.assertIn("READY=1", seen)
        self.assertIn("WATCHDOG=1", seen)
        made.stop()
        listener.settimeout(1)
        rest: list[str] = []
        try:
            while True:
                rest += listener.recv(4096).decode().split("\n")
        except OSError:
            pass
        self.assertIn("STOPPING=1", rest)

    def test_json_log(self) -> None:
        made = self.computer(COMPUTERD_LOG_FORMAT="json")
        made.session()
        lines = [json.loads(line) for line in made.log.splitlines()]
        self.assertTrue(lines)
        self.assertTrue(all("message" in line for line in lines), lines[0])


def ask_local(path: Path) -> dict[str, object]:
    """What the local socket says."""
    with socket.socket(socket.AF_UNIX) as asker:
        asker.settimeout(10)
        asker.connect(str(path))
        with asker.makefile() as lines:
            said: dict[str, object] = json.loads(lines.readline())
            return said
