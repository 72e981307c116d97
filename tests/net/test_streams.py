"""Files and archives over real transports: TCP, TLS and a Unix socket behave alike, and nothing piles up on either side."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet import reactor as global_reactor

from computerd.api.front import Answer, Arriving
from computerd.contract import limits, results
from computerd.contract.errors import ApiError, Code
from computerd.net.service import NetService
from computerd.workspace.port import Packed
from tests.net.clients import TcpClient, request
from tests.net.fakes import SESSION
from tests.net.test_service import TransportCase
from tests.workspace.fake_files import PIECE, FakeSource, FakeUpload, failing

reactor: Any = global_reactor
ARCHIVE = f"/sessions/{SESSION}/workspace/archive?path=x"
MUCH = 16 * limits.MIB
"""More than the kernel's buffers of both ends hold."""
UNSENT = 128 * limits.KIB
HEAD = 1 * limits.KIB
LAST_CHUNK = b"\r\n0\r\nComputer-Unreadable: 0\r\n\r\n"


class StreamCase(TransportCase):
    """A front that hands out one source or one upload."""

    timeout = 15

    def setUp(self) -> None:
        super().setUp()
        self.source = FakeSource(b"")
        self.upload = FakeUpload(path="x")
        self.front.work["files.download"] = self.give
        self.front.work["files.upload"] = self.take

    async def give(self, *_: object) -> Any:
        """An archive."""
        return Packed("x", True, self.source, lambda: 0)

    async def take(self, *_: object) -> Any:
        """What takes one."""
        upload = self.upload

        async def land() -> Answer:
            landed = await upload.finish()
            return Answer(results.ArchiveLanded(landed.path, landed.files, landed.bytes, landed.replaced, 1))

        return Arriving(upload, land)

    async def ask(self, service: NetService, where: str, *lines: str, tls: bool, verb: str = "GET") -> TcpClient:
        """A request on a connection of its own."""
        client = await self.client(where, tls=tls)
        client.send(request(verb, ARCHIVE, *lines, token=self.issuer.mint().token))
        return client

    def unsent(self, service: NetService) -> int:
        """Bytes that the server holds for its one client."""
        (channel,) = service.site.members
        transport = channel.transport
        held = 0
        while transport is not None:
            held += len(getattr(transport, "dataBuffer", b"")) - getattr(transport, "offset", 0)
            held += getattr(transport, "_tempDataLen", 0)
            held += sum(map(len, getattr(transport, "_appSendBuffer", ())))
            transport = getattr(transport, "transport", None)
        return held


