"""End to end: `opc` in scripts."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import threading
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from twisted.trial.unittest import SynchronousTestCase

from computerd.opc import locate
from computerd.opc.failure import Failure
from tests.opc.fake_journal import session
from tests.opc.fake_server import TOKEN
from tests.opc.person import OPC, SHELL_OPC, WAIT, Daemon, wait_until

MIB = 1024 * 1024


class OnPipes(SynchronousTestCase):
    """Each test has a daemon of its own."""

    def setUp(self) -> None:
        self.daemon = Daemon.start()
        self.addCleanup(self.daemon.stop)

    def start(self, *words: str, **streams: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([*OPC, *words], env=self.daemon.env(), **streams)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_exit_codes(self) -> None:
        """BR-008."""
        for code in (0, 1, 5, 44, 137, 255):
            self.assertEqual(self.daemon.run("exec", "--", f"exit {code}").returncode, code)

    def test_death_by_signal(self) -> None:
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGHUP):
            done = self.daemon.run("exec", "-q", "--", f"kill -{number} $$")
            self.assertEqual((done.returncode, done.stderr), (128 + number, b""))

    def test_streams_are_kept_apart(self) -> None:
        done = self.daemon.run("exec", "-q", "--", "echo out; echo err >&2")
        self.assertEqual((done.stdout, done.stderr), (b"out\n", b"err\n"))

    def test_only_data_is_on_standard_output(self) -> None:
        done = self.daemon.run("-vv", "exec", "--", "printf x")
        self.assertEqual(done.stdout, b"x")
        self.assertIn(b"opc: new session cs_", done.stderr)

    def test_words_arrive_as_words(self) -> None:
        done = self.daemon.run("exec", "--", "printf", "<%s>", "a b", "c'd", "$HOME", "--", "-t", "")
        self.assertEqual(done.stdout, b"<a b><c'd><$HOME><--><-t><>")
        self.assertEqual(self.daemon.run("exec", "echo $((6 * 7)) | cat").stdout, b"42\n")
        self.assertEqual(self.daemon.run("exec", "printf", "<%s>", "-n", "--", "x").stdout, b"<-n><--><x>")

    def test_a_shell_reads_its_script(self) -> None:
        done = self.daemon.run("shell", "-q", stdin=b"echo hi; exit 3")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, b"hi\n", b""))

    def test_the_end_of_standard_input(self) -> None:
        """BR-118."""
        self.assertEqual(self.daemon.run("exec", "--", "cat", stdin=b"\0a\r\n\xff").stdout, b"\0a\r\n\xff")
        self.assertEqual(self.daemon.run("exec", "--", "cat").stdout, b"")
        with open(os.devnull, "rb") as null:
            self.assertEqual(self.daemon.run("exec", "--", "cat", stdin=null.fileno()).returncode, 0)
        self.assertEqual(self.daemon.run("exec", "-n", "--", "cat", stdin=b"unread").stdout, b"")

    def test_a_file_as_standard_input(self) -> None:
        path = Path(self.mktemp())
        path.write_bytes(b"of a file\n")
        with path.open("rb") as file:
            self.assertEqual(self.daemon.run("exec", "--", "cat", stdin=file.fileno()).stdout, b"of a file\n")

    def test_a_socket_on_every_stream(self) -> None:
        ours, theirs = socket.socketpair()
        process = self.start("exec", "-q", "--", "cat; echo done >&2", stdin=theirs, stdout=theirs, stderr=theirs)
        theirs.close()
        ours.sendall(b"through\n")
        ours.shutdown(socket.SHUT_WR)
        ours.settimeout(WAIT)
        with ours.makefile("rb") as file:
            # which of the two is first is nobody's promise
            self.assertEqual(sorted(file.read().splitlines()), [b"done", b"through"])
        self.assertEqual(process.wait(WAIT), 0)

    def test_closed_streams(self) -> None:
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            command = f"{SHELL_OPC} exec -q -- 'cat; echo x; exit 9' {closed}"
            done = subprocess.run(
                ["sh", "-c", command],
                env=self.daemon.env(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=WAIT,
                check=False,
            )
            self.assertEqual((done.returncode, done.stderr), (9, b""), closed)

    def test_input_that_never_ends_and_is_not_read(self) -> None:
        process = self.start("exec", "-q", "--", "exit 4", stdin=subprocess.PIPE)
        self.assertEqual(process.wait(WAIT), 4)
        assert process.stdin is not None
        process.stdin.close()

    def test_large_input_arrives_whole(self) -> None:
        data = random.Random(5).randbytes(5 * MIB)
        path = Path(self.mktemp())
        path.write_bytes(data)
        target = self.daemon.folder / "landed"
        with path.open("rb") as file:
            done = self.daemon.run("exec", "-q", "--", f"cat > {target}", stdin=file.fileno())
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(hashlib.sha256(target.read_bytes()).hexdigest(), hashlib.sha256(data).hexdigest())

    def test_large_input_comes_back_whole(self) -> None:
        data = random.Random(6).randbytes(3 * MIB)
        done = self.daemon.run("exec", "-q", "--", "cat", stdin=data)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout == data)

    def test_input_that_is_dropped_is_no_success(self) -> None:
        done = self.daemon.run("exec", "-q", "--", "sleep 30", stdin=bytes(4 * MIB))
        self.assertEqual(done.returncode, 255)
        self.assertIn(b"input was dropped", done.stderr)

    def test_a_slow_reader_holds_the_program_back(self) -> None:
        read, write = os.pipe()
        process = self.start("exec", "-q", "--", "head -c 50000000 /dev/zero", stdin=subprocess.DEVNULL, stdout=write)
        os.close(write)
        state: dict[str, int] = {"sent": -1}

        def stands_still() -> bool:
            before, state["sent"] = state["sent"], self.daemon.tell("/_/state")["sent"]
            return before == state["sent"] > 0

        threading.Event().wait(0.5)
        wait_until(stands_still, "back-pressure")
        self.assertLess(state["sent"], 40_000_000)
        with open(read, "rb") as file:
            count = sum(len(piece) for piece in iter(lambda: file.read(MIB), b""))
        self.assertEqual(count, 50_000_000)
        self.assertEqual(process.wait(WAIT), 0)

    def test_nobody_reads_the_output(self) -> None:
        read, write = os.pipe()
        process = self.start("exec", "-q", "--", "yes", stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        os.read(read, 10)
        os.close(read)
        self.assertEqual(process.wait(WAIT), 141)
        assert process.stderr is not None
        with process.stderr as stderr:
            self.assertEqual(stderr.read(), b"")
        wait_until(lambda: "terminals.close" in self.daemon.requests(), "a close")

    def test_a_disk_that_is_full(self) -> None:
        with open("/dev/full", "wb") as full:
            process = self.start(
                "exec", "-q", "--", "yes", stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE
            )
        self.assertEqual(process.wait(WAIT), 255)
        assert process.stderr is not None
        with process.stderr as stderr:
            self.assertIn(b"opc: can't write the output: No space left", stderr.read())

    def test_descriptors_stay_blocking(self) -> None:
        read, write = os.pipe()
        other_read, other_write = os.pipe()
        process = self.start("exec", "-q", "--", "cat; yes | head -c 300000", stdin=other_read, stdout=write)
        os.write(other_write, b"x")
        self.assertEqual(os.read(read, 1), b"x")
        self.assertTrue(all(os.get_blocking(fd) for fd in (read, write, other_read, other_write)))
        os.close(other_write)
        os.close(write)
        with open(read, "rb") as file:
            self.assertEqual(len(file.read()), 300_000)
        os.close(other_read)
        self.assertEqual(process.wait(WAIT), 0)

    def test_ending_signals_hang_up(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start(
                "exec", "-q", "--", "echo ready; exec sleep 60", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            with process.stdout as stdout:
                self.assertEqual(stdout.readline(), b"ready\n")
                process.send_signal(number)
                self.assertEqual(process.wait(WAIT), 128 + number)
        wait_until(lambda: self.daemon.requests().count("terminals.close") == 3, "three closes")

    def test_a_signal_that_is_ignored_stays_ignored(self) -> None:
        command = f"trap '' HUP; exec {SHELL_OPC} exec -q -- 'echo ready; read x; exit 8'"
        process = subprocess.Popen(
            ["sh", "-c", command], env=self.daemon.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.addCleanup(process.kill)
        assert process.stdout is not None and process.stdin is not None
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.send_signal(signal.SIGHUP)
        process.stdin.write(b"\n")
        process.stdin.close()
        self.assertEqual(process.wait(WAIT), 8)
        process.stdout.close()

    def lost(self, how: Any) -> tuple[int, bytes]:
        process = self.start(
            "exec",
            "-q",
            "--",
            "echo ready; exec sleep 60",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None and process.stderr is not None
        with process.stdout as stdout, process.stderr as stderr:
            self.assertEqual(stdout.readline(), b"ready\n")
            how()
            return process.wait(WAIT), stderr.read()

    def test_a_lost_link_is_never_success(self) -> None:
        """BR-009."""
        for number in (signal.SIGKILL, signal.SIGTERM):
            daemon = self.daemon
            status, said = self.lost(lambda number=number, daemon=daemon: daemon.process.send_signal(number))
            self.assertEqual(status, 255)
            self.assertEqual(said.count(b"\n"), 1)
            self.assertIn(b"connect again", said)
            self.daemon.stop()
            self.daemon = Daemon.start()
            self.addCleanup(self.daemon.stop)

    def test_a_reset_is_never_success(self) -> None:
        status, said = self.lost(lambda: self.daemon.tell("/_/abort"))
        self.assertEqual((status, said.count(b"\n")), (255, 1))

    def test_a_close_is_explained(self) -> None:
        for code, words in (
            (1012, b"restarting"),
            (4001, b"computerctl token create"),
            (4008, b"unsent"),
            (4503, b"(4503). It has no key to check tokens with yet"),
            (4999, b"own reason"),
        ):
            status, said = self.lost(lambda code=code: self.daemon.tell("/_/close", code=code, reason="own reason"))
            self.assertEqual(status, 255)
            self.assertIn(words, said)

    def test_a_restart_is_no_death_of_the_program(self) -> None:
        """The daemon hangs the program up first, and tells so."""
        status, said = self.lost(lambda: self.daemon.tell("/_/restart"))
        self.assertEqual(
            (status, said),
            (
                255,
                b"opc: the daemon closed the connection (1012: the server is restarting). Connect again in a few seconds.\n",
            ),
        )

    def test_a_half_open_link_is_found_out(self) -> None:
        quick = "import computerd.opc.pulse as p; p.PING_SECONDS, p.SILENCE_SECONDS = 0.2, 0.8; "
        argv = [
            OPC[0],
            "-c",
            quick
            + "import sys, computerd.opc.main as m; sys.exit(m.main(['exec', '-q', 'echo ready; exec sleep 60']))",
        ]
        process = subprocess.Popen(
            argv, env=self.daemon.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.addCleanup(process.kill)
        assert process.stdout is not None and process.stderr is not None
        with process.stdout as stdout, process.stderr as stderr:
            self.assertEqual(stdout.readline(), b"ready\n")
            self.daemon.process.send_signal(signal.SIGSTOP)
            self.assertEqual(process.wait(WAIT), 255)
            self.assertIn(b"does not answer any more", stderr.read())

    def test_what_was_said_before_the_end_counts(self) -> None:
        for _ in range(20):
            done = self.daemon.run("exec", "-q", "--", "head -c 200000 /dev/zero; exit 5")
            self.assertEqual((done.returncode, len(done.stdout)), (5, 200_000))


class Finding(SynchronousTestCase):
    """Which daemon, which credential, which session."""

    def start(self, *sessions: dict[str, Any]) -> Daemon:
        daemon = Daemon.start(*sessions)
        self.addCleanup(daemon.stop)
        return daemon

    def token_file(self, mode: int = 0o600) -> str:
        path = Path(self.mktemp())
        path.write_text(TOKEN + "\n")
        path.chmod(mode)
        return str(path.absolute())

    def test_the_newest_of_ones_own_is_used_again(self) -> None:
        daemon = self.start(session(4, "you"), session(3, archived=True), session(2), session(1))
        done = daemon.run("-v", "exec", "--", "true")
        self.assertIn(b"session cs_0000000000000002", done.stderr)
        self.assertNotIn("POST /sessions", daemon.requests())

    def test_one_is_made_when_there_is_none(self) -> None:
        daemon = self.start(session(4, "you"))
        done = daemon.run("exec", "--", "true")
        self.assertIn(b"opc: new session cs_0000000000000002", done.stderr)
        again = daemon.run("exec", "--", "true")
        self.assertEqual(again.stderr, b"")
        listed = json.loads(daemon.run("sessions", "--json").stdout)["sessions"]
        self.assertIn(daemon.folder.name, next(s["title"] for s in listed if s["id"].endswith("2")))

    def test_a_session_by_its_id(self) -> None:
        daemon = self.start()
        done = daemon.run("exec", "cs_full000000000000", "-t", "--", "true")
        self.assertEqual(done.returncode, 255)
        self.assertTrue(done.stderr.endswith(b"opc: The session holds 8 terminals. Close one.\n"), done.stderr)
        self.assertNotIn("GET /sessions", daemon.requests())

    def test_url_and_token_file(self) -> None:
        daemon = self.start()
        without = {"OPC_LOCAL_SOCKET": "/nonexistent"}
        for url in (
            daemon.url,
            daemon.url + "/connect",
            daemon.url.replace("ws", "http"),
            f"unix:{daemon.folder}/api.sock",
        ):
            done = daemon.run("exec", "--url", url, "--token-file", self.token_file(), "--", "echo x", env=without)
            self.assertEqual((done.returncode, done.stdout), (0, b"x\n"), done.stderr)
        done = daemon.run("exec", "--", "echo y", env={**without, "OPC_URL": daemon.url, "OPC_TOKEN": TOKEN})
        self.assertEqual((done.returncode, done.stdout), (0, b"y\n"))

    def test_a_token_from_a_pipe(self) -> None:
        daemon = self.start()
        for verb in ("exec", "sessions"):
            read, write = os.pipe()
            os.fchmod(read, 0o600)
            os.write(write, TOKEN.encode())
            os.close(write)
            words = {"exec": ["exec", "--", "exit 6"], "sessions": ["sessions"]}[verb]
            process = subprocess.Popen(
                [*OPC, "--url", daemon.url, "--token-file", f"/dev/fd/{read}", *words],
                env=daemon.env(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[read],
            )
            os.close(read)
            self.assertEqual(process.wait(WAIT), {"exec": 6, "sessions": 0}[verb])

    def test_a_token_file_that_others_may_read(self) -> None:
        daemon = self.start()
        done = daemon.run("exec", "--url", daemon.url, "--token-file", self.token_file(0o640), "--", "true")
        self.assertEqual(done.returncode, 255)
        self.assertIn(b"Run `chmod 600", done.stderr)

    def test_a_wrong_token(self) -> None:
        daemon = self.start()
        done = daemon.run("exec", "cs_0000000000000001", "true", env={"OPC_URL": daemon.url, "OPC_TOKEN": "wrong"})
        self.assertEqual((done.returncode, done.stdout), (255, b""))
        self.assertIn(b"opc: The token is not valid. `computerctl token create` makes a new token.", done.stderr)
        done = daemon.run("sessions", "--json", env={"OPC_URL": daemon.url, "OPC_TOKEN": "wrong"})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "unauthenticated")
        self.assertEqual(json.loads(done.stdout)["error"]["requestId"], "rq_1")

    def test_kept_credentials(self) -> None:
        daemon = self.start()
        kept = daemon.folder / "opc" / "credentials.toml"
        kept.parent.mkdir()
        kept.write_text(f'["{daemon.url}/"]\ntoken = "{TOKEN}"\n')
        kept.chmod(0o600)
        done = daemon.run("sessions", env={"OPC_URL": daemon.url, "XDG_STATE_HOME": str(daemon.folder)})
        self.assertEqual(done.returncode, 0, done.stderr)
        kept.chmod(0o644)
        done = daemon.run("sessions", env={"OPC_URL": daemon.url, "XDG_STATE_HOME": str(daemon.folder)})
        self.assertEqual(done.returncode, 1)

    def test_no_daemon(self) -> None:
        daemon = self.start()
        for words, status in ((("exec", "true"), 255), (("sessions",), 1)):
            done = daemon.run(*words, env={"OPC_LOCAL_SOCKET": "/nonexistent/local.sock"})
            self.assertEqual((done.returncode, done.stdout), (status, b""))
            self.assertIn(b"twistd -n computerd", done.stderr)
            done = daemon.run(*words, env={"OPC_URL": "ws://127.0.0.1:1", "OPC_TOKEN": "x"})
            self.assertEqual((done.returncode, done.stdout), (status, b""))
            self.assertIn(b"can't reach a daemon at ws://127.0.0.1:1: Connection refused", done.stderr)

    def test_where_a_local_daemon_is_looked_for(self) -> None:
        """Where the daemon puts its socket with and without $XDG_RUNTIME_DIR, and as root."""
        for env, places in (
            ({"HOME": "/h"}, ["/h/.local/state/computerd/local.sock"]),
            ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, ["/s/computerd/local.sock"]),
            (
                {"HOME": "/h", "XDG_RUNTIME_DIR": "/r"},
                ["/r/computerd/local.sock", "/h/.local/state/computerd/local.sock"],
            ),
        ):
            self.assertEqual(locate.sockets(env), [*places, locate.SYSTEM_SOCKET])
        self.assertEqual(locate.sockets({"HOME": "/h", "OPC_LOCAL_SOCKET": "/l"}), ["/l"])

    def test_a_daemon_in_the_state_folder(self) -> None:
        daemon = self.start()
        (daemon.folder / "computerd").mkdir()
        (daemon.folder / "computerd" / "local.sock").symlink_to(daemon.folder / "local.sock")
        env = daemon.env(XDG_STATE_HOME=str(daemon.folder))
        del env["OPC_LOCAL_SOCKET"]
        done = subprocess.run([*OPC, "exec", "echo here"], env=env, capture_output=True, timeout=WAIT, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b"here\n"), done.stderr)

    def test_what_is_there_but_silent_is_told(self) -> None:
        daemon = self.start()
        (daemon.folder / "computerd").mkdir()
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(str(daemon.folder / "computerd" / "local.sock"))
        self.patch(locate, "SYSTEM_SOCKET", "/nonexistent/run")
        env = {"HOME": "/nonexistent", "XDG_RUNTIME_DIR": "/nonexistent", "XDG_STATE_HOME": str(daemon.folder)}
        failure = self.assertRaises(Failure, locate.locate, locate.configured(Namespace(), env), env)
        self.assertIn(f"{daemon.folder}/computerd/local.sock does not answer (Connection refused)", failure.message)
        self.assertNotIn("nonexistent", failure.message)
        del env["XDG_STATE_HOME"]
        failure = self.assertRaises(Failure, locate.locate, locate.configured(Namespace(), env), env)
        self.assertIn("there is no socket at /nonexistent/computerd/local.sock or ", failure.message)

    def test_a_token_on_the_command_line(self) -> None:
        done = self.start().run("--token", "secret", "exec", "true")
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"use --token-file or OPC_TOKEN", done.stderr)

    def test_a_local_daemon_that_refuses(self) -> None:
        daemon = self.start()
        path = str(daemon.folder / "refusing.sock")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen()

            def refuse() -> None:
                connection, _ = listening.accept()
                with connection:
                    connection.sendall(b'{"error":{"code":"forbidden","message":"Only root may.\\u001b[2J"}}\n')

            thread = threading.Thread(target=refuse)
            thread.start()
            done = daemon.run("exec", "true", env={"OPC_LOCAL_SOCKET": path})
            thread.join()
        self.assertEqual((done.returncode, done.stderr), (255, b"opc: Only root may. [2J\n"))

    def test_something_else_than_a_daemon(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            daemon = self.start()

            def answer() -> None:
                for _ in range(2):
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(4096)
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<h1>")

            thread = threading.Thread(target=answer)
            thread.start()
            env = {"OPC_URL": f"ws://127.0.0.1:{port}", "OPC_TOKEN": "x"}
            one = daemon.run("sessions", env=env)
            two = daemon.run("exec", "cs_0000000000000001", "true", env=env)
            thread.join()
        self.assertEqual((one.returncode, two.returncode), (1, 255))
        self.assertIn(b"answered 200, and not as a daemon does", one.stderr)
        self.assertIn(b"answered 200, and not as a daemon does", two.stderr)


class Secured(SynchronousTestCase):
    """Over TLS."""

    def setUp(self) -> None:
        self.daemon = Daemon.start(certificate=certificate("localhost"))
        self.addCleanup(self.daemon.stop)

    def env(self, **more: str) -> dict[str, str]:
        assert self.daemon.secure is not None
        return {"OPC_URL": self.daemon.secure, "OPC_TOKEN": TOKEN, **more}

    def test_a_trusted_certificate(self) -> None:
        trusted = self.env(SSL_CERT_FILE=str(self.daemon.folder / "cert.pem"))
        done = self.daemon.run("exec", "-q", "--", "cat; exit 3", stdin=bytes(MIB), env=trusted)
        self.assertEqual((done.returncode, done.stderr, len(done.stdout)), (3, b"", MIB))
        done = self.daemon.run("exec", "--", "head -c 3000000 /dev/zero", env=trusted)
        self.assertEqual((done.returncode, len(done.stdout)), (0, 3_000_000))

    def test_a_certificate_that_nobody_vouches_for(self) -> None:
        done = self.daemon.run("exec", "--", "true", env=self.env())
        self.assertEqual((done.returncode, done.stdout), (255, b""))
        self.assertIn(b"SSL_CERT_FILE", done.stderr)

    def test_a_certificate_for_another_host(self) -> None:
        there = self.env(SSL_CERT_FILE=str(self.daemon.folder / "cert.pem"))
        there["OPC_URL"] = there["OPC_URL"].replace("localhost", "127.0.0.1")
        self.assertEqual(self.daemon.run("exec", "--", "true", env=there).returncode, 255)


def certificate(name: str) -> bytes:
    """One that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return made.public_bytes(pem) + key.private_bytes(pem, *plain)


