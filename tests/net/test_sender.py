from __future__ import annotations

import socket
import struct
from typing import Any

from attrs import define, field
from twisted.internet import reactor as global_reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint, UNIXServerEndpoint, clientFromString, connectProtocol
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase, TestCase

from computerd.contract import limits, results
from computerd.net.sender import Sender, text_frame
from tests.net.clients import Inbox, TcpClient, messages

reactor: Any = global_reactor


@define(eq=False, slots=False)
class Source:
    """A terminal that has `left` bytes to say, and says them as long as it may."""

    sender: Sender
    channel: int
    left: int
    size: int = 65_532
    said: int = 0
    resumed: int = 0

    def resume(self) -> None:
        self.resumed += 1
        self.go()

    def go(self) -> bool:
        """Goes on until it is held back. True: it has said all."""
        while self.left:
            data = (self.said // self.size % 256).to_bytes(1, "big") * min(self.size, self.left)
            self.said += len(data)
            self.left -= len(data)
            if not self.sender.frame(self.channel, data, self):
                return False
        return True


class FrameTests(SynchronousTestCase):
    def test_lengths(self) -> None:
        for size in (1, 121, 122, 65_531, 65_532):
            transport = StringTransport()
            Sender(transport, lambda: None).frame(7, b"x" * size, Source(None, 7, 0))  # type: ignore[arg-type]
            self.assertEqual(Inbox(transport.value()).frames(), [(2, struct.pack(">I", 7) + b"x" * size)])
        for size in (0, 125, 126, 65_535, 65_536):
            self.assertEqual(Inbox(text_frame(b"x" * size)).frames(), [(1, b"x" * size)])


class PushTests(SynchronousTestCase):
    """On a transport that tells when it is full, such as TLS."""

    def setUp(self) -> None:
        self.transport = StringTransport()
        self.overflowed = 0
        self.sender = Sender(self.transport, self.overflow)
        self.sources = [Source(self.sender, n, 10, size=1) for n in range(1, 4)]

    def overflow(self) -> None:
        self.overflowed += 1
        self.sender.end()

    def sent(self) -> list[tuple[int, bytes]]:
        frames = Inbox(self.transport.value()).frames()
        self.transport.clear()
        return frames

    def test_order_and_fairness(self) -> None:
        one, two, _ = self.sources
        self.sender.pauseProducing()
        self.assertFalse(self.sender.frame(1, b"a", one))
        self.sender.control(text_frame(b"1"))
        self.assertFalse(self.sender.frame(2, b"b", two))
        self.sender.notify("terminal.exited", results.TerminalExited(terminal_id="tm_0", exit_code=0, signal=None))
        self.assertEqual(self.sent(), [])
        order: list[int] = []
        for source in (one, two):
            source.resume = lambda channel=source.channel: order.append(channel)  # type: ignore[method-assign,misc]
        self.sender.resumeProducing()
        frames = self.sent()
        self.assertEqual(
            [(opcode, payload[-1:]) for opcode, payload in frames], [(2, b"a"), (1, b"1"), (2, b"b"), (1, b"}")]
        )
        self.assertEqual(messages(frames[3:])[0]["method"], "terminal.exited")
        self.assertEqual(order, [1, 2])
        self.assertEqual(self.sender.unsent, 0)

    def test_each_source_is_called_once_and_in_turn(self) -> None:
        order: list[int] = []

        def say(source: Source) -> None:
            order.append(source.channel)
            self.sender.pauseProducing()
            self.sender.frame(source.channel, b"x", source)

        for source in self.sources:
            source.resume = lambda source=source: say(source)  # type: ignore[method-assign,misc]
        self.sender.pauseProducing()
        for source in self.sources:
            self.sender.frame(source.channel, b"x", source)
        for _ in range(6):
            self.sender.resumeProducing()
        self.assertEqual(order, [1, 2, 3, 1, 2, 3])

    def test_a_source_that_ended_is_not_called_but_its_output_goes(self) -> None:
        one = self.sources[0]
        self.sender.pauseProducing()
        self.sender.frame(1, b"last", one)
        self.sender.forget(one)
        self.sender.resumeProducing()
        self.assertEqual((one.resumed, self.sent()), (0, [(2, b"\0\0\0\1last")]))

    def test_messages_are_not_taken_while_it_is_full(self) -> None:
        """What somebody else keeps costs nothing here."""
        one, two, _ = self.sources
        self.assertTrue(self.sender.messages([b"1", b"2" * 200], one))
        self.assertEqual(self.sent(), [(1, b"1"), (1, b"2" * 200)])
        self.sender.pauseProducing()
        self.assertFalse(self.sender.messages([b"3"], one))
        self.sender.frame(2, b"x", two)
        order: list[int] = []
        for source in (one, two):
            source.resume = lambda channel=source.channel: order.append(channel)  # type: ignore[method-assign,misc]
        self.sender.resumeProducing()
        self.assertEqual((self.sent(), order, self.sender.unsent), ([(2, b"\0\0\0\2x")], [1, 2], 0))
        self.assertTrue(self.sender.messages([b"3"], one))
        self.assertEqual(self.sent(), [(1, b"3")])

    def test_messages_that_are_taken_all_the_same_count_as_unread(self) -> None:
        """And whoever gave them hears that there is no room for more, and later that there is."""
        one = Source(self.sender, 1, 0)
        self.sender.pauseProducing()
        self.assertFalse(self.sender.messages([b"x" * 1000], one, all_the_same=True))
        self.assertEqual((self.sender.unsent, one.resumed), (1004, 0))
        self.sender.resumeProducing()
        self.assertEqual((len(self.sent()), self.sender.unsent, one.resumed), (1, 0, 1))
        self.assertTrue(self.sender.messages([b"x"], one, all_the_same=True))

    def test_messages_after_the_end(self) -> None:
        self.sender.end()
        self.assertTrue(self.sender.messages([b"x"], self.sources[0]))
        self.assertEqual(self.sent(), [])

    def test_over_the_limit(self) -> None:
        self.sender.pauseProducing()
        packet = text_frame(b"x" * limits.MIB)
        for _ in range(15):
            self.sender.control(packet)
        self.assertEqual(self.overflowed, 0)
        self.sender.control(packet)
        self.assertEqual((self.overflowed, self.sender.unsent), (1, 0))
        self.sender.control(packet)
        self.sender.resumeProducing()
        self.assertEqual(self.sent(), [])
        self.assertIsNone(self.transport.producer)

    def test_the_end_forgets_all(self) -> None:
        one = self.sources[0]
        self.sender.pauseProducing()
        self.sender.frame(1, b"x", one)
        self.sender.end()
        self.sender.end()
        self.assertTrue(self.sender.frame(1, b"x", one))
        self.sender.resumeProducing()
        self.assertEqual((one.resumed, self.sent()), (0, []))


@define(eq=False, slots=False)
class Server(Protocol):
    """Makes a sender of each connection."""

    made: Deferred[Any] = field(factory=Deferred)
    sender: Sender | None = None
    transport: Any = None
    overflowed: int = 0

    def connectionMade(self) -> None:
        # as the connection does: the handshake's answer is with the transport, and goes first
        self.transport.write(text_frame(b"first"))
        self.sender = Sender(self.transport, self.overflow)
        self.made.callback(self)

    def overflow(self) -> None:
        self.overflowed += 1


class KernelTests(TestCase):
    """On real sockets."""

    timeout = 60

    async def pair(self, kind: str = "tcp", reading: bool = True) -> tuple[Server, TcpClient]:
        server = Server()
        endpoint: Any
        if kind == "tcp":
            endpoint = TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1")
        else:
            endpoint = UNIXServerEndpoint(reactor, self.mktemp()[-60:].replace("/", "_"))
        port = await endpoint.listen(Factory.forProtocol(lambda: server))
        self.addCleanup(port.stopListening)
        address = port.getHost()
        where = f"tcp:127.0.0.1:{address.port}" if kind == "tcp" else f"unix:{address.name.decode()}"
        client = TcpClient(reading)
        await connectProtocol(clientFromString(reactor, where), client)
        await server.made
        self.addCleanup(self.end, server, client)
        return server, client

    def end(self, server: Server, client: TcpClient) -> Deferred[None]:
        assert server.sender is not None
        server.sender.end()
        server.transport.abortConnection()
        client.close()
        return client.ended()

    def output(self, client: TcpClient) -> dict[int, bytes]:
        """What came by channel."""
        found: dict[int, bytes] = {}
        for opcode, payload in client.inbox.frames():
            if opcode == 2:
                channel = int.from_bytes(payload[:4], "big")
                found[channel] = found.get(channel, b"") + payload[4:]
        return found

    async def test_the_first_words_come_first(self) -> None:
        for kind in ("tcp", "unix"):
            server, client = await self.pair(kind)
            assert server.sender is not None
            server.sender.control(text_frame(b"second"))
            server.sender.frame(1, b"third", Source(server.sender, 1, 0))
            await client.until(lambda c=client: b"third" in c.inbox.data)  # type: ignore[misc]
            self.assertEqual(client.inbox.frames(), [(1, b"first"), (1, b"second"), (2, b"\0\0\0\1third")])

    async def test_a_key_goes_to_the_kernel_at_once(self) -> None:
        server, client = await self.pair()
        await client.until(lambda: b"first" in client.inbox.data)
        sender = server.sender
        assert sender is not None
        self.assertFalse(sender.pending)
        written: list[bytes] = []
        server.transport.write = written.append
        self.assertTrue(sender.frame(1, b"x", Source(sender, 1, 0)))
        self.assertEqual(written, [])
        handle = server.transport.getHandle()
        self.assertTrue(handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        self.assertEqual(handle.getsockopt(socket.IPPROTO_TCP, 25), 65536)

    async def test_a_client_that_does_not_read_holds_its_sources_back(self) -> None:
        """W12: nothing grows, nothing is lost, everybody gets his turn."""
        for kind in ("tcp", "unix"):
            server, client = await self.pair(kind, reading=False)
            sender = server.sender
            assert sender is not None
            total = 4 * limits.MIB
            sources = [Source(sender, channel, total) for channel in range(1, 5)]
            for source in sources:
                source.go()
            await deferLater(reactor, 0.05)
            said = [source.said for source in sources]
            await deferLater(reactor, 0.05)
            self.assertEqual([source.said for source in sources], said)
            self.assertTrue(sender.pending)
            held = (
                sum(len(packet) for packet, _ in sender._queue)
                + len(server.transport.dataBuffer)
                + server.transport._tempDataLen
            )
            self.assertLess(held, 600 * limits.KIB)
            sender.control(text_frame(b'"control"'))
            self.assertLess(sender.unsent, 100)
            client.start_reading()
            # every frame but the last of each source has the long header
            size = 4 * (total + 14 * (total // 65_532 + 1) - 6)
            await client.until(lambda c=client, n=size: len(c.inbox.data) >= n)  # type: ignore[misc]
            counts = [source.resumed for source in sources]
            # who finds the transport free for a while is called less often; nobody is passed over
            self.assertLessEqual(max(counts), 4 * min(counts) + 4)
            for channel, data in self.output(client).items():
                self.assertEqual(len(data), total)
                expected = b"".join((n % 256).to_bytes(1, "big") * 65_532 for n in range(total // 65_532 + 1))[:total]
                self.assertTrue(data == expected, f"channel {channel} is torn")

    async def test_no_output_overtakes_a_control_message(self) -> None:
        server, client = await self.pair(reading=False)
        sender = server.sender
        assert sender is not None
        source = Source(sender, 1, 200 * limits.MIB)
        source.go()
        await deferLater(reactor, 0.05)
        before = source.said
        sender.control(text_frame(b'"control"'))
        client.start_reading()
        await client.until(lambda: b'"control"' in client.inbox.data)
        source.left = 0
        frames = client.inbox.frames()
        at = frames.index((1, b'"control"'))
        self.assertEqual(sum(len(payload) - 4 for opcode, payload in frames[:at] if opcode == 2), before)

    async def test_too_much(self) -> None:
        server, _ = await self.pair(reading=False)
        sender = server.sender
        assert sender is not None
        packet = text_frame(b"x" * limits.MIB)
        for _ in range(60):
            sender.control(packet)
            if server.overflowed:
                break
        self.assertEqual(server.overflowed, 1)
        self.assertGreater(sender.unsent, 16 * limits.MIB)

    async def test_the_client_resets(self) -> None:
        server, client = await self.pair(reading=False)
        sender = server.sender
        assert sender is not None
        client.close()
        source = Source(sender, 1, 100 * limits.MIB)
        source.go()
        await deferLater(reactor, 0.05)
        source.go()
        self.assertTrue(sender.ended)
