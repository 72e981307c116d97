"""Bodies in chunks: as little of one is decoded in a turn as leaves the others their time, whatever the client sends."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http import _ChunkedTransferDecoder

from computerd.contract import limits
from computerd.net.chunks import CHUNKS_PER_TURN, SLICE_BYTES, TINY_BYTES, TINY_CHUNKS, TINY_SECONDS, Chunks
from computerd.net.httpchannel import LINGER_SECONDS
from tests.net.clients import Peer, Reply, request
from tests.net.files_case import ARCHIVE, FILES, FilesCase
from tests.workspace.fake_files import FakeSource, FakeUpload

CHUNKED = "Transfer-Encoding: chunked"
END = b"0\r\n\r\n"
SMALLEST = 6
"""Bytes that a chunk of one byte takes."""
MOST_PER_TURN = CHUNKS_PER_TURN + SLICE_BYTES // SMALLEST + 1
READ = 64 * limits.KIB
FEW = b"".join(b"1\r\n%c\r\n" % (n % 256) for n in range(TINY_CHUNKS))
MANY = b"1\r\nx\r\n" * (READ // SMALLEST)


def in_chunks(content: bytes, size: int) -> bytes:
    """A body without its end."""
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


class DecodingTests(SynchronousTestCase):
    """The decoder alone."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.chunks_in_turn = self.turns_taken = 0
        self.got: list[bytes] = []
        self.after: list[bytes] = []
        self.refused: list[str] = []
        decoder = _ChunkedTransferDecoder(self.got.append, self.after.append)
        self.chunks = Chunks(decoder, self.clock, self.go_on, lambda error: self.refused.append(error.message))
        inner: Any = decoder.dataCallback

        def counted(data: bytes) -> None:
            self.chunks_in_turn += 1
            inner(data)

        decoder.dataCallback = counted

    def go_on(self) -> None:
        """What a channel does. The clock makes one turn follow the other at once."""
        self.end_turn()
        self.turns_taken += 1
        self.chunks.dataReceived(b"")

    def end_turn(self) -> None:
        """A turn is short."""
        self.assertLessEqual(self.chunks_in_turn, MOST_PER_TURN)
        self.chunks_in_turn = 0

    def turns(self) -> int:
        """How many more turns it takes."""
        self.turns_taken = 0
        self.clock.advance(0)
        self.end_turn()
        self.assertEqual((self.clock.getDelayedCalls(), self.chunks.waiting), ([], False))
        return self.turns_taken

    def test_a_read_of_the_smallest(self) -> None:
        self.chunks.dataReceived(FEW + END)
        self.assertGreaterEqual(self.turns(), TINY_CHUNKS // MOST_PER_TURN)
        self.assertEqual(b"".join(self.got), bytes(n % 256 for n in range(TINY_CHUNKS)))
        self.assertEqual((self.after, self.refused), ([b""], []))

    def test_of_ordinary_ones_a_read_takes_one_turn(self) -> None:
        content = bytes(range(256)) * 256
        for size in (2048, 8192, 16384, 65536):
            self.got.clear()
            self.chunks.dataReceived(in_chunks(content, size))
            self.assertEqual((self.turns(), b"".join(self.got) == content), (0, True))
            self.assertLessEqual(len(self.got), 2 * len(content) // size + 1)

    def test_small_ones_behind_a_large_one(self) -> None:
        """What came before does not make the next turn longer."""
        for _ in range(3):
            self.chunks.dataReceived(in_chunks(bytes(60_000), 60_000) + FEW[: 800 * SMALLEST])
            self.assertGreaterEqual(self.turns(), 800 // MOST_PER_TURN)

    def test_lines_behind_the_last(self) -> None:
        """Trailers are read by nobody, and are up to 64 KiB."""
        self.chunks.dataReceived(b"0\r\n" + b"a:\r\n" * 4000 + b"\r\nnext")
        self.assertGreaterEqual(self.turns(), 4000 * 4 // SLICE_BYTES)
        self.assertEqual(self.after, [b"next"])

    def test_more_comes_while_some_waits(self) -> None:
        self.chunks.dataReceived(FEW[:3000])
        self.chunks.dataReceived(FEW[3000:] + END)
        self.chunks.dataReceived(b"next")
        self.turns()
        self.assertEqual(b"".join(self.got), bytes(n % 256 for n in range(TINY_CHUNKS)))
        self.assertEqual(b"".join(self.after), b"next")

    def test_too_many_too_small(self) -> None:
        for chunk in (b"1\r\nx\r\n", b"1;" + b"e" * 200 + b"\r\nx\r\n", in_chunks(bytes(TINY_BYTES - 1), 99)):
            self.setUp()
            self.chunks.dataReceived(chunk * (TINY_CHUNKS - 1))
            self.turns()
            self.assertEqual(self.refused, [])
            self.chunks.dataReceived(chunk * 100)
            self.turns()
            self.assertEqual(self.refused, ["Send the body in larger chunks."])

    def test_just_large_enough(self) -> None:
        for _ in range(5):
            self.chunks.dataReceived(in_chunks(bytes(TINY_BYTES * TINY_CHUNKS), TINY_BYTES))
            self.turns()
        self.assertEqual(self.refused, [])

    def test_a_good_beginning_is_no_excuse(self) -> None:
        self.chunks.dataReceived(in_chunks(bytes(1 << 20), 1 << 19))
        for _ in range(2):
            self.chunks.dataReceived(b"1\r\nx\r\n" * (TINY_CHUNKS + 1))
            self.turns()
        self.assertEqual(len(self.refused), 1)

    def test_small_ones_that_come_slowly(self) -> None:
        """Somebody types."""
        for _ in range(5 * TINY_CHUNKS // 100):
            self.chunks.dataReceived(b"1\r\nx\r\n" * 100)
            self.turns()
            self.clock.advance(TINY_SECONDS / 9)
        self.assertEqual((self.refused, len(b"".join(self.got))), ([], 5 * TINY_CHUNKS))

    def test_stopped(self) -> None:
        self.chunks.dataReceived(FEW)
        got = len(self.got)
        self.chunks.stop()
        self.chunks.stop()
        self.chunks.dataReceived(FEW)
        self.assertEqual((self.clock.getDelayedCalls(), len(self.got), self.chunks.waiting), ([], got, False))

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(st.integers(1, 40) | st.integers(500, 530) | st.integers(2000, 9000), max_size=300),
        st.lists(st.integers(1, 600) | st.integers(1, READ), min_size=1, max_size=30),
    )
    def test_as_twisted_alone(self, sizes: list[int], reads: list[int]) -> None:
        """Whatever the chunks are and however they come."""
        self.setUp()
        content = bytes(n % 251 for n in range(sum(sizes)))
        body, at = b"", 0
        for size in sizes:
            body += in_chunks(content[at : at + size], size)
            at += size
        data = body + b"0;x=y\r\nA: b\r\n\r\n" + b"next"
        for read in [*reads, len(data)]:
            self.chunks.dataReceived(data[:read])
            data = data[read:]
            self.turns()
            if self.after:
                break
        self.assertEqual(b"".join(self.got), content)
        self.assertEqual(b"".join(self.after) + data, b"next")


class ChannelTests(FilesCase):
    """On a connection, for both kinds of body."""

    def send(self, verb: str, target: str, body: bytes = b"") -> Peer:
        """A request whose body has begun."""
        peer = self.memory.connect()
        kind = "application/x-tar" if verb == "PUT" else "application/json"
        peer.send(request(verb, target, CHUNKED, f"Content-Type: {kind}", token=self.token()) + body)
        return peer

    def put(self, body: bytes = b"") -> Peer:
        """An upload."""
        return self.send("PUT", f"{ARCHIVE}?path=new", body)

    def post(self, body: bytes = b"") -> Peer:
        """A new session."""
        return self.send("POST", "/sessions", body)

    def until(self, peer: Peer, number: int = 1) -> list[Reply]:
        """So many answers, and how they are come to: in several turns."""
        replies = peer.replies()
        for _ in range(200):
            if len(replies) >= number:
                break
            self.clock.advance(0.001)
            replies += peer.replies()
        self.assertEqual(len(replies), number)
        return replies

    def test_json_takes_several_turns(self) -> None:
        content = json.dumps({"title": "n" * 60, "metadata": {f"k{n}": "v" * 40 for n in range(14)}}).encode()
        self.assertGreater(len(content), 3 * MOST_PER_TURN)
        peer = self.post(in_chunks(content, 1) + END)
        self.assertEqual((peer.replies(), peer.transport.producerState), ([], "paused"))
        (reply,) = self.until(peer)
        self.assertEqual((reply.status, reply.body.count(b"v" * 40)), (201, 14), reply.body)
        self.assertEqual(peer.transport.producerState, "producing")

    def test_an_upload_takes_several_turns_and_reads_on(self) -> None:
        content = bytes(n % 251 for n in range(60_000))
        peer = self.put()
        for at in range(0, len(content), 20_000):
            peer.send(in_chunks(content[at : at + 20_000], 70))
            self.assertEqual(peer.transport.producerState, "paused")
            self.clock.pump([0] * 10)
            self.assertEqual(peer.transport.producerState, "producing")
        peer.send(END)
        self.assertEqual(self.until(peer)[0].status, 201)
        self.assertEqual(self.files.contents["new"], content)
        # the pieces of a read are given away together
        self.assertEqual(self.files.uploads[0].sizes, [20_000] * 3)

    def is_too_tiny(self, peer: Peer) -> None:
        """Refused, told why, and let go of."""
        (reply,) = self.until(peer)
        self.is_refused(reply, 400, "invalid_request", "body")
        self.assertEqual(reply.error["message"], "Send the body in larger chunks.")
        peer.send(MANY * 2)
        self.assertEqual((peer.transport.producerState, self.on_their_way), ("paused", 0))
        self.clock.advance(LINGER_SECONDS)
        self.clock.advance(0)
        self.assertTrue(peer.transport.over)

    def test_refused_on_the_way(self) -> None:
        self.is_too_tiny(self.post(b"1\r\n \r\n" * (READ // SMALLEST)))
        self.is_too_tiny(self.put(MANY))
        self.assertTrue(self.files.uploads[0].aborted)
        self.assertLess(len(self.files.uploads[0].data), TINY_CHUNKS + MOST_PER_TURN)

    def test_nothing_is_left_of_a_client_that_goes(self) -> None:
        for begin in (self.post, self.put):
            before = list(self.clock.getDelayedCalls())
            peer = begin(FEW)
            self.assertNotEqual(self.clock.getDelayedCalls(), before)
            peer.lose()
            self.assertEqual((self.clock.getDelayedCalls(), self.on_their_way), (before, 0))

    def test_nothing_is_left_of_a_body_that_is_refused(self) -> None:
        before = list(self.clock.getDelayedCalls())
        peer = self.put(FEW)
        self.memory.site.close_idle()
        self.is_refused(self.until(peer)[0], 503, "unavailable")
        peer.lose()
        self.assertEqual(self.clock.getDelayedCalls(), before)

    def test_what_is_no_chunk_in_a_later_turn(self) -> None:
        for begin in (self.post, self.put):
            peer = begin(FEW[: 500 * SMALLEST] + b"zz\r\n")
            self.assertEqual(peer.replies(), [])
            self.is_refused(self.until(peer)[0], 400, "invalid_request")

    def test_held_until_it_may_come(self) -> None:
        waiting: list[Deferred[None]] = []
        self.files.waiting = waiting
        peer = self.put(FEW + END)
        self.clock.pump([0] * 50)
        self.assertEqual((peer.replies(), self.files.uploads), ([], []))
        waiting[0].callback(None)
        self.assertEqual(self.until(peer)[0].status, 201)
        self.assertEqual(self.files.contents["new"], bytes(n % 256 for n in range(TINY_CHUNKS)))

    def test_released_while_some_waits(self) -> None:
        """Then it is still not read on."""
        waiting: list[Deferred[None]] = []
        self.files.waiting = waiting
        peer = self.put(FEW)
        waiting[0].callback(None)
        self.assertEqual(peer.transport.producerState, "paused")
        self.channel(peer).pauseProducing()
        self.channel(peer).resumeProducing()
        self.assertEqual(peer.transport.producerState, "paused")
        self.clock.pump([0] * 20)
        self.assertEqual(peer.transport.producerState, "producing")
        peer.send(END)
        self.assertEqual(self.until(peer)[0].status, 201)

    def test_held_when_all_is_decoded(self) -> None:
        """Then it is not read on either, until there is room."""

        def prepare(made: FakeSource | FakeUpload) -> None:
            assert isinstance(made, FakeUpload)
            made.room = 10

        self.files.prepare = prepare
        peer = self.put(FEW[: 500 * SMALLEST])
        self.clock.pump([0] * 20)
        self.assertEqual(peer.transport.producerState, "paused")
        peer.send(in_chunks(b"y" * 9000, 100) + END)
        self.clock.pump([0] * 20)
        self.assertEqual(peer.replies(), [])
        self.files.uploads[0].make_room(1 << 40)
        self.assertEqual(self.until(peer)[0].status, 201)
        self.assertEqual(self.files.contents["new"], bytes(n % 256 for n in range(500)) + b"y" * 9000)

    def test_what_follows_the_body_is_neither_lost_nor_swapped(self) -> None:
        for begin, good in ((self.put, FEW), (self.post, in_chunks(b"{}".rjust(500), 1))):
            follow = [request("GET", path, token=self.token()) for path in (f"{FILES}?path=", "/nothing", "/health")]
            peer = begin(good + END + b"".join(follow))
            self.assertEqual(peer.replies(), [])
            replies = self.until(peer, 4)
            self.assertEqual([reply.status for reply in replies], [201, 200, 404, 200])
            self.assertEqual(replies[3].body, b'{"status":"ok"}')
            self.assertEqual(peer.transport.producerState, "producing")
            peer.lose()
