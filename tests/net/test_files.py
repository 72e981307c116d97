"""Files and archives over HTTP, by the daemon's own front door, on connections in memory."""

from __future__ import annotations

import contextlib
import socket
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.contract.params import Suspend, UpdateSession
from computerd.net.httpchannel import BODY_GRACE_SECONDS, LINGER_BYTES, LINGER_SECONDS
from computerd.net.outgoing import STALLED_SECONDS
from computerd.workspace.port import Landed
from tests.api.access_table import THERE
from tests.net.clients import Peer, Reply, request
from tests.net.real_front import RealFrontCase
from tests.session.journal_interface import ALICE
from tests.workspace.fake_files import FakeSource, FakeUpload, failing

FILE = f"/sessions/{THERE}/workspace/file"
FILES = f"/sessions/{THERE}/workspace/files"
ARCHIVE = f"/sessions/{THERE}/workspace/archive"
TAR = "Content-Type: application/x-tar"
TEXT = b"0123456789" * 100
TAG = '"4d-3e8-17979cfe3d85cd15"'


class FilesCase(RealFrontCase):
    """A session of alice's with a file or two, and her credential."""

    def setUp(self) -> None:
        super().setUp()
        self.create(ALICE, id=THERE)
        self.files.contents.update({"a.txt": TEXT, "dir/page.html": b"<script>"})

    def ask(self, verb: str, target: str, *lines: str, peer: Peer | None = None, body: bytes = b"") -> Reply:
        """The one answer to a request."""
        peer = peer or self.memory.connect()
        peer.send(request(verb, target, *lines, token=self.token()) + body)
        self.clock.advance(0)
        (reply,) = peer.replies()
        return reply

    def head(self, target: str, *lines: str) -> bytes:
        """All that comes on a HEAD."""
        peer = self.memory.connect()
        peer.send(request("HEAD", target, *lines, token=self.token()))
        return peer.transport.take()

    def is_refused(self, reply: Reply, status: int, code: str, field: str | None = None) -> None:
        """An answer is this refusal."""
        self.assertEqual((reply.status, reply.error["code"], reply.error.get("field")), (status, code, field))

    def channel(self, peer: Peer) -> Any:
        """The server's end, which the transport tells whether the client takes anything."""
        return peer.transport.protocol

    @property
    def on_their_way(self) -> int:
        """Transfers."""
        number = len(self.memory.site.transfers)
        self.assertEqual(self.memory.site.tally.transfers, number)
        return number

    def pushed(self) -> list[Any]:
        """The events of uploads."""
        return [event for event in self.journal.log[THERE] if event.type == "files.pushed"]


class ListingTests(FilesCase):
    """`GET …/files`."""

    def test_a_page(self) -> None:
        reply = self.ask("GET", f"{FILES}?path=&limit=1")
        self.assertEqual(reply.status, 200)
        self.assertEqual(
            reply.body,
            b'{"path":"","entries":[{"path":"a.txt","name":"a.txt","type":"file","size":1000,"mode":"0644",'
            b'"modifiedAt":"2023-11-14T22:13:20.123Z","target":null,"encoded":false}],"nextCursor":"a.txt"}',
        )
        reply = self.ask("GET", f"{FILES}?path=&limit=1&cursor=a.txt&depth=10")
        self.assertIn(b'"dir/page.html"', reply.body)
        self.assertIn(b'"nextCursor":null', reply.body)

    def test_bad_params(self) -> None:
        for query, field in (
            ("", "path"), ("path=&depth=11", "depth"), ("path=&depth=0", "depth"), ("path=&limit=101", "limit"), ("path=&x=1", "x"),
            ("path=&path=", "path"), ("path=" + "x" * (limits.MAX_PATH_CHARACTERS + 1), "path"), ("path", "path"), ("path=%ff", "query"),
        ):  # fmt: skip
            self.is_refused(self.ask("GET", f"{FILES}?{query}"), 400, "invalid_request", field)

    def test_paths_that_name_nothing(self) -> None:
        """F3: refused before the user's process is asked."""
        for path in ("/etc/passwd", "..", "a/../../b", "%2e%2e/x", "a%00b", "/"):
            for target in (FILES, FILE, ARCHIVE):
                self.is_refused(self.ask("GET", f"{target}?path={path}"), 400, "invalid_path", "path")
            self.is_refused(self.ask("PUT", f"{ARCHIVE}?path={path}"), 400, "invalid_path", "path")
        self.assertEqual(self.files.calls, [])

    def test_what_the_process_refuses_with(self) -> None:
        for code, status in ((Code.COMPUTER_UNAVAILABLE, 503), (Code.COMPUTER_NOT_SET_UP, 409), (Code.TOO_LARGE, 413)):
            self.files.refusing = ApiError(code, "No.")
            for target in (FILES, FILE, ARCHIVE):
                self.is_refused(self.ask("GET", f"{target}?path=a.txt"), status, code)
            self.is_refused(self.ask("PUT", f"{ARCHIVE}?path=n"), status, code)
        self.assertEqual(self.on_their_way, 0)


