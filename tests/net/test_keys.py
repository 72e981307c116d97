from __future__ import annotations

import os
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from computerd.net import keys
from computerd.net.keyring import KeyRing, own_pair, pem_file, pem_text
from computerd.net.keys import KeyProblem, NoKeyYet, load_private, load_public, make_pair, parse_public, thumbprint


class Folder(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()) / "state" / "keys"

    def make(self) -> bool:
        return make_pair(self.folder, os.urandom)


class MakingTests(Folder):
    def test_a_new_pair_is_private_and_belongs_together(self) -> None:
        self.assertTrue(self.make())
        private, public = self.folder / keys.PRIVATE, self.folder / keys.PUBLIC
        self.assertEqual(stat.S_IMODE(private.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.folder.stat().st_mode), 0o700)
        self.assertEqual([thumbprint(load_private(private).public_key())], list(map(thumbprint, load_public(public))))
        self.assertEqual(sorted(os.listdir(self.folder)), [keys.PRIVATE, keys.PUBLIC])

    def test_a_pair_that_is_there_stays(self) -> None:
        self.make()
        before = (self.folder / keys.PRIVATE).read_bytes()
        self.assertFalse(self.make())
        self.assertEqual((self.folder / keys.PRIVATE).read_bytes(), before)

    def test_the_public_half_is_made_again(self) -> None:
        self.make()
        before = (self.folder / keys.PUBLIC).read_bytes()
        (self.folder / keys.PUBLIC).unlink()
        self.assertFalse(self.make())
        self.assertEqual((self.folder / keys.PUBLIC).read_bytes(), before)

    def test_the_umask_does_not_matter(self) -> None:
        before = os.umask(0)
        try:
            self.make()
        finally:
            os.umask(before)
        self.assertEqual(stat.S_IMODE((self.folder / keys.PRIVATE).stat().st_mode), 0o600)

    def test_a_folder_that_others_can_write_is_refused(self) -> None:
        self.make()
        self.folder.chmod(0o777)
        problem = self.assertRaises(KeyProblem, self.make)
        self.assertEqual(problem.path, self.folder)


class RefusingTests(Folder):
    def setUp(self) -> None:
        super().setUp()
        self.make()
        self.private = self.folder / keys.PRIVATE

    def test_readable_by_others(self) -> None:
        for mode in (0o640, 0o604, 0o620, 0o602):
            self.private.chmod(mode)
            problem = self.assertRaises(KeyProblem, load_private, self.private)
            self.assertIn("chmod 600", str(problem))
            self.assertIn(str(self.private), str(problem))

    def test_of_somebody_else(self) -> None:
        if os.geteuid():
            return
        os.chown(self.private, 12345, -1)
        self.assertIn("12345", str(self.assertRaises(KeyProblem, load_private, self.private)))

    def test_missing(self) -> None:
        self.assertRaises(NoKeyYet, load_private, self.folder / "nothing")
        self.assertRaises(NoKeyYet, load_public, self.folder / "nothing")

    def test_not_a_key(self) -> None:
        self.private.write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
        self.assertRaises(KeyProblem, load_private, self.private)
        for junk in (b"", b"\x00" * 100, b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"):
            self.assertRaises(KeyProblem, parse_public, junk)

    def test_a_fifo_does_not_hang(self) -> None:
        os.mkfifo(self.folder / "fifo", 0o600)
        self.assertIn("regular", str(self.assertRaises(KeyProblem, load_private, self.folder / "fifo")))

    def test_another_kind_of_key(self) -> None:
        other = rsa.generate_private_key(65537, 2048)
        pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self.private.write_bytes(pem)
        self.assertIn("Ed25519", str(self.assertRaises(KeyProblem, load_private, self.private)))
        public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.assertIn("Ed25519", str(self.assertRaises(KeyProblem, parse_public, public)))

    def test_a_verification_key_that_others_can_write(self) -> None:
        (self.folder / keys.PUBLIC).chmod(0o666)
        self.assertRaises(KeyProblem, load_public, self.folder / keys.PUBLIC)


class ThumbprintTests(SynchronousTestCase):
    def test_the_example_of_rfc_8037(self) -> None:
        pem = (
            b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
            b"-----END PUBLIC KEY-----\n"
        )
        self.assertEqual(thumbprint(parse_public(pem)[0]), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k")


class RingTests(Folder):
    def setUp(self) -> None:
        super().setUp()
        self.make()
        self.clock = Clock()
        self.public = self.folder / keys.PUBLIC
        self.kid = thumbprint(load_public(self.public)[0])

    def test_own_pair(self) -> None:
        ring = KeyRing(own_pair(self.folder), self.clock.seconds)
        ring.open()
        self.assertEqual(ring.names(), [self.kid])
        self.assertIsNotNone(ring.get(self.kid))
        self.assertIsNone(ring.get("other"))

    def test_an_awaited_key_is_looked_for_every_two_seconds_and_no_more(self) -> None:
        awaited = self.folder / "awaited.pem"
        ring = KeyRing(pem_file(awaited), self.clock.seconds)
        ring.open()
        self.assertFalse(ring.ready)
        awaited.write_bytes(self.public.read_bytes())
        awaited.chmod(0o644)
        self.clock.advance(1.9)
        self.assertFalse(ring.ready)
        self.clock.advance(0.1)
        self.assertTrue(ring.ready)
        self.assertIsNotNone(ring.get(self.kid))

    def test_an_unusable_key_stops_the_start(self) -> None:
        bad = self.folder / "bad.pem"
        bad.write_bytes(b"no key")
        self.assertRaises(KeyProblem, KeyRing(pem_file(bad), self.clock.seconds).open)

    def test_rotation(self) -> None:
        ring = KeyRing(pem_file(self.folder / "ring.pem"), self.clock.seconds)
        told: list[int] = []
        ring.watch(lambda: told.append(len(ring.names())))
        other = self.folder.parent / "other"
        make_pair(other, os.urandom)
        one, two = self.public.read_bytes(), (other / keys.PUBLIC).read_bytes()
        for pem in (one, one + two, two, two):
            (self.folder / "ring.pem").write_bytes(pem)
            (self.folder / "ring.pem").chmod(0o644)
            ring.reload()
        self.assertEqual(told, [1, 2, 1])
        self.assertIsNone(ring.get(self.kid))

    def test_a_failed_reload_keeps_the_keys(self) -> None:
        ring = KeyRing(pem_file(self.public), self.clock.seconds)
        ring.open()
        self.public.write_bytes(b"torn")
        self.assertRaises(KeyProblem, ring.reload)
        self.assertEqual(ring.names(), [self.kid])

    def test_text(self) -> None:
        ring = KeyRing(pem_text(self.public.read_text()), self.clock.seconds)
        ring.open()
        self.assertEqual(ring.names(), [self.kid])
