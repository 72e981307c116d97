"""The daemon's own front door behind its own HTTP and WebSocket, all of it in memory: fake are the journal, the processes and the time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from computerd.contract.access import Scope
from tests.api.access_table import RANKS, SCOPES
from tests.api.test_dispatch import ApiCase
from tests.net.clients import Memory, Peer, Reply, call, request


class RealFrontCase(ApiCase):
    """A site with the real `Api`."""

    def setUp(self) -> None:
        super().setUp()
        self.memory = Memory(clock=self.clock, front=self.api)  # type: ignore[arg-type]  # any front will do
        self._tokens: dict[tuple[str, frozenset[str]], str] = {}

    def token(self, rank: str = "owner", scopes: Iterable[str] = SCOPES) -> str:
        """The credential of a caller."""
        key = rank, frozenset(scopes)
        if key not in self._tokens:
            member, admin = RANKS[rank]
            self._tokens[key] = self.memory.issuer.mint(member, scopes=map(Scope, scopes), admin=admin).token
        return self._tokens[key]

    def http(self, peer: Peer, verb: str, path: str, body: object = None, token: str | None = None) -> Reply:
        """One request on a connection that is kept, and its answer."""
        data = b"" if body is None else json.dumps(body).encode()
        lines = () if body is None else ("Content-Type: application/json", f"Content-Length: {len(data)}")
        peer.send(request(verb, path, *lines, token=token) + data)
        # as much as a member's share of the time asks for
        self.clock.advance(0.003)
        replies = peer.replies()
        self.assertEqual(len(replies), 1, (verb, path, replies))
        return replies[0]

    def archive(self, peer: Peer, target: str, body: bytes, token: str, *lines: str) -> Reply:
        """One upload, and its answer."""
        head = ("Content-Type: application/x-tar", f"Content-Length: {len(body)}", *lines)
        peer.send(request("PUT", target, *head, token=token) + body)
        self.clock.advance(0)
        replies = peer.replies()
        self.assertEqual(len(replies), 1, (target, replies))
        return replies[0]

    def answer(self, peer: Peer, method: str, params: dict[str, Any], number: int = 1) -> dict[str, Any]:
        """The answer to one call."""
        peer.send(call(method, number, **params))
        self.clock.advance(0)
        found = [message for message in peer.messages() if message.get("id") == number]
        self.assertEqual(len(found), 1, (method, params))
        return found[0]