class ReadingTests(FilesCase):
    """`GET …/file`."""

    def test_a_file(self) -> None:
        reply = self.ask("GET", f"{FILE}?path=a.txt")
        self.assertEqual((reply.status, reply.body), (200, TEXT))
        del reply.headers["date"], reply.headers["x-request-id"]
        self.assertEqual(
            reply.headers,
            {
                "content-type": "text/plain; charset=utf-8", "content-length": "1000", "cache-control": "private, no-cache",
                "x-content-type-options": "nosniff", "etag": TAG, "last-modified": "Tue, 14 Nov 2023 22:13:20 GMT",
                "accept-ranges": "bytes", "content-disposition": 'inline; filename="a.txt"', "content-security-policy": "sandbox",
            },
        )  # fmt: skip
        self.assertEqual(self.on_their_way, 0)

    def test_the_relays_address(self) -> None:
        self.assertEqual(self.ask("GET", f"/files/{THERE}/file?path=a.txt").body, TEXT)

    def test_head_has_the_same_headers_and_reads_nothing(self) -> None:
        whole = self.head(f"{FILE}?path=a.txt")
        head, _, body = whole.partition(b"\r\n\r\n")
        self.assertEqual(body, b"")
        reply = self.ask("GET", f"{FILE}?path=a.txt")
        told = {line.split(b": ")[0].decode().lower() for line in head.split(b"\r\n")[1:]}
        self.assertEqual(told, set(reply.headers))
        self.assertIn(b"Content-Length: 1000", head)
        self.assertEqual((self.files.closed, self.on_their_way, len(self.files.sources)), (1, 0, 1))

    def test_what_could_act_is_saved_and_not_shown(self) -> None:
        reply = self.ask("GET", f"{FILE}?path=dir/page.html")
        self.assertEqual(reply.headers["content-disposition"], 'attachment; filename="page.html"')
        self.assertEqual(reply.headers["content-security-policy"], "sandbox")

    def test_ranges(self) -> None:
        for value, place, body in (
            ("bytes=0-0", "0-0", TEXT[:1]), ("bytes=990-", "990-999", TEXT[990:]), ("bytes=-5", "995-999", TEXT[-5:]),
            ("bytes=10-99999", "10-999", TEXT[10:]), ("Bytes=5-6", "5-6", TEXT[5:7]),
        ):  # fmt: skip
            reply = self.ask("GET", f"{FILE}?path=a.txt", f"Range: {value}")
            self.assertEqual(
                (reply.status, reply.headers["content-range"], reply.body), (206, f"bytes {place}/1000", body)
            )
            self.assertEqual(reply.headers["content-length"], str(len(body)))

    def test_ranges_that_are_passed_over(self) -> None:
        for value in (
            "bytes=5-4",
            "bytes=0-1,4-5",
            "lines=1-2",
            "bytes",
            "bytes=x-",
            "bytes=-",
            "bytes=0-" + "9" * 1001,
        ):
            reply = self.ask("GET", f"{FILE}?path=a.txt", f"Range: {value}")
            self.assertEqual((reply.status, reply.body), (200, TEXT), value)

    def test_a_range_beyond_the_end(self) -> None:
        for value in ("bytes=1000-", "bytes=99999-100000", "bytes=-0"):
            reply = self.ask("GET", f"{FILE}?path=a.txt", f"Range: {value}")
            self.is_refused(reply, 416, "invalid_request", "Range")
            self.assertEqual(reply.headers["content-range"], "bytes */1000")
        self.assertEqual((self.files.closed, self.on_their_way), (3, 0))

    def test_an_empty_file(self) -> None:
        self.files.contents["empty"] = b""
        for lines in ((), ("Range: bytes=0-",)):
            reply = self.ask("GET", f"{FILE}?path=empty", *lines)
            self.assertEqual((reply.status, reply.headers["content-length"], reply.body), (200, "0", b""))
        self.assertEqual((self.files.closed, self.files.sources), (2, []))

    def test_if_none_match(self) -> None:
        for value in (TAG, f"W/{TAG}", f'"x", {TAG}', "*"):
            reply = self.ask("GET", f"{FILE}?path=a.txt", f"If-None-Match: {value}", "Range: bytes=0-1")
            self.assertEqual((reply.status, reply.body, reply.headers["etag"]), (304, b"", TAG))
            self.assertNotIn("content-length", reply.headers)
            self.assertNotIn("transfer-encoding", reply.headers)
        self.assertEqual(self.files.closed, 4)
        self.assertEqual(self.ask("GET", f"{FILE}?path=a.txt", 'If-None-Match: "x"').status, 200)

    def test_if_match(self) -> None:
        self.assertEqual(self.ask("GET", f"{FILE}?path=a.txt", f"If-Match: {TAG}").status, 200)
        for condition in ('If-Match: "x"', "If-Unmodified-Since: Mon, 01 Jan 1990 00:00:00 GMT"):
            reply = self.ask("GET", f"{FILE}?path=a.txt", condition)
            self.is_refused(reply, 412, "invalid_request", condition.partition(":")[0])
        self.assertEqual(self.files.closed, 2)
        for condition in ("If-Match: *", "If-None-Match: *"):
            reply = self.ask("PUT", f"{ARCHIVE}?path=new&replace=true", condition, TAR, body=b"x")
            self.is_refused(reply, 400, "invalid_request", condition.partition(":")[0])
        self.assertEqual(self.files.uploads, [])

    def test_if_range(self) -> None:
        for value, status in (
            (TAG, 206), (f"W/{TAG}", 200), ('"x"', 200), ("Tue, 14 Nov 2023 22:13:20 GMT", 206),
            ("Tue, 14 Nov 2023 22:13:19 GMT", 200), ("Tue, 14 Nov 2023 22:13:21 GMT", 200), ("nonsense", 200),
        ):  # fmt: skip
            reply = self.ask("GET", f"{FILE}?path=a.txt", "Range: bytes=0-1", f"If-Range: {value}")
            self.assertEqual(reply.status, status, value)

    def test_a_second_request_on_the_same_connection(self) -> None:
        peer = self.memory.connect()
        for _ in range(3):
            self.assertEqual(self.ask("GET", f"{FILE}?path=a.txt", peer=peer).body, TEXT)


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


