"""Archives out of a workspace over HTTP."""

from __future__ import annotations

import contextlib
import socket

from twisted.internet.defer import Deferred

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.net.outgoing import STALLED_SECONDS
from tests.net.clients import Peer, request
from tests.net.files_case import ARCHIVE, FILE, FILES, TAR, TEXT, FilesCase
from tests.workspace.fake_files import FakeSource


class DownloadTests(FilesCase):
    """`GET …/archive`, and what holds of every stream to a client."""

    def download(self, *lines: str, verb: str = "GET", held: bool = True) -> tuple[Peer, FakeSource]:
        """A download whose bytes a test gives."""
        self.files.prepare = lambda made: setattr(made, "held", held)
        peer = self.memory.connect()
        peer.send(request(verb, f"{ARCHIVE}?path=", *lines, token=self.token()))
        return peer, self.files.sources[-1]

    def test_an_archive(self) -> None:
        reply = self.ask("GET", f"{ARCHIVE}?path=")
        self.assertEqual((reply.status, reply.body), (200, b"identity:" + TEXT + b"<script>"))
        del reply.headers["date"], reply.headers["x-request-id"]
        self.assertEqual(
            reply.headers,
            {
                "content-type": "application/x-tar", "transfer-encoding": "chunked", "cache-control": "no-store", "vary": "Accept-Encoding",
                "x-content-type-options": "nosniff", "content-disposition": 'attachment; filename="workspace.tar"',
                "content-security-policy": "sandbox", "trailer": "Computer-Unreadable",
            },
        )  # fmt: skip
        self.assertEqual(reply.trailers, {"computer-unreadable": "0"})

    def test_how_much_it_lacks(self) -> None:
        """It is told after the last chunk, when it is known; and the connection can be used again."""
        peer, source = self.download()
        self.files.unreadable = 12
        while source.given < len(source.data):
            source.give()
        self.assertEqual(peer.replies(), [])
        source.finish()
        (reply,) = peer.replies()
        self.assertEqual((reply.body, reply.trailers), (source.data, {"computer-unreadable": "12"}))
        self.files.prepare = lambda made: None
        self.assertEqual(self.ask("GET", f"{ARCHIVE}?path=a.txt", peer=peer).trailers, {"computer-unreadable": "12"})
        reply = self.ask("GET", f"{FILE}?path=a.txt", peer=peer)
        self.assertEqual((reply.body, reply.trailers, reply.headers.get("trailer")), (TEXT, {}, None))

    def test_of_nothing(self) -> None:
        """No piece, but a last chunk."""
        peer, source = self.download()
        source.finish()
        (reply,) = peer.replies()
        self.assertEqual((reply.body, reply.trailers), (b"", {"computer-unreadable": "0"}))

    def test_of_a_file(self) -> None:
        reply = self.ask("GET", f"{ARCHIVE}?path=dir/page.html")
        self.assertEqual(reply.headers["content-disposition"], 'attachment; filename="page.html.tar"')

    def test_codings(self) -> None:
        for accept, coding in (
            ("gzip", "gzip"),
            ("gzip, zstd", "zstd"),
            ("gzip;q=1, zstd;q=0.5", "gzip"),
            ("br", None),
        ):
            reply = self.ask("GET", f"{ARCHIVE}?path=a.txt", f"Accept-Encoding: {accept}")
            self.assertEqual(reply.headers.get("content-encoding"), coding)
            self.assertTrue(reply.body.startswith((coding or "identity").encode() + b":"))
            self.assertEqual(reply.headers["vary"], "Accept-Encoding")

    def test_a_workspace_without_zstd(self) -> None:
        """Its gzip is for those who take it; others get the archive as it is."""
        self.files.instead["zstd"] = "gzip"
        for accept, coding in (("zstd, gzip", "gzip"), ("zstd", None), ("zstd, gzip;q=0", None)):
            reply = self.ask("GET", f"{ARCHIVE}?path=a.txt", f"Accept-Encoding: {accept}")
            self.assertEqual(reply.headers.get("content-encoding"), coding)
            self.assertTrue(reply.body.startswith((coding or "identity").encode() + b":"))
        self.assertEqual(sum(source.stopped for source in self.files.sources), 2)
        self.assertEqual(self.on_their_way, 0)

    def test_head(self) -> None:
        head, _, body = self.head(f"{ARCHIVE}?path=", "Accept-Encoding: zstd").partition(b"\r\n\r\n")
        self.assertEqual((head.split(b"\r\n")[0], body), (b"HTTP/1.1 200 OK", b""))
        self.assertIn(b"Content-Encoding: zstd", head)
        self.assertNotIn(b"Trailer", head)
        (source,) = self.files.sources
        self.assertEqual((source.stopped, source.sink, self.on_their_way), (1, None, 0))

    def test_an_error_in_the_middle_is_seen(self) -> None:
        peer, source = self.download()
        source.give(10)
        source.finish(ApiError(Code.COMPUTER_UNAVAILABLE, "It died."))
        self.assertEqual(self.on_their_way, 0)
        self.assertTrue(peer.transport.value().endswith(b"\r\n\r\na\r\nidentity:0\r\n"), peer.transport.value())
        self.assertTrue(peer.transport.over)

    def test_too_few_or_too_many_bytes_of_a_file_are_seen(self) -> None:
        """F4: one that shrinks or grows while it is read."""
        for extra in (-1, 1):
            self.files.prepare = lambda made: setattr(made, "held", True)
            peer = self.memory.connect()
            peer.send(request("GET", f"{FILE}?path=a.txt", token=self.token()))
            source = self.files.sources[-1]
            source.data = bytes(len(TEXT) + extra)
            source.give()
            source.finish()
            self.assertTrue(peer.transport.over)
            self.assertEqual(source.stopped, 1 if extra > 0 else 0)
        self.assertEqual(self.on_their_way, 0)

    def test_in_step_with_the_client(self) -> None:
        peer, source = self.download()
        source.data = bytes(300_000)
        self.assertTrue(source.give())
        self.channel(peer).pauseProducing()
        self.assertFalse(source.give())
        self.channel(peer).pauseProducing()
        self.assertEqual(source.resumed, 0)
        self.channel(peer).resumeProducing()
        self.assertEqual(source.resumed, 1)
        self.channel(peer).pauseProducing()
        self.channel(peer).resumeProducing()
        self.assertEqual(source.resumed, 1, "it was not asked to stop in between")

    def test_a_client_that_takes_nothing_is_let_go_of(self) -> None:
        peer, source = self.download()
        source.give(5)
        self.channel(peer).pauseProducing()
        source.give(5)
        self.clock.advance(STALLED_SECONDS - 1)
        self.channel(peer).resumeProducing()
        self.channel(peer).pauseProducing()
        self.clock.advance(STALLED_SECONDS - 1)
        self.assertEqual(source.stopped, 0)
        self.clock.advance(1)
        self.clock.advance(0)
        self.assertEqual((source.stopped, self.on_their_way), (1, 0))
        self.assertTrue(peer.transport.over)

    def test_a_slow_client_is_no_client_that_takes_nothing(self) -> None:
        """The kernel holds a megabyte for it, of which it takes a piece now and then."""
        peer, source = self.download()
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        ours.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(bytes(1000))
        peer.transport.getHandle = lambda: ours  # type: ignore[attr-defined]
        source.give(5)
        self.channel(peer).pauseProducing()
        for _ in range(3):
            self.clock.advance(STALLED_SECONDS - 1)
            theirs.recv(3000)
            self.clock.advance(1)
            self.assertEqual(source.stopped, 0)
        self.clock.advance(STALLED_SECONDS)
        self.clock.advance(0)
        self.assertEqual((source.stopped, self.on_their_way), (1, 0))

    def test_a_client_that_goes(self) -> None:
        peer, source = self.download()
        source.give(5)
        peer.lose()
        self.assertEqual((source.stopped, self.on_their_way), (1, 0))
        source.ended = False
        source.finish()

    def test_a_client_that_goes_before_it_begins(self) -> None:
        for target in (f"{FILE}?path=a.txt", f"{ARCHIVE}?path="):
            waiting: list[Deferred[None]] = []
            self.files.waiting = waiting
            peer = self.memory.connect()
            peer.send(request("GET", target, token=self.token()))
            self.assertEqual(self.on_their_way, 1)
            peer.lose()
            self.assertEqual(self.on_their_way, 0)
        self.assertEqual(self.files.sources, [])

    def test_a_credential_that_ends(self) -> None:
        """Within a second: `NetService` looks that often, and at every change."""
        peer, source = self.download()
        source.give(5)
        self.memory.issuer.revocations.members["alice"] = self.memory.issuer.wall.now
        self.memory.site.check()
        self.clock.advance(0)
        self.assertEqual((source.stopped, self.on_their_way), (1, 0))
        self.assertTrue(peer.transport.over)

    def test_a_credential_that_ends_before_it_begins(self) -> None:
        waiting: list[Deferred[None]] = []
        self.files.waiting = waiting
        peer = self.memory.connect()
        peer.send(request("GET", f"{FILE}?path=a.txt", token=self.token()))
        self.memory.issuer.revocations.members["alice"] = self.memory.issuer.wall.now
        self.memory.site.check()
        waiting[0].callback(None)
        (reply,) = peer.replies()
        self.is_refused(reply, 401, "unauthenticated")
        self.assertEqual((self.files.closed, self.on_their_way), (1, 0))

    def test_the_server_stops(self) -> None:
        """L2."""
        peer, source = self.download()
        source.give(5)
        self.memory.site.close_idle()
        self.clock.advance(0)
        self.assertEqual((source.stopped, self.on_their_way), (1, 0))
        self.assertTrue(peer.transport.over)

    def test_many_at_a_time(self) -> None:
        begun = [self.download() for _ in range(limits.MAX_TRANSFERS_PER_MEMBER)]
        peer = self.memory.connect()
        self.is_refused(self.ask("GET", f"{FILE}?path=a.txt", peer=peer), 429, "rate_limited")
        self.is_refused(self.ask("PUT", f"{ARCHIVE}?path=n", TAR, "Content-Length: 1"), 429, "rate_limited")
        self.assertEqual(self.memory.site.tally.limited["transfers"], 2)
        self.assertEqual(self.ask("GET", f"{FILES}?path=", peer=peer).status, 200)
        admin = request("GET", f"{FILE}?path=a.txt", token=self.token("admin"))
        other = self.memory.connect()
        other.send(admin)
        self.assertEqual(self.on_their_way, limits.MAX_TRANSFERS_PER_MEMBER + 1)
        begun[0][1].finish()
        self.files.prepare = lambda made: None
        self.assertEqual(self.ask("GET", f"{FILE}?path=a.txt", peer=peer).status, 200)

    def test_an_old_client_gets_no_chunks(self) -> None:
        peer = self.memory.connect()
        peer.send(request("GET", f"{ARCHIVE}?path=a.txt", token=self.token()).replace(b"HTTP/1.1", b"HTTP/1.0"))
        self.clock.advance(0)
        head, _, body = peer.transport.take().partition(b"\r\n\r\n")
        self.assertNotIn(b"chunked", head)
        self.assertNotIn(b"Trailer", head)
        self.assertEqual(body, b"identity:" + TEXT)
        self.assertTrue(peer.transport.over)

    def test_what_was_sent_is_counted(self) -> None:
        self.ask("GET", f"{FILE}?path=a.txt")
        self.assertEqual(self.memory.site.tally.moved["sent"], len(TEXT))
        self.assertEqual(self.memory.site.tally.requests["files.read", "2xx"], 1)