class Telling(SynchronousTestCase):
    """The verbs that print."""

    def setUp(self) -> None:
        self.daemon = Daemon.start(
            *(session(n, "me" if n % 2 else "you") for n in range(9, 0, -1)), session(0, archived=True)
        )
        self.addCleanup(self.daemon.stop)

    def test_sessions(self) -> None:
        lines = self.daemon.run("sessions").stdout.decode().splitlines()
        self.assertEqual(lines[0].split(), ["ID", "STATUS", "TITLE", "OWNER", "LAST", "ACTIVE"])
        self.assertEqual(
            lines[1].split(), ["cs_0000000000000009", "idle", "session", "9", "Me", "2026-11-13T10:00:00.000Z"]
        )
        self.assertEqual(len(lines), 10)
        self.assertEqual(len(self.daemon.run("sessions", "--all").stdout.splitlines()), 11)
        limited = json.loads(self.daemon.run("sessions", "--json", "--limit", "2").stdout)["sessions"]
        self.assertEqual([s["id"][-1] for s in limited], ["9", "8"])
        self.assertNotIn(b"\x1b", self.daemon.run("sessions").stdout)
        self.assertIn(b"\x1b[1mID", self.daemon.run("sessions", "--color=always").stdout)

    def test_versions(self) -> None:
        done = self.daemon.run("version")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"computerd 9.9 at ws://127.0.0.1", done.stdout)
        self.assertEqual(done.stderr.count(b"of different versions"), 1)
        told = json.loads(self.daemon.run("version", "--json").stdout)
        self.assertEqual(told["server"]["version"], "9.9")
        alone = self.daemon.run("version", "--json", env={"OPC_LOCAL_SOCKET": "/nonexistent"})
        self.assertEqual(alone.returncode, 0)
        self.assertIsNone(json.loads(alone.stdout)["server"])

    def test_the_schema(self) -> None:
        self.assertEqual(json.loads(self.daemon.run("schema", "Session").stdout)["title"], "Session")
        self.assertIn("$defs", json.loads(self.daemon.run("schema").stdout))
        done = self.daemon.run("schema", "Sesion")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"Did you mean Session", done.stderr)

    def test_the_settings(self) -> None:
        folder = self.daemon.folder / "opc"
        folder.mkdir()
        (folder / "config.toml").write_text('color = "never"\n')
        env = {"XDG_CONFIG_HOME": str(self.daemon.folder), "OPC_ESCAPE": "%", "OPC_TOKEN": "secret"}
        shown = self.daemon.run("config", "show", "--origin", env=env).stdout.decode()
        self.assertIn('escape = "%"', shown)
        self.assertIn("# OPC_ESCAPE", shown)
        self.assertIn(f"# {folder}/config.toml", shown)
        self.assertNotIn("secret", shown)
        told = json.loads(self.daemon.run("config", "show", "--json", env=env).stdout)
        self.assertEqual(told["token"], {"value": "(set)", "origin": "OPC_TOKEN"})

    def test_a_reader_that_leaves(self) -> None:
        command = f"{SHELL_OPC} schema; echo $? >&2"
        process = subprocess.Popen(
            ["sh", "-c", command], env=self.daemon.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        with process.stderr as stderr:
            self.assertEqual(stderr.read(), b"141\n")
        process.wait(WAIT)

    def test_wrong_usage(self) -> None:
        for words, status in (
            (("nonsense",), 2),
            (("sessions", "--limit", "0"), 2),
            (("exec",), 255),
            (("shell", "--size", "1"), 255),
        ):
            done = self.daemon.run(*words)
            self.assertEqual((done.returncode, done.stdout), (status, b""), words)
            self.assertIn(b"usage: opc", done.stderr)
