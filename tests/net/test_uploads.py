"""Archives into a workspace over HTTP."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.net.httpchannel import BODY_GRACE_SECONDS, LINGER_BYTES, LINGER_SECONDS
from computerd.workspace.port import Landed
from tests.api.access_table import THERE
from tests.net.clients import Peer, Reply, request
from tests.net.files_case import ARCHIVE, FILE, FILES, TAR, FilesCase
from tests.workspace.fake_files import FakeSource, FakeUpload, failing


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
