"""What one member may have of the reactor's time, and that who has had it waits without harm to others."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.api.connection import Connection
from computerd.contract.methods import BY_NAME
from computerd.net.shares import BURST_SECONDS, MAX_MEMBERS, MAX_WAIT_SECONDS, RATE, Shares, journal_seconds
from tests.net.clients import Memory, call, request, text
from tests.net.fakes import FakeFront
from tests.session.journal_interface import session_id

UPDATE: Final = BY_NAME["sessions.update"]


class SharesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.shares = Shares(self.clock.seconds, self.clock.seconds)

    def test_after_a_rest_there_is_a_burst(self) -> None:
        self.assertEqual(self.shares.spend("mallory", BURST_SECONDS), 0)
        self.assertGreater(self.shares.spend("mallory", 0.001), 0)

    def test_the_others_have_their_own(self) -> None:
        self.shares.spend("mallory", 10)
        self.assertEqual(self.shares.wait("mallory"), MAX_WAIT_SECONDS)
        self.assertEqual(self.shares.wait("alice"), 0)

    def test_over_a_minute_it_is_the_rate(self) -> None:
        done = 0.0
        while self.clock.seconds() < 60:
            wait = self.shares.spend("mallory", 0.002)
            done += 0.002
            self.clock.advance(max(wait, 0.002))
        self.assertLess(abs(done / 60 - RATE), 0.01)

    def test_many_connections_wait_one_after_the_other(self) -> None:
        waits = [self.shares.spend("mallory", 0.01) for _ in range(50)]
        self.assertEqual(waits, sorted(waits))
        self.assertAlmostEqual(waits[20] - waits[19], 0.01 / RATE)

    def test_the_table_is_bounded(self) -> None:
        for number in range(MAX_MEMBERS + 1):
            self.shares.spend(f"m{number}", 1)
        self.assertEqual(self.shares.wait("m0"), 0)
        self.assertGreater(self.shares.wait(f"m{MAX_MEMBERS}"), 0)

    def test_what_a_change_costs(self) -> None:
        """The measured costs: 0.4 ms, and 12 ms more for 200 KB."""
        self.assertAlmostEqual(journal_seconds(UPDATE, 0), 0.0004)
        self.assertAlmostEqual(journal_seconds(UPDATE, 200_000), 0.0124)
        self.assertEqual(journal_seconds(BY_NAME["ping"], 200_000), 0)


class HeldTests(SynchronousTestCase):
    """On connections in memory."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.memory = Memory(clock=self.clock)
        self.shares = self.memory.site.sockets.shares

    def test_a_socket_is_not_read_until_the_debt_is_paid(self) -> None:
        peer = self.memory.open()
        peer.messages()
        self.shares.spend("alice", BURST_SECONDS + 0.2)
        peer.send(call("ping", 1) + call("ping", 2))
        self.clock.advance(0.1)
        self.assertEqual([message["id"] for message in peer.messages()], [1])
        self.clock.advance(0.5)
        self.assertEqual([message["id"] for message in peer.messages()], [2])

    def test_what_an_acknowledgement_lets_go_is_no_request(self) -> None:
        """Or a client that is given much would be held up for it, acknowledge late, and be detached as too far behind."""

        def give(front: FakeFront, params: Struct, connection: Connection) -> None:
            self.clock.advance(BURST_SECONDS + 0.5)

        self.patch(FakeFront, "notified", give)
        peer = self.memory.open()
        peer.messages()
        ack = {"jsonrpc": "2.0", "method": "sessions.ack", "params": {"sessionId": session_id(1), "seq": 1}}
        for number in (1, 2):
            peer.send(text(ack))
            peer.send(call("ping", number))
        self.assertEqual([message["id"] for message in peer.messages()], [1, 2])

    def test_a_request_over_http_waits(self) -> None:
        peer = self.memory.connect()
        self.shares.spend("alice", BURST_SECONDS + 0.2)
        peer.send(
            request(
                "POST",
                "/sessions",
                "Content-Type: application/json",
                "Content-Length: 2",
                token=self.memory.issuer.mint().token,
            )
            + b"{}"
        )
        self.clock.advance(0.1)
        self.assertEqual(peer.replies(), [])
        self.clock.advance(0.5)
        self.assertEqual(len(peer.replies()), 1)

    def test_who_leaves_while_he_waits_is_forgotten(self) -> None:
        peer = self.memory.connect()
        self.shares.spend("alice", 10)
        peer.send(
            request(
                "POST",
                "/sessions",
                "Content-Type: application/json",
                "Content-Length: 2",
                token=self.memory.issuer.mint().token,
            )
            + b"{}"
        )
        peer.lose()
        self.clock.advance(60)
        self.assertEqual(self.memory.front.calls, [])
