"""What clients say without asking, over the wire: it is never answered, and never ends a connection."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.contract.params import Ack, Telemetry
from tests.api.access_table import ABSENT, THERE
from tests.net.clients import Memory, Peer, call, frame, handshake, text
from tests.net.fakes import SESSION
from tests.net.real_front import RealFrontCase

TELEMETRY: dict[str, Any] = {
    "v": 1,
    "client": {"name": "opc", "version": "0.1.0", "os": "linux", "arch": "x86_64"},
    "events": [{"name": "start", "ms": 12}],
}
BAD_ACKS: tuple[Any, ...] = (
    {}, {"sessionId": SESSION}, {"seq": 1}, {"sessionId": SESSION, "seq": "1"}, {"sessionId": SESSION, "seq": True},
    {"sessionId": SESSION, "seq": 1.0}, {"sessionId": SESSION, "seq": None}, {"sessionId": SESSION, "seq": -1},
    {"sessionId": SESSION, "seq": 2**53}, {"sessionId": SESSION, "seq": 10**400}, {"sessionId": 1, "seq": 1}, {"sessionId": "x" * 256, "seq": 1},
    {"sessionId": SESSION, "seq": 1, "more": 1},
)  # fmt: skip
BAD_TELEMETRY: tuple[Any, ...] = (
    {}, {**TELEMETRY, "v": 2}, {**TELEMETRY, "events": []}, {**TELEMETRY, "events": [{}] * 21}, {**TELEMETRY, "events": "x"},
    {**TELEMETRY, "client": {"name": "other", "version": "1"}}, {**TELEMETRY, "client": None}, {**TELEMETRY, "more": 1},
)  # fmt: skip
NO_PARAMS: tuple[Any, ...] = ([], [1], "x", 1, None, True)
UNKNOWN = ("", "ping", "sessions.get", "terminals.close", "sessions.Ack", "ack", "event", "rpc.cancel", "x" * 10_000)


def say(method: str, params: Any) -> bytes:
    """A notification."""
    return text({"jsonrpc": "2.0", "method": method, "params": params})


class PassedOverTests(SynchronousTestCase):
    """In front of a front that keeps what reaches it."""

    def setUp(self) -> None:
        self.memory = Memory()
        self.peer = self.memory.open()
        self.peer.messages()

    def still_there(self, peer: Peer) -> None:
        """Nothing was answered, and the next request is."""
        self.memory.advance(1)
        self.assertEqual(peer.frames(), [])
        peer.send(call("ping", 7))
        self.assertEqual([message["id"] for message in peer.messages()], [7])

    def reached(self) -> list[object]:
        """What came through."""
        return [params for params, _ in self.memory.front.notifications]

    def test_those_that_are_known(self) -> None:
        self.peer.send(say("sessions.ack", {"sessionId": SESSION, "seq": 5}) + say("telemetry", TELEMETRY))
        ack, telemetry = self.reached()
        self.assertEqual(ack, Ack(session_id=SESSION, seq=5))
        assert isinstance(telemetry, Telemetry)
        self.assertEqual((telemetry.client.os, telemetry.events), ("linux", TELEMETRY["events"]))
        self.still_there(self.peer)

    def test_they_say_on_which_connection(self) -> None:
        other = self.memory.open()
        for peer in (self.peer, other):
            peer.send(say("sessions.ack", {"sessionId": SESSION, "seq": 5}))
        (_, first), (_, second) = self.memory.front.notifications
        self.assertIsNot(first, second)

    def test_bad_ones(self) -> None:
        for method, some in (("sessions.ack", BAD_ACKS), ("telemetry", BAD_TELEMETRY)):
            for params in some:
                self.peer.send(say(method, params))
                self.assertEqual(self.reached(), [], params)
        self.still_there(self.peer)

    def test_those_whose_params_are_no_object_or_none(self) -> None:
        for method in ("sessions.ack", "telemetry"):
            self.peer.send(text({"jsonrpc": "2.0", "method": method}))
            for params in NO_PARAMS:
                self.peer.send(say(method, params))
        self.assertEqual(self.reached(), [])
        self.still_there(self.peer)

    def test_unknown_ones_are_not_calls(self) -> None:
        for method in UNKNOWN:
            self.peer.send(say(method, {"sessionId": SESSION, "seq": 1}))
        self.assertEqual((self.reached(), self.memory.front.calls), ([], []))
        self.still_there(self.peer)

    def test_huge_ones(self) -> None:
        room = limits.MAX_MESSAGE_BYTES - 1000
        for method, params in (
            ("sessions.ack", {"sessionId": "x" * room, "seq": 1}),
            ("telemetry", {**TELEMETRY, "more": "x" * room}),
            ("x" * room, {}),
        ):
            self.peer.send(say(method, params))
            # more text than that in a second makes the server read on later
            self.memory.advance(1)
        self.assertEqual(self.reached(), [])
        self.still_there(self.peer)

    def test_a_large_one_that_is_good(self) -> None:
        events = [{"text": "x" * 40_000}] * 20
        self.peer.send(say("telemetry", {**TELEMETRY, "events": events}))
        (telemetry,) = self.reached()
        assert isinstance(telemetry, Telemetry)
        self.assertEqual(telemetry.events, events)
        self.still_there(self.peer)

    def test_one_that_comes_with_the_handshake(self) -> None:
        peer = self.memory.connect()
        peer.send(handshake(self.memory.issuer.mint().token) + say("sessions.ack", {"sessionId": SESSION, "seq": 5}))
        self.assertEqual([reply.status for reply in peer.replies()], [101])
        self.assertEqual([message["method"] for message in peer.messages()], ["ready"])
        self.assertEqual(self.reached(), [Ack(session_id=SESSION, seq=5)])
        self.still_there(peer)

    def test_one_that_comes_after_the_goodbye_counts_no_more(self) -> None:
        self.peer.send(frame((1000).to_bytes(2, "big"), 8) + say("sessions.ack", {"sessionId": SESSION, "seq": 5}))
        self.assertEqual(self.reached(), [])

    def test_each_costs_one_request(self) -> None:
        for _ in range(limits.MAX_REQUESTS_PER_SECOND + 10):
            self.peer.send(say("sessions.ack", {"sessionId": SESSION, "seq": 5}))
        self.assertEqual(len(self.reached()), limits.MAX_REQUESTS_PER_SECOND)
        self.still_there(self.peer)


class AckTests(RealFrontCase):
    """Through the daemon's own front door."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=THERE)
        self.peer = self.memory.open(self.token())
        self.peer.messages()

    def test_an_ack_counts_for_what_the_connection_follows(self) -> None:
        self.peer.send(say("sessions.ack", {"sessionId": THERE, "seq": 2}))
        self.assertEqual(self.attach(), [1, 2])
        (follower,) = self.sessions._feeds.by_session[THERE]._subscribers
        self.assertEqual(follower.acked, 0)  # type: ignore[attr-defined]  # it is a Follower
        for seq in (1, 3, 2**53 - 1, 0):
            self.peer.send(say("sessions.ack", {"sessionId": THERE, "seq": seq}))
            self.assertEqual(follower.acked, 1)  # type: ignore[attr-defined]
        self.peer.send(say("sessions.ack", {"sessionId": ABSENT, "seq": 2}))
        self.assertEqual(follower.acked, 1)  # type: ignore[attr-defined]
        self.assertEqual(self.peer.frames(), [])

    def attach(self) -> list[int]:
        """Follows the session: the numbers of the events that come, after the answer."""
        self.peer.send(call("sessions.attach", 1, sessionId=THERE, after=0))
        self.clock.advance(0)
        answer, *events = self.peer.messages()
        self.assertEqual(answer["id"], 1, json.dumps(answer))
        return [event["params"]["seq"] for event in events]