class DownloadTests(StreamCase):
    """To the client."""

    async def test_a_client_that_never_reads_and_then_does(self) -> None:
        """W12: it costs 128 KiB, and loses nothing."""
        content = os.urandom(PIECE) * (MUCH // PIECE)
        async for service, where, tls in self.each():
            self.source = FakeSource(content)
            client = await self.ask(service, where, tls=tls)
            # a TLS handshake has to be read too
            await client.until(lambda c=client: c.inbox.data != b"")  # type: ignore[misc]
            client.stop_reading()
            await self.quiet(lambda: self.source.given or -1)
            self.assertLess(self.source.given, MUCH)
            self.assertLessEqual(self.unsent(service), UNSENT + HEAD)
            # grows without being copied
            client.inbox.data = bytearray(client.inbox.data)  # type: ignore[assignment]
            client.start_reading()
            await client.until(lambda c=client: c.inbox.data.endswith(LAST_CHUNK))  # type: ignore[misc]
            (reply,) = client.inbox.replies()
            self.assertEqual(reply.status, 200)
            self.assertTrue(reply.body == content)
            self.assertEqual(len(service.site.transfers), 0)

    async def test_a_client_that_goes(self) -> None:
        async for service, where, tls in self.each():
            for reads in (True, False):
                self.source = FakeSource(bytes(MUCH if not reads else 10), held=reads)
                client = await self.ask(service, where, tls=tls)
                if not reads:
                    await client.until(lambda c=client: c.inbox.data != b"")  # type: ignore[misc]
                    client.stop_reading()
                await self.quiet(lambda: 0 if self.source.sink is None else self.source.given + 1)
                client.close()
                await self.quiet(lambda: self.source.stopped or -1)
                self.assertEqual((self.source.stopped, len(service.site.transfers)), (1, 0))

    async def test_an_error_in_the_middle_is_seen(self) -> None:
        async for service, where, tls in self.each():
            self.source = FakeSource(bytes(200_000), ApiError(Code.COMPUTER_UNAVAILABLE, "It died."))
            client = await self.ask(service, where, tls=tls)
            await client.ended()
            self.assertFalse(client.inbox.data.endswith(b"\r\n\r\n"))
            self.assertNotIn(LAST_CHUNK, client.inbox.data)
            self.assertEqual(client.inbox.replies(), [])

    async def test_a_credential_that_is_revoked(self) -> None:
        """Within a second."""
        service = await self.serve()
        self.source = FakeSource(b"x", held=True)
        client = await self.ask(service, self.where(service), tls=False)
        await self.quiet(lambda: -1 if self.source.sink is None else 0)
        began = reactor.seconds()
        self.issuer.revocations.members["alice"] = service.clock() + 10
        await client.ended()
        self.assertLess(reactor.seconds() - began, 1.5)
        self.assertEqual(self.source.stopped, 1)

    async def test_the_server_stops(self) -> None:
        """L2."""
        service = await self.serve()
        self.source = FakeSource(b"x", held=True)
        client = await self.ask(service, self.where(service), tls=False)
        await self.quiet(lambda: -1 if self.source.sink is None else 0)
        await service.stop_accepting()
        await client.ended()
        self.assertEqual(self.source.stopped, 1)


class UploadTests(StreamCase):
    """From the client."""

    async def test_a_workspace_that_takes_nothing_and_then_does(self) -> None:
        content = os.urandom(PIECE) * (MUCH // PIECE)
        async for service, where, tls in self.each():
            self.upload = FakeUpload(path="x", room=100_000)
            client = await self.ask(service, where, f"Content-Length: {MUCH}", tls=tls, verb="PUT")
            client.send(content)
            await self.quiet(lambda: len(self.upload.data) or -1)
            self.assertLess(len(self.upload.data), 100_000 + 2 * PIECE)
            (channel,) = service.site.members
            assert channel.incoming is not None
            self.assertLessEqual(sum(map(len, channel.incoming._pieces)), 2 * PIECE)
            self.upload.make_room(1 << 40)
            await client.until(lambda c=client: b"seq" in c.inbox.data)  # type: ignore[misc]
            (reply,) = client.inbox.replies()
            self.assertEqual(reply.status, 201)
            self.assertTrue(self.upload.data == content)

    async def test_the_client_sees_why_it_is_refused_in_the_middle(self) -> None:
        async for service, where, tls in self.each():
            self.upload = FakeUpload(path="x", landing=failing(Code.INVALID_ARCHIVE))
            client = await self.ask(service, where, f"Content-Length: {MUCH}", tls=tls, verb="PUT")
            client.send(bytes(PIECE))
            await self.quiet(lambda: len(self.upload.data) or -1)
            self.upload.failed()
            await client.until(lambda c=client: b"invalid_archive" in c.inbox.data)  # type: ignore[misc]
            (reply,) = client.inbox.replies()
            self.assertEqual((reply.status, reply.headers["connection"]), (400, "close"))
            client.send(bytes(MUCH))
            await client.ended()
            self.assertEqual(len(service.site.transfers), 0)

    async def test_a_client_that_goes(self) -> None:
        async for service, where, tls in self.each():
            self.upload = FakeUpload(path="x")
            client = await self.ask(service, where, "Transfer-Encoding: chunked", tls=tls, verb="PUT")
            client.send(b"3\r\nabc\r\n")
            await self.quiet(lambda: len(self.upload.data) or -1)
            client.close()
            await self.quiet(lambda: int(self.upload.aborted) or -1)
            self.assertEqual((self.upload.finished, len(service.site.transfers)), (False, 0))

    async def test_a_client_that_waits_for_continue(self) -> None:
        async for service, where, tls in self.each():
            self.upload = FakeUpload(path="x")
            client = await self.ask(service, where, "Content-Length: 3", "Expect: 100-continue", tls=tls, verb="PUT")
            await client.until(lambda c=client: c.inbox.data == b"HTTP/1.1 100 Continue\r\n\r\n")  # type: ignore[misc]
            client.send(b"abc")
            await client.until(lambda c=client: b"201 Created" in c.inbox.data)  # type: ignore[misc]
            self.assertEqual(self.upload.data, b"abc")
