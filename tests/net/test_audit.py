"""What the network edge tells the audit trail: who comes and goes, and who may not come (G4)."""

from __future__ import annotations

import json
import os
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.api.audit import Entry
from computerd.api.trail import Trail
from computerd.net.attempts import MAX_SOURCES, Attempts
from computerd.net.local import LocalSocket
from computerd.net.signer import Signer
from tests.api.test_audit import RecordingAudit
from tests.net.clients import Memory, frame, handshake, request
from tests.net.fakes import NOW, Issuer

FAR = "192.0.2.7"


class AttemptsTests(SynchronousTestCase):
    """`Attempts`."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.audit = RecordingAudit()
        self.attempts = Attempts(Trail(self.audit, lambda: NOW), self.clock.seconds)

    def wait(self, seconds: int) -> list[tuple[str | None, str, int]]:
        """What is told in that time."""
        for _ in range(seconds):
            self.clock.advance(1)
            self.attempts.tell()
        return self.told()

    def told(self) -> list[tuple[str | None, str, int]]:
        """What was told since the last time."""
        rows = [(row.subject, row.result, row.count) for row in self.audit.rows]
        self.audit.rows.clear()
        return rows

    def test_the_first_is_told_at_once_and_the_others_in_a_sum(self) -> None:
        """G4."""
        for _ in range(1000):
            self.attempts.failed(FAR, "forged")
        self.assertEqual(self.audit.rows, [Entry(NOW, "credential.refused", "forged", subject=FAR)])
        self.assertEqual(self.told(), [(FAR, "forged", 1)])
        self.assertEqual(self.wait(59), [])
        self.assertEqual(self.wait(1), [(FAR, "forged", 999)])

    def test_one_row_a_minute_while_it_lasts(self) -> None:
        told = []
        for _ in range(600):
            self.attempts.failed(FAR, "forged")
            told += self.wait(1)
        self.assertLessEqual(len(told), 11)
        told += self.wait(60)
        self.assertEqual(sum(count for _, _, count in told), 600)

    def test_who_comes_once_is_forgotten_without_another_row(self) -> None:
        self.attempts.failed(FAR, "missing")
        self.assertEqual(self.wait(61), [(FAR, "missing", 1)])
        self.assertEqual(len(self.attempts), 0)
        self.attempts.failed(FAR, "missing")
        self.assertEqual(self.told(), [(FAR, "missing", 1)])

    def test_sources_and_reasons_apart(self) -> None:
        for source, why in ((FAR, "forged"), (FAR, "missing"), (None, "forged"), ("192.0.2.8", "forged")):
            self.attempts.failed(source, why)
        self.assertEqual(
            self.told(),
            [(FAR, "forged", 1), (FAR, "missing", 1), ("local", "forged", 1), ("192.0.2.8", "forged", 1)],
        )

    def test_more_sources_than_are_kept_apart_share_a_row(self) -> None:
        """G4, G5: a botnet fills neither memory nor disk."""
        for number in range(100_000):
            self.attempts.failed(f"source {number}", "forged")
        self.assertEqual(len(self.attempts), MAX_SOURCES + 1)
        told = self.told()
        self.assertEqual(len(told), MAX_SOURCES + 1)
        self.assertEqual(told[-1], ("others", "others", 1))
        self.assertEqual(self.wait(60), [("others", "others", 100_000 - MAX_SOURCES - 1)])

    def test_the_end(self) -> None:
        for _ in range(3):
            self.attempts.failed(FAR, "forged")
        self.attempts.tell(all_of_them=True)
        self.assertEqual(self.told(), [(FAR, "forged", 1), (FAR, "forged", 2)])
        self.assertEqual(len(self.attempts), 0)


class SiteTests(SynchronousTestCase):
    """Requests and connections."""

    def setUp(self) -> None:
        self.memory = Memory()
        self.audit = RecordingAudit()
        trail = Trail(self.audit, self.memory.issuer.wall)
        self.memory.site.attempts = Attempts(trail, self.memory.clock.seconds)  # type: ignore[misc]  # Final
        self.memory.site.sockets.trail = trail

    def told(self) -> list[tuple[str, str, str | None, str | None]]:
        """What was told since the last time."""
        rows = [(row.action, row.result, row.member, row.subject) for row in self.audit.rows]
        self.audit.rows.clear()
        return rows

    def test_why_a_credential_was_refused(self) -> None:
        """G4, G1: and not the credential."""
        minted = self.memory.issuer.mint()
        self.memory.issuer.revocations.revoke(minted.token_id)
        for token, why in ((None, "missing"), ("CANARY.x.y", "forged"), (minted.token, "no_longer")):
            for data in (request("GET", "/sessions", token=token), handshake(token)):
                peer = self.memory.connect(peer=FAR)
                peer.send(data)
                self.assertEqual([reply.status for reply in peer.replies()], [401])
            self.assertEqual(self.told(), [("credential.refused", why, None, FAR)])

    def test_an_address_that_is_slowed_down(self) -> None:
        for _ in range(10):
            peer = self.memory.connect(peer=FAR)
            peer.send(request("GET", "/sessions", token="x"))
        self.assertEqual([row[1] for row in self.told()], ["forged", "rate_limited"])

    def test_a_good_credential_over_http_is_no_row(self) -> None:
        peer = self.memory.connect()
        peer.send(request("GET", "/health"))
        peer.send(request("GET", "/sessions/x", token=self.memory.issuer.mint().token))
        self.assertEqual(self.told(), [])

    def test_a_connection(self) -> None:
        minted = self.memory.issuer.mint()
        peer = self.memory.open(minted.token)
        opened = self.audit.rows[0]
        (ready,) = peer.messages()
        self.assertEqual((opened.member, opened.token_id), ("alice", minted.token_id))
        place = f"{ready['params']['connectionId']} local"
        self.assertEqual(self.told(), [("connection.opened", "ok", "alice", place)])
        peer.send(frame(b"\x03\xe8", 8))
        self.assertEqual(self.told(), [("connection.closed", "ok", "alice", place)])

    def test_a_connection_that_breaks(self) -> None:
        peer = self.memory.open()
        peer.lose()
        self.assertEqual([row[:2] for row in self.told()], [("connection.opened", "ok"), ("connection.closed", "ok")])

    def test_a_credential_that_ends_ends_its_connection(self) -> None:
        """G4, C7."""
        minted = self.memory.issuer.mint()
        peer = self.memory.open(minted.token)
        self.memory.issuer.revocations.revoke(minted.token_id)
        self.memory.roster.check()
        self.assertEqual(peer.close_code(), 4001)
        self.assertEqual([row[:3] for row in self.told()][1:], [("connection.closed", "4001", "alice")])

    def test_one_that_is_never_open_is_no_row(self) -> None:
        peer = self.memory.connect()
        peer.send(handshake(self.memory.issuer.mint().token, protocol=None))
        peer.replies()
        self.assertEqual(peer.close_code(), 4400)
        self.assertEqual(self.told(), [])


class LocalTests(SynchronousTestCase):
    """The credential that the local socket hands out."""

    def setUp(self) -> None:
        self.clock = Clock()
        issuer = Issuer(self.clock.seconds)
        self.audit = RecordingAudit()
        trail = Trail(self.audit, issuer.wall)
        signer = Signer.ephemeral("local", os.urandom)
        issuer.credentials.own["local"] = signer.key.public_key()
        self.local = LocalSocket(Path("x"), signer, issuer.credentials, {0: "root"}, issuer.wall, os.urandom, trail)
        self.local.attempts = Attempts(trail, self.clock.seconds)

    def test_who_got_one(self) -> None:
        """G4, G1."""
        token = json.loads(self.local.answer(0))["token"]
        (row,) = self.audit.rows
        self.assertEqual((row.action, row.member, row.subject), ("token.created", "root", "local socket, uid 0"))
        self.assertTrue(row.token_id)
        self.assertNotIn(token.rpartition(".")[2], repr(row))

    def test_who_got_none(self) -> None:
        for _ in range(1000):
            self.local.answer(1001)
        self.assertEqual(self.audit.rows, [Entry(NOW, "credential.refused", "forbidden", subject="uid 1001")])