class UploadTests(FilesCase):
    """`PUT …/archive`."""

    def put(self, *lines: str, query: str = "path=new", body: bytes = b"") -> Peer:
        """An upload begins."""
        peer = self.memory.connect()
        peer.send(request("PUT", f"{ARCHIVE}?{query}", *lines, token=self.token()) + body)
        return peer

    def upload(self, room: int = 1 << 40) -> None:
        """Every upload has so much room."""

        def prepare(made: FakeSource | FakeUpload) -> None:
            assert isinstance(made, FakeUpload)
            made.room = room

        self.files.prepare = prepare

    def reply(self, peer: Peer) -> Reply:
        """The one answer."""
        (reply,) = peer.replies()
        return reply

    def test_an_archive(self) -> None:
        peer = self.put(TAR, "Content-Length: 6", body=b"abc")
        self.assertEqual((peer.replies(), self.on_their_way), ([], 1))
        peer.send(b"def")
        reply = self.reply(peer)
        self.assertEqual(reply.status, 201)
        (event,) = self.pushed()
        self.assertEqual(reply.body, b'{"path":"new","files":1,"bytes":6,"replaced":false,"seq":%d}' % event.seq)
        self.assertEqual(event.data, {"path": "new", "files": 1, "bytes": 6, "replaced": False})
        self.assertEqual((event.actor.id, self.on_their_way), ("alice", 0))
        self.assertEqual(self.files.contents["new"], b"abcdef")
        self.assertEqual(self.ask("GET", f"{FILE}?path=new", peer=peer).body, b"abcdef")
        self.assertEqual(self.memory.site.tally.moved["received"], 6)

    def test_the_journal_has_it_before_the_client(self) -> None:
        self.journal.holding = True
        peer = self.put(TAR, "Content-Length: 1", body=b"a")
        self.assertEqual(peer.replies(), [])
        self.journal.release()
        self.assertEqual(self.reply(peer).status, 201)

    def test_in_chunks(self) -> None:
        peer = self.put("Transfer-Encoding: chunked", body=b"3\r\nabc\r\n")
        peer.send(b"1\r\nd\r\n" * 3)
        peer.send(b"0\r\n\r\n")
        self.assertEqual(self.reply(peer).status, 201)
        self.assertEqual(self.files.contents["new"], b"abcddd")

    def test_tiny_chunks_are_given_on_together(self) -> None:
        peer = self.put("Transfer-Encoding: chunked")
        peer.send(b"1\r\nx\r\n" * 1000)
        self.clock.advance(0)
        self.assertEqual(self.files.uploads[0].sizes, [1000])

    def test_what_is_accepted(self) -> None:
        for lines, coding in (
            ((), "identity"), ((TAR,), "identity"), (("Content-Type: application/octet-stream",), "identity"),
            (("Content-Encoding: identity",), "identity"), (("Content-Encoding: GZIP",), "gzip"), ((TAR, "Content-Encoding: zstd"), "zstd"),
        ):  # fmt: skip
            peer = self.put(*lines, "Content-Length: 1", query="path=new&replace=true", body=b"x")
            self.assertEqual(self.reply(peer).status, 201, lines)
            self.assertEqual(self.files.uploads[-1].coding, coding)

    def test_replaced(self) -> None:
        self.files.contents["new"] = b"old"
        self.is_refused(self.reply(self.put("Content-Length: 1")), 409, "path_exists", "path")
        reply = self.reply(self.put("Content-Length: 1", query="path=new&replace=true", body=b"x"))
        self.assertIn(b'"replaced":true', reply.body)

    def test_refused_by_the_head_alone(self) -> None:
        """W1: answered before a byte of the body, and none of it is read on."""
        much = f"Content-Length: {limits.MAX_UPLOAD_BYTES + 1}"
        for lines, query, status, code, field in (
            (("Content-Type: text/plain", "Content-Length: 5"), "path=new", 400, "invalid_request", "Content-Type"),
            (("Content-Type: application/json", "Transfer-Encoding: chunked"), "path=new", 400, "invalid_request", "Content-Type"),
            (("Content-Encoding: br", "Content-Length: 5"), "path=new", 400, "invalid_request", "Content-Encoding"),
            (("Content-Encoding: gzip, zstd", "Content-Length: 5"), "path=new", 400, "invalid_request", "Content-Encoding"),
            ((much,), "path=new", 413, "too_large", None),
            (("Content-Length: 5",), "path=", 400, "invalid_request", "path"),
            (("Content-Length: 5",), "", 400, "invalid_request", "path"),
            (("Content-Length: 5",), "path=../x", 400, "invalid_path", "path"),
            (("Content-Length: 5",), "path=new&replace=yes", 400, "invalid_request", "replace"),
            (("Content-Length: 5",), "path=new&depth=1", 400, "invalid_request", "depth"),
        ):  # fmt: skip
            for expect in ((), ("Expect: 100-continue",)):
                peer = self.put(*lines, *expect, query=query)
                reply = self.reply(peer)
                self.is_refused(reply, status, code, field)
                self.assertEqual(reply.headers["connection"], "close")
                self.assertTrue(peer.transport.half_closed)
        self.assertEqual((self.files.calls, self.on_their_way), ([], 0))

    def test_without_the_scope_or_the_session_or_as_another(self) -> None:
        for rank, scopes, session, status in (
            ("owner", ("files:read",), THERE, 403),
            ("member", ("files:write",), THERE, 403),
            ("owner", ("files:write",), THERE[:-1] + "x", 404),
        ):
            peer = self.memory.connect()
            lines = ("Transfer-Encoding: chunked", "Expect: 100-continue")
            token = self.token(rank, scopes)
            peer.send(request("PUT", f"/files/{session}/archive?path=new", *lines, token=token))
            raw = peer.transport.value()
            self.assertTrue(raw.startswith(b"HTTP/1.1 %d " % status), raw)
        self.assertEqual(self.files.calls, [])

    def test_without_a_credential(self) -> None:
        """W1."""
        peer = self.memory.connect()
        peer.send(request("PUT", f"{ARCHIVE}?path=new", "Content-Length: 314572800", "Expect: 100-continue"))
        self.is_refused(self.reply(peer), 401, "unauthenticated")

    def test_continue_is_said_when_it_may(self) -> None:
        waiting: list[Deferred[None]] = []
        self.files.waiting = waiting
        peer = self.put("Content-Length: 3", "Expect: 100-continue")
        self.assertEqual(peer.transport.take(), b"")
        waiting[0].callback(None)
        self.assertEqual(peer.transport.take(), b"HTTP/1.1 100 Continue\r\n\r\n")
        peer.send(b"abc")
        self.assertEqual(self.reply(peer).status, 201)

    def test_continue_is_not_said_to_who_does_not_wait(self) -> None:
        waiting: list[Deferred[None]] = []
        self.files.waiting = waiting
        peer = self.put("Content-Length: 6", "Expect: 100-continue", body=b"abc")
        waiting.pop().callback(None)
        self.assertEqual(peer.transport.value(), b"")
        self.files.waiting = None
        old = request("PUT", f"{ARCHIVE}?path=old", "Content-Length: 3", "Expect: 100-continue", token=self.token())
        peer = self.memory.connect()
        peer.send(old.replace(b"HTTP/1.1", b"HTTP/1.0"))
        self.assertEqual(peer.transport.value(), b"")

    def test_nothing_is_read_before_it_may_come(self) -> None:
        waiting: list[Deferred[None]] = []
        self.files.waiting = waiting
        peer = self.put("Content-Length: 6", body=b"abc")
        self.assertEqual(peer.transport.producerState, "paused")
        waiting[0].callback(None)
        self.assertEqual(peer.transport.producerState, "producing")
        self.assertEqual(self.files.uploads[0].data, b"abc")

    def test_in_step_with_the_workspace(self) -> None:
        self.upload(room=10)
        peer = self.put("Content-Length: 300000", body=b"a" * 9)
        (upload,) = self.files.uploads
        self.assertEqual(peer.transport.producerState, "producing")
        peer.send(b"b" * 65536)
        self.assertEqual((len(upload.data), peer.transport.producerState), (9 + 65536, "paused"))
        # one more read may have been under way
        peer.send(b"c" * 65536)
        self.assertEqual((len(upload.data), peer.transport.producerState), (9 + 65536, "paused"))
        upload.make_room(10)
        self.assertEqual((len(upload.data), peer.transport.producerState), (9 + 2 * 65536, "paused"))
        upload.make_room(1 << 40)
        self.assertEqual(peer.transport.producerState, "producing")
        peer.send(b"d" * (300000 - 9 - 2 * 65536))
        self.assertEqual(self.reply(peer).status, 201)
        self.assertEqual(len(upload.data), 300000)

    def test_an_end_that_waits_for_room(self) -> None:
        self.upload(room=1)
        peer = self.put("Content-Length: 4", body=b"ab")
        peer.send(b"cd")
        self.assertEqual(peer.replies(), [])
        self.files.uploads[0].make_room(1)
        self.assertEqual(self.reply(peer).status, 201)
        self.assertEqual(self.ask("GET", f"{FILES}?path=", peer=peer).status, 200)

    def test_refused_in_the_middle(self) -> None:
        peer = self.put("Content-Length: 1000000", body=b"abc")
        (upload,) = self.files.uploads
        upload.landing = failing(Code.INVALID_ARCHIVE)
        upload.failed()
        self.is_refused(self.reply(peer), 400, "invalid_archive")
        self.assertEqual((self.on_their_way, self.pushed()), (0, []))
        peer.send(b"x" * (LINGER_BYTES - 1))
        self.assertEqual(peer.transport.producerState, "producing")
        peer.send(b"x" * LINGER_BYTES)
        self.assertEqual(peer.transport.producerState, "paused")
        self.assertEqual(upload.data, b"abc")
        self.clock.advance(LINGER_SECONDS)
        self.clock.advance(0)
        self.assertTrue(peer.transport.over)

    def test_nothing_is_read_while_it_is_asked_why(self) -> None:
        peer = self.put("Content-Length: 1000000", body=b"abc")
        (upload,) = self.files.uploads
        upload.landing = Deferred()
        upload.failed()
        self.assertEqual(peer.transport.producerState, "paused")
        upload.landing.errback(ApiError(Code.UNAVAILABLE, "The disk is full."))
        self.assertEqual(peer.transport.producerState, "producing")
        self.is_refused(self.reply(peer), 503, "unavailable")

    def test_refused_at_the_end(self) -> None:
        peer = self.put("Content-Length: 3")
        self.files.uploads[0].landing = failing(Code.INVALID_ARCHIVE)
        peer.send(b"abc")
        self.is_refused(self.reply(peer), 400, "invalid_archive")
        self.assertEqual(self.ask("GET", f"{FILES}?path=", peer=peer).status, 200)

    def test_no_body_is_no_archive_and_not_decided_here(self) -> None:
        reply = self.reply(self.put())
        self.assertEqual((reply.status, self.files.uploads[0].data), (201, b""))

    def test_too_much_in_chunks(self) -> None:
        self.patch(limits, "MAX_UPLOAD_BYTES", 100)
        peer = self.put("Transfer-Encoding: chunked", body=b"32\r\n" + b"x" * 50 + b"\r\n")
        peer.send(b"33\r\n" + b"x" * 51 + b"\r\n0\r\n\r\n")
        self.is_refused(self.reply(peer), 413, "too_large")
        self.assertTrue(self.files.uploads[0].aborted)
        self.assertEqual(self.on_their_way, 0)

    def test_a_client_that_goes(self) -> None:
        peer = self.put("Content-Length: 6", body=b"abc")
        peer.lose()
        (upload,) = self.files.uploads
        self.assertEqual((upload.aborted, upload.finished, self.on_their_way), (True, False, 0))
        self.assertEqual(self.pushed(), [])

    def test_a_client_that_goes_before_it_may_come(self) -> None:
        waiting: list[Deferred[None]] = []
        self.files.waiting = waiting
        peer = self.put("Content-Length: 6", body=b"abc")
        peer.lose()
        self.assertEqual(self.on_their_way, 0)
        waiting[0].callback(None)
        self.assertTrue(self.files.uploads[0].aborted)
        self.assertFalse(self.files.uploads[0].begun)

    def test_a_client_that_goes_after_the_end(self) -> None:
        """What came whole is in the workspace and in the journal, whoever hears of it."""
        peer = self.put("Content-Length: 3")
        (upload,) = self.files.uploads
        upload.landing = Deferred()
        peer.send(b"abc")
        peer.lose()
        self.assertEqual((upload.aborted, self.on_their_way), (False, 1))
        upload.landing.callback(Landed("new", 1, 3, False))
        self.assertEqual((len(self.pushed()), self.on_their_way), (1, 0))

    def test_a_slow_body(self) -> None:
        """W3."""
        peer = self.put("Content-Length: 100000", body=b"abc")
        for _ in range(int(BODY_GRACE_SECONDS) + 1):
            self.clock.advance(1)
        self.is_refused(self.reply(peer), 400, "invalid_request", "body")
        self.assertTrue(self.files.uploads[0].aborted)

    def test_a_slow_workspace_is_not_the_clients_fault(self) -> None:
        self.upload(room=3)
        peer = self.put("Content-Length: 6", body=b"abc")
        for _ in range(300):
            self.clock.advance(1)
        self.assertEqual((peer.replies(), peer.transport.over), ([], None))
        self.files.uploads[0].make_room(10)
        self.clock.advance(BODY_GRACE_SECONDS - 1)
        self.assertEqual(peer.replies(), [])
        peer.send(b"def")
        self.assertEqual(self.reply(peer).status, 201)
        # the connection is idle again, and not for ever
        for _ in range(80):
            self.clock.advance(1)
        self.assertTrue(peer.transport.over)

    def test_a_credential_that_ends(self) -> None:
        peer = self.put("Content-Length: 6", body=b"abc")
        self.memory.issuer.revocations.members["alice"] = self.memory.issuer.wall.now
        self.memory.site.check()
        self.is_refused(self.reply(peer), 401, "unauthenticated")
        self.assertTrue(self.files.uploads[0].aborted)

    def test_a_credential_that_ends_after_the_end(self) -> None:
        peer = self.put("Content-Length: 3")
        (upload,) = self.files.uploads
        upload.landing = Deferred()
        peer.send(b"abc")
        self.memory.issuer.revocations.members["alice"] = self.memory.issuer.wall.now
        self.memory.site.check()
        upload.landing.callback(Landed("new", 1, 3, False))
        self.assertEqual(self.reply(peer).status, 201)

    def test_the_server_stops(self) -> None:
        """L2."""
        peer = self.put("Content-Length: 6", body=b"abc")
        self.memory.site.close_idle()
        self.is_refused(self.reply(peer), 503, "unavailable")
        self.assertTrue(self.files.uploads[0].aborted)

    def test_a_connection_with_an_upload_is_not_idle(self) -> None:
        peer = self.put("Content-Length: 6", body=b"abc")
        self.assertFalse(peer.transport.protocol.idle)
        peer.send(b"def")
        self.assertTrue(peer.transport.protocol.idle)

    def test_an_upload_that_lands_before_its_end(self) -> None:
        """The user's process does not keep to what was agreed."""
        peer = self.put("Content-Length: 6", body=b"abc")
        self.files.uploads[0].failed()
        self.is_refused(self.reply(peer), 500, "internal")

    def test_a_bug(self) -> None:
        peer = self.put("Content-Length: 3")
        landing: Deferred[Landed] = Deferred()
        self.files.uploads[0].landing = landing
        peer.send(b"abc")
        landing.errback(ZeroDivisionError("secret"))
        reply = self.reply(peer)
        self.is_refused(reply, 500, "internal")
        self.assertNotIn(b"secret", reply.body)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class AnyTests(SynchronousTestCase):
    """Whatever the sizes of the pieces and the moments of the pauses, the same bytes come out."""

    def case(self) -> FilesCase:
        """A fresh site."""
        case = FilesCase()
        case.setUp()
        self.addCleanup(case.doCleanups)
        return case

    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=300), st.data(), st.booleans())
    def test_of_an_upload(self, content: bytes, data: st.DataObject, chunked: bool) -> None:
        case = self.case()
        room = data.draw(st.integers(1, 100))
        case.files.prepare = lambda made: setattr(made, "room", room)
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [*_parts(content, data), b""])
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(content)}"
        head = request("PUT", f"{ARCHIVE}?path=new", length, token=case.token())
        peer = case.memory.connect()
        for part in _parts(head + (body if chunked else content), data):
            peer.send(part)
            more = data.draw(st.integers(0, 100))
            for upload in case.files.uploads if more else ():
                upload.make_room(more)
        (upload,) = case.files.uploads
        # what is left is in one piece
        upload.make_room(1 << 40)
        (reply,) = peer.replies()
        self.assertEqual((reply.status, upload.data), (201, content))

    @settings(max_examples=100, deadline=None)
    @given(st.binary(max_size=300), st.data())
    def test_of_a_download(self, content: bytes, data: st.DataObject) -> None:
        case = self.case()
        case.files.contents["a.txt"] = content
        case.files.prepare = lambda made: setattr(made, "held", True)
        peer = case.memory.connect()
        peer.send(request("GET", f"{ARCHIVE}?path=a.txt", token=case.token()))
        (source,) = case.files.sources
        for part in _parts(source.data, data):
            if data.draw(st.booleans()):
                case.channel(peer).pauseProducing()
                case.channel(peer).resumeProducing()
            source.give(len(part))
        source.finish()
        (reply,) = peer.replies()
        self.assertEqual(reply.body, b"identity:" + content)


