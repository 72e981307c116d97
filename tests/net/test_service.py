from __future__ import annotations

import json
import os
import socket
import stat
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from attrs import define, field
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from twisted.internet import reactor as global_reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString, connectProtocol, wrapClientTLS
from twisted.internet.error import ConnectError
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.ssl import CertificateOptions
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

import tests.net
from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.contract import limits, objects, results
from computerd.contract.closing import CloseCode
from computerd.net.local import LocalSocket
from computerd.net.refusal import ListenError
from computerd.net.service import NetService
from computerd.net.signer import Signer
from tests.net.clients import TcpClient, call, close_code, frame, handshake, messages, request
from tests.net.fakes import SESSION, FakeFront, Issuer
from tests.net.test_sender import Source

reactor: Any = global_reactor


@define(eq=False, slots=False)
class Outsider(ProcessProtocol):
    """`outsider.py` as a child."""

    lines: list[bytes] = field(factory=list)
    errors: bytes = b""
    done: Deferred[None] = field(factory=Deferred)
    opened: Deferred[None] = field(factory=Deferred)

    def outReceived(self, data: bytes) -> None:
        self.lines += data.splitlines()
        if self.lines[0] == b"open" and not self.opened.called:
            self.opened.callback(None)

    def errReceived(self, data: bytes) -> None:
        self.errors += data

    def processEnded(self, reason: Failure) -> None:
        self.done.callback(None)

    async def outcome(self) -> Any:
        await self.done
        assert self.lines, self.errors.decode()
        return json.loads(self.lines[-1])


class ServiceCase(TestCase):
    timeout = 120

    def setUp(self) -> None:
        self.folder = Path(os.path.relpath(self.mktemp()))
        self.folder.mkdir(parents=True)
        self.issuer = Issuer(reactor.seconds)
        self.issuer.wall = self.issuer.credentials.wall = time.time  # type: ignore[assignment]
        self.front = FakeFront()
        self.services: list[NetService] = []

    async def serve(self, *endpoints: str, local: bool = False) -> NetService:
        """A service that listens."""
        place = None
        if local:
            signer = Signer.ephemeral("local", os.urandom)
            names = {os.geteuid(): "me"}
            place = LocalSocket(
                self.folder / "run" / "local.sock", signer, self.issuer.credentials, names, time.time, os.urandom
            )
        service = NetService(
            reactor, endpoints or ("tcp:0:interface=127.0.0.1",), self.front, self.issuer.keys, self.issuer.credentials, (), (),
            place, time.time, os.urandom,
        )  # fmt: skip
        service.startService()
        await service.listen()
        self.addCleanup(service.stopService)
        return service

    async def client(self, where: str, reading: bool = True, tls: bool = False) -> TcpClient:
        client = TcpClient()
        endpoint = clientFromString(reactor, where)
        if tls:
            endpoint = wrapClientTLS(CertificateOptions(verify=False), endpoint)
        await connectProtocol(endpoint, client)
        self.addCleanup(client.close)
        if not reading:
            client.stop_reading()
        return client

    def where(self, service: NetService) -> str:
        return f"tcp:127.0.0.1:{service.ports[0].getHost().port}"  # type: ignore[attr-defined]

    async def open(self, service: NetService, where: str | None = None, **options: Any) -> TcpClient:
        """A WebSocket that has had `ready`."""
        client = await self.client(where or self.where(service), **options)
        client.send(handshake(self.issuer.mint().token))
        await client.until(lambda: b'"ready"' in client.inbox.data)
        self.assertEqual([reply.status for reply in client.inbox.replies()], [101])
        client.inbox.frames()
        return client

    def outsider(self, case: str, service: NetService) -> Outsider:
        process = Outsider()
        script = os.path.join(os.path.dirname(tests.net.__file__), "outsider.py")
        reactor.spawnProcess(
            process, sys.executable, [sys.executable, "-I", script, case, service.url(), self.issuer.mint().token]
        )
        return process


class OutsiderTests(ServiceCase):
    """What a client sees that is not ours."""

    async def test_close_codes(self) -> None:
        """W8: real close frames."""
        service = await self.serve()
        for case, expected in (
            ("calls", ["ready", 1, True]), ("none", [4400, "offer the subprotocol opc.v1"]), ("big", [1009, "a message over 1 MiB"]),
            ("bigtext", [1009, "a message over 1 MiB"]), ("short", [1002, "malformed frame"]), ("utf8", [1007, "text that is not UTF-8"]),
            ("refused", [401, "Bearer"]),
        ):  # fmt: skip
            self.assertEqual(await self.outsider(case, service).outcome(), expected)

    async def test_restart(self) -> None:
        service = await self.serve()
        outsider = self.outsider("wait", service)
        await outsider.opened
        await service.stop_accepting()
        await service.close_all(CloseCode.RESTARTING)
        self.assertEqual(len(service.roster), 0)
        self.assertEqual(await outsider.outcome(), [1012, "the server is restarting"])

    async def test_revoked(self) -> None:
        service = await self.serve()
        outsider = self.outsider("wait", service)
        await outsider.opened
        began = reactor.seconds()
        self.issuer.revocations.members["alice"] = time.time() + 10
        code, _ = await outsider.outcome()
        self.assertEqual(code, 4001)
        self.assertLess(reactor.seconds() - began, 2.5)


