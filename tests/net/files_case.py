"""A session with files, over HTTP by the daemon's own front door, on connections in memory."""

from __future__ import annotations

from typing import Any

from tests.api.access_table import THERE
from tests.net.clients import Peer, Reply, request
from tests.net.real_front import RealFrontCase
from tests.session.journal_interface import ALICE

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