def _parts(content: bytes, data: st.DataObject) -> list[bytes]:
    """`content` in pieces, none of them empty."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(content)), max_size=6)) | {0, len(content)})
    return [content[start:end] for start, end in pairwise(cuts)]


class SleepingTests(FilesCase):
    """Sessions that are suspended or archived."""

    def test_a_suspended_session_sleeps_on(self) -> None:
        self.successResultOf(self.call("sessions.suspend", Suspend(session_id=THERE)))
        self.assertEqual(self.ask("GET", f"{FILE}?path=a.txt").status, 200)
        self.assertEqual(self.ask("PUT", f"{ARCHIVE}?path=new", "Content-Length: 1", body=b"x").status, 201)
        self.assertEqual(self.journal.records[THERE].status, "suspended")
        self.assertEqual(self.journal.log[THERE][-1].type, "files.pushed")

    def test_an_archived_session_is_read_and_not_written(self) -> None:
        self.successResultOf(self.call("sessions.update", UpdateSession(session_id=THERE, archived=True)))
        for target in (f"{FILE}?path=a.txt", f"{FILES}?path=", f"{ARCHIVE}?path="):
            self.assertEqual(self.ask("GET", target).status, 200)
        self.files.calls.clear()
        reply = self.ask("PUT", f"{ARCHIVE}?path=new", "Content-Length: 1000000")
        self.is_refused(reply, 409, "feature_unavailable")
        self.assertEqual(self.files.calls, [])