class TransportCase(ServiceCase):
    """A service on one transport after the other."""

    def tls(self) -> str:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
            .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
        )  # fmt: skip
        (self.folder / "cert.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        (self.folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return f"ssl:0:interface=127.0.0.1:privateKey={self.folder}/key.pem:certKey={self.folder}/cert.pem"

    async def each(self) -> AsyncIterator[tuple[NetService, str, bool]]:
        for text in ("tcp:0:interface=127.0.0.1", f"unix:{self.folder}/web.sock", self.tls()):
            service = await self.serve(text)
            where = f"unix:{self.folder}/web.sock" if text.startswith("unix") else self.where(service)
            yield service, where, text.startswith("ssl")
            await service.stopService()

    async def quiet(self, measure: Any) -> None:
        """Waits until a number has stopped changing, above -1."""
        last, same = None, 0
        while same < 5:
            done: Deferred[None] = Deferred()
            reactor.callLater(0.02, done.callback, None)
            await done
            now = measure()
            same = same + 1 if now == last and now >= 0 else 0
            last = now


class TransportTests(TransportCase):
    """TCP, TLS and Unix sockets behave alike."""

    async def test_calls_and_close(self) -> None:
        async for service, where, tls in self.each():
            client = await self.open(service, where, tls=tls)
            client.send(call("ping", "x"))
            await client.until(lambda c=client: b'"x"' in c.inbox.data)  # type: ignore[misc]
            client.inbox.frames()
            client.send(frame(b"abc"))
            await client.ended()
            self.assertEqual(close_code(client.inbox.frames()), 1002)

    async def test_a_client_that_never_reads_and_then_does(self) -> None:
        """W12, and BR: a slow reader is held back, loses nothing, and is not cut off."""
        total = 8 * limits.MIB
        sources: list[Source] = []

        async def flood(params: Any, caller: Caller, connection: Connection | None) -> Any:
            assert connection is not None
            sources.append(Source(connection.outbox, 1, total))  # type: ignore[arg-type]
            reactor.callLater(0, sources[-1].go)
            return results.TerminalOpened(
                terminal=objects.Terminal(id="tm_0123456789ab", channel=1, stderr_channel=None)
            )

        self.front.work["terminals.open"] = flood
        async for service, where, tls in self.each():
            client = await self.open(service, where, tls=tls)
            client.stop_reading()
            client.send(call("terminals.open", sessionId=SESSION, cols=1, rows=1))
            await self.quiet(lambda: sources[-1].said if sources else -1)
            self.assertGreater(sources[-1].left, 0)
            client.send(call("ping", "late"))
            client.start_reading()
            frames: list[tuple[int, bytes]] = []
            await client.until(lambda c=client, f=frames: self.received(c, f) >= total)  # type: ignore[misc]
            self.assertEqual(frames[0][0], 1)
            answers = messages(frames)
            self.assertEqual((answers[0]["result"]["terminal"]["channel"], answers[1]["id"]), (1, "late"))
            self.assertEqual(self.received(client, frames), total)
            sources.clear()

    def received(self, client: TcpClient, frames: list[tuple[int, bytes]]) -> int:
        """Bytes of output so far; takes the frames that have come."""
        frames += client.inbox.frames()
        return sum(len(payload) - 4 for opcode, payload in frames if opcode == 2)

    async def test_too_much_unsent(self) -> None:
        """4008, seen by a client that reads on in time; memory goes back."""

        async def big(params: Any, caller: Caller, connection: Connection | None) -> Any:
            return results.SessionList(sessions=[], next_cursor="x" * limits.MIB)

        self.front.work["sessions.detach"] = big
        async for service, where, tls in self.each():
            client = await self.open(service, where, tls=tls)
            client.stop_reading()
            for n in range(60):
                client.send(call("sessions.detach", n, sessionId="x"))
            (socket,) = service.roster._present
            await self.quiet(lambda s=socket: s.close_code or -1)
            self.assertEqual(socket.close_code, CloseCode.TOO_MUCH_UNSENT)
            self.assertEqual(socket.unsent, 0)
            client.start_reading()
            await client.ended()
            self.assertEqual(close_code(client.inbox.frames()), 4008)

    async def test_shutdown_with_a_client_that_never_reads(self) -> None:
        async for service, where, tls in self.each():
            client = await self.open(service, where, tls=tls)
            (socket,) = service.roster._present
            source = Source(socket.sender, 1, 100 * limits.MIB)  # type: ignore[arg-type]
            client.stop_reading()
            source.go()
            began = reactor.seconds()
            await service.stop_accepting()
            await service.close_all()
            self.assertLess(reactor.seconds() - began, 7)
            self.assertEqual(len(service.roster), 0)


class ListeningTests(ServiceCase):
    async def test_all_or_nothing(self) -> None:
        first = await self.serve()
        taken = first.ports[0].getHost().port  # type: ignore[attr-defined]
        with self.assertRaises(ListenError) as caught:
            await self.serve("tcp:0:interface=127.0.0.1", f"tcp:{taken}:interface=127.0.0.1")
        self.assertIn(str(taken), str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    async def test_bad_endpoints(self) -> None:
        for text in ("nonsense", "tcp:x", "unix:/nowhere/at/all/x.sock", "ssl:0:privateKey=/nowhere"):
            with self.assertRaises(ListenError):
                await self.serve(text)

    async def test_nobody_comes_in_after_the_end_has_begun(self) -> None:
        service = await self.serve()
        where = self.where(service)
        socket = await self.open(service)
        idle = await self.client(where)
        await service.stop_accepting()
        await idle.ended()
        with self.assertRaises(ConnectError):
            await self.client(where)
        socket.send(call("ping", "still"))
        await socket.until(lambda: b'"still"' in socket.inbox.data)

    async def test_legitimate_requests_beside_idle_connections(self) -> None:
        """W3."""
        service = await self.serve()
        where = self.where(service)
        for _ in range(300):
            await self.client(where)
        began = reactor.seconds()
        client = await self.client(where)
        client.send(request("GET", "/health"))
        await client.until(lambda: b"ok" in client.inbox.data)
        self.assertLess(reactor.seconds() - began, 1)


class LocalTests(ServiceCase):
    async def ask(self, path: Path) -> dict[str, Any]:
        client = await self.client(f"unix:{path}")
        await client.ended()
        self.assertTrue(client.inbox.data.endswith(b"\n"))
        answer: dict[str, Any] = json.loads(client.inbox.data)
        return answer

    async def test_a_credential_that_works(self) -> None:
        service = await self.serve(local=True)
        assert service.local is not None
        path = service.local.path
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o666)
        self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode), 0o755)
        answer = await self.ask(path)
        self.assertEqual(answer["url"], service.url())
        self.assertRegex(answer["expiresAt"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$")
        client = await self.client(self.where(service))
        client.send(handshake(answer["token"]))
        await client.until(lambda: b'"ready"' in client.inbox.data)
        verified = self.issuer.credentials.known(answer["token"])
        assert verified is not None and verified.caller.expires_at is not None
        self.assertEqual(
            (verified.caller.member.id, verified.caller.admin, len(verified.caller.scopes)), ("me", True, 5)
        )
        self.assertLess(abs(verified.caller.expires_at - time.time() - 12 * 3600), 5)

    async def test_others_get_none(self) -> None:
        service = await self.serve(local=True)
        assert service.local is not None
        service.local.names = {}
        answer = await self.ask(service.local.path)
        self.assertEqual((answer["error"]["code"], "token" in answer), ("forbidden", False))

    async def test_works_while_the_address_is_slowed_down(self) -> None:
        service = await self.serve(local=True)
        assert service.local is not None
        for _ in range(200):
            service.site.throttle.failed(None)
        token = (await self.ask(service.local.path))["token"]
        client = await self.client(self.where(service))
        client.send(handshake(token))
        await client.until(lambda: b'"ready"' in client.inbox.data)

    async def test_a_stale_socket_is_replaced_and_a_live_one_is_not(self) -> None:
        first = await self.serve(local=True)
        assert first.local is not None
        with self.assertRaises(ListenError):
            await self.serve(local=True)
        await self.ask(first.local.path)
        await first.stop_accepting()
        self.assertFalse(first.local.path.exists())
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(first.local.path))
        second = await self.serve(local=True)
        assert second.local is not None
        self.assertIn("token", await self.ask(second.local.path))

    async def test_what_is_no_socket_stays(self) -> None:
        (self.folder / "run").mkdir()
        (self.folder / "run" / "local.sock").write_text("precious")
        with self.assertRaises(ListenError):
            await self.serve(local=True)
        self.assertEqual((self.folder / "run" / "local.sock").read_text(), "precious")

    async def test_a_folder_that_others_can_write(self) -> None:
        (self.folder / "run").mkdir()
        (self.folder / "run").chmod(0o777)
        with self.assertRaises(ListenError):
            await self.serve(local=True)
