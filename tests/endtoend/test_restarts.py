"""Restarts under load, a journal that is damaged, a disk that is full or does not answer (S2 to S5, L2, L8 of the threat model)."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define

from tests.endtoend.client import Client, RefusedError, http
from tests.endtoend.computer import Computer, eventually
from tests.endtoend.load import Ledger, catch_up, crew
from tests.endtoend.test_kills import percentile
from tests.endtoend.test_life import LifeCase

RESTARTS = int(os.environ.get("COMPUTERD_RESTARTS", "5"))
RESTARTING = 1012
STALL_SECONDS = 5.0
ECHO_SECONDS = 0.1
"""For an echo, at the 99th percentile, whatever the disk does."""


class RestartTests(LifeCase):
    """SIGTERM, with clients that come back."""

    timeout = 1800

    def test_under_load(self) -> None:
        """L2, L8, S2: everybody hears 1012, and gets everything afterwards."""
        if self.agent is None:
            self.skipTest("needs root: its programs outlive it, and have to be told from others")
        computer = self.computer()
        ledger = Ledger.of(computer, 3)
        chance = random.Random(50)
        ended, ready = [], []
        for _ in range(RESTARTS):
            actors = crew(computer, ledger, chance)
            time.sleep(chance.uniform(0.02, 0.4))  # where it is then is what the test is about
            began = time.monotonic()
            self.assertIn(computer.stop(), (0, -signal.SIGTERM))
            ended.append(time.monotonic() - began)
            for actor in actors:
                actor.join(20)
                self.assertFalse(actor.is_alive(), actor)
            computer.start()
            ready.append(computer.ready)
        catch_up(computer, ledger)
        counts = ledger.check(computer)
        print(
            f"\n{RESTARTS} restarts: {counts['events']} events, {counts['acknowledged']} acknowledged calls: 0 lost, 0 gaps, 0 twice; "
            f"ended after p50 {percentile(ended, 50):.2f} s, max {max(ended):.2f} s; "
            f"ready after p50 {percentile(ready, 50):.2f} s, p99 {percentile(ready, 99):.2f} s"
        )
        # pollers and whoever was about to connect apart: four connections a round, the repeater's only if it was still there
        self.assertGreaterEqual(ledger.goodbyes[RESTARTING], 4 * RESTARTS)
        self.assertFalse({1006} & set(ledger.goodbyes), ledger.goodbyes)
        self.assertLess(max(ended), 10)


class DamageTests(LifeCase):
    """The journal's file is not what it was."""

    def setUp(self) -> None:
        super().setUp()
        self.daemon = self.computer()
        self.sessions = [self.daemon.session() for _ in range(3)]
        with self.daemon.client() as client:
            for number in range(60):
                client.ask("sessions.update", sessionId=self.sessions[number % 3], title=f"{number} " + 150 * "x")
            for session in self.sessions:
                client.ask("sessions.update", sessionId=session, title="the last one")
        self.before = {session: self.daemon.get(session) for session in self.sessions}
        self.epoch = self.before[self.sessions[0]]["logEpoch"]

    @property
    def file(self) -> Path:
        """The journal."""
        return self.daemon.folder / "state" / "journal.db"

    def aside(self) -> list[Path]:
        """The damaged files that are kept."""
        return [
            path for path in self.file.parent.glob("journal.db.damaged-*") if not path.name.endswith(("-wal", "-shm"))
        ]

    def ended(self) -> None:
        """The daemon stops; the log is in the file."""
        self.assertIn(self.daemon.stop(), (0, -signal.SIGTERM))

    def works(self) -> None:
        """New sessions, old ones, terminals, events: as ever."""
        with self.daemon.client() as client:
            for session in [self.daemon.session(), *self.sessions]:
                attached = client.attach(session)
                self.assertNotEqual(attached["logEpoch"], self.epoch)
                last = attached["session"]["lastSeq"]
                seq = client.ask("sessions.update", sessionId=session, title="after")["seq"]
                self.assertEqual(client.reach(session, seq)[0]["seq"], last + 1)
                self.assertEqual(client.run(session, "exit 5")[1], 5)

    def all_there(self) -> None:
        """Every session, in another epoch; no number is given out twice."""
        for session, before in self.before.items():
            now = self.daemon.get(session)
            self.assertNotEqual(now["logEpoch"], self.epoch)
            self.assertGreaterEqual(now["lastSeq"], before["lastSeq"])
            self.assertGreater(now["epochStartSeq"], before["lastSeq"])
            self.assertEqual((now["title"], now["owner"]), (before["title"], before["owner"]))

    def test_garbage_between_two_runs(self) -> None:
        """S4: where the header was. It starts; the file is kept aside; nobody whose access was taken away has it back."""
        self.ended()
        size = self.file.stat().st_size
        with open(self.file, "r+b") as file:
            file.write(os.urandom(4096))
        self.daemon.start()
        (aside,) = self.aside()
        self.assertEqual(aside.stat().st_size, size)
        self.assertIn("damaged", self.daemon.log)
        old = self.daemon.token()
        self.assertEqual(http(self.daemon.base + "/sessions", token=old).status, 401)
        self.daemon._tokens.clear()
        # a second passes before a credential is newer than the revocation of all
        eventually(self.admitted, "a new credential is good")
        for session in self.sessions:
            self.assertEqual(http(f"{self.daemon.base}/sessions/{session}", token=self.daemon.token()).status, 404)
        self.sessions = []
        self.works()

    def admitted(self) -> bool:
        """Whether a credential that is made now is good."""
        self.daemon._tokens.clear()
        return http(self.daemon.base + "/sessions", token=self.daemon.token()).status == 200

    def test_a_lost_log_and_a_restored_copy(self) -> None:
        """S4: events that clients have seen are gone: it is another epoch each time, and the daemon starts as ever."""
        epochs = {self.epoch}
        self.daemon.stop(signal.SIGKILL)
        Path(f"{self.file}-wal").unlink()
        Path(f"{self.file}-shm").unlink()
        self.daemon.start()
        self.sessions = [self.daemon.session()]  # the others were in the log
        epochs.add(self.daemon.get(self.sessions[0])["logEpoch"])
        self.ended()
        copy = self.file.read_bytes()
        self.daemon.start()
        epochs.add(self.daemon.get(self.sessions[0])["logEpoch"])
        self.assertEqual(len(epochs), 2)
        self.works()
        self.ended()
        self.file.write_bytes(copy)
        self.daemon.start()
        epochs.add(self.daemon.get(self.sessions[0])["logEpoch"])
        self.assertEqual(len(epochs), 3)
        self.works()

    def test_flipped_bytes_between_two_runs(self) -> None:
        """S4: in a page of events, found at the start or when they are asked for."""
        self.ended()
        self.flip()
        self.daemon.start()
        for session in self.sessions:
            http(f"{self.daemon.base}/sessions/{session}/events?limit=500", token=self.daemon.token())
        eventually(lambda: self.daemon.get(self.sessions[0])["logEpoch"] != self.epoch, "there is another epoch")
        self.all_there()
        self.works()

    def flip(self) -> None:
        """Changes a text in the middle of many pages, as a disk does."""
        data = bytearray(self.file.read_bytes())
        flipped = 0
        at = 0
        while (at := data.find(150 * b"x", at)) >= 0:
            data[at : at + 8] = bytes(value ^ 0x55 for value in data[at : at + 8])
            flipped += 1
            at += 150
        self.assertGreater(flipped, 50)
        # in place: another inode would be another sign
        with open(self.file, "r+b") as file:
            file.write(data)

    @contextmanager
    def followed(self) -> Iterator[Client]:
        """A client that follows all and has an open terminal, and is told of the new epoch."""
        with self.daemon.client() as client:
            shell = client.open(self.sessions[0], "stty raw -echo; echo go; cat")
            shell.expect(b"go")
            for session in self.sessions:
                client.attach(session)
            yield client
            client.until(lambda: len(client.notices("session.detached")) == len(self.sessions))
            for notice in client.notices("session.detached"):
                self.assertEqual(notice["reason"], "epoch_changed")
                self.assertNotEqual(notice["logEpoch"], self.epoch)
                session = notice["sessionId"]
                self.assertGreater(notice["epochStartSeq"], self.before[session]["lastSeq"])
                attached = client.attach(session)
                self.assertEqual(attached["logEpoch"], notice["logEpoch"])
            shell.type(b"alive")
            shell.expect(b"alive")
            self.assertTrue(self.daemon.running)

    @property
    def pid(self) -> int:
        """Of the daemon that was started."""
        self.assertTrue(self.daemon.running)
        return self.daemon.pid

    def test_deleted_while_it_runs(self) -> None:
        """S4: what it still has open is brought over; followers are told; the daemon stays up."""
        with self.followed():
            self.file.unlink()
        self.assertTrue(self.file.exists())
        self.all_there()
        self.works()
        self.again()

    def test_garbage_while_it_runs(self) -> None:
        """S4: the daemon stays up. What it can't read is lost, and who was admitted has to come with a new credential."""
        pid = self.pid
        client = self.daemon.client()
        self.addCleanup(client.socket.close)
        for session in self.sessions:
            client.attach(session)
        other = sqlite3.connect(self.file, isolation_level=None)
        self.addCleanup(other.close)
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE meta SET value = value")
        with open(self.file, "r+b") as file:
            file.write(os.urandom(self.file.stat().st_size))
        # whereupon the daemon looks at the file again, and not at what it remembers
        other.execute("COMMIT")
        self.assertEqual(client.closed()[0], 4001)
        notices = client.notices("session.detached")
        self.assertEqual([notice["reason"] for notice in notices], ["epoch_changed"] * 3)
        self.assertNotIn(self.epoch, [notice["logEpoch"] for notice in notices])
        self.assertEqual(len(self.aside()), 1)
        eventually(self.admitted, "a new credential is good")
        self.assertEqual(self.pid, pid)
        self.sessions = [self.daemon.session()]
        self.works()
        self.again()

    def test_flipped_bytes_while_it_runs(self) -> None:
        """S4: in rows that are asked for."""
        with sqlite3.connect(self.file) as journal:
            journal.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        journal.close()
        with self.followed() as client:
            self.flip()
            # the daemon's own cache has some of them
            eventually(lambda: self.prod(client), "it finds out")
        self.works()
        self.again()

    def prod(self, client: Client) -> bool:
        """Reads and writes something of each session. Whether the epoch is another one."""
        for session in self.sessions:
            http(f"{self.daemon.base}/sessions/{session}/events?limit=500", token=self.daemon.token())
            try:
                client.ask("sessions.update", sessionId=session, title=f"prod {time.monotonic()}")
            except RefusedError as error:
                self.assertEqual(error.slug, "unavailable")
        return bool(client.notices("session.detached"))

    def again(self) -> None:
        """The next start finds a good journal, of the same epoch."""
        epoch = self.daemon.get(self.sessions[0])["logEpoch"]
        last = self.daemon.get(self.sessions[0])["lastSeq"]
        self.ended()
        self.daemon.start()
        now = self.daemon.get(self.sessions[0])
        self.assertEqual((now["logEpoch"], now["lastSeq"]), (epoch, last))


@define(eq=False)
class SmallDisk(Computer):
    """Its state is on a file system of a few MiB."""

    def start(self) -> None:
        """See `Computer`."""
        state = self.folder / "state"
        if not state.exists():
            state.mkdir(mode=0o700)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", state], check=True)
        Computer.start(self)

    def fill(self) -> None:
        """Leaves no byte."""
        with open(self.folder / "state" / "filler", "ab", buffering=0) as file:
            for size in (1 << 16, 4096, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        """Gives all back."""
        (self.folder / "state" / "filler").unlink()

    def remove(self) -> None:
        """See `Computer`."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        subprocess.run(["umount", "-l", self.folder / "state"], check=False, capture_output=True)
        Computer.remove(self)


class DiskTests(LifeCase):
    """A disk that takes nothing."""

    timeout = 120

    def test_full(self) -> None:
        """S3: terminals go on, reading goes on, work is refused and taken again on the same connection; nothing is lost or given twice."""
        if self.agent is None:
            self.skipTest("needs root: it mounts a small file system")
        computer = SmallDisk(agent=self.agent)
        self.addCleanup(computer.remove)
        try:
            computer.start()
        except subprocess.CalledProcessError:
            self.skipTest("no file system can be mounted here")
        session = computer.session()
        client = computer.client()
        self.addCleanup(client.socket.close)
        shell = client.open(session, "stty raw -echo; echo go; cat")
        shell.expect(b"go")
        ends = client.open(session, "read x; exit 9", tty=False)
        client.attach(session, after=0)
        computer.fill()
        refused = self.refused(client, session)
        self.assertEqual((refused.slug, refused.data["status"], refused.data["retryable"]), ("unavailable", 503, True))
        self.assertGreater(refused.data["retryAfterMs"], 0)
        url, token = f"{computer.base}/sessions/{session}", computer.token()
        reply = http(url, "PATCH", token=token, body={"title": "no" * 90})
        self.assertEqual((reply.status, reply.code), (503, "unavailable"))
        self.assertIn("Retry-After", reply.headers)
        with self.assertRaises(RefusedError) as caught:
            client.open(session, "true")
        self.assertEqual(caught.exception.slug, "unavailable")
        self.assertEqual(computer.get(session)["id"], session)
        self.assertLess(percentile(self.echoes(client, shell, 100), 99), ECHO_SECONDS)
        # what has ended can't be refused: it is written when there is room
        ends.eof()
        self.assertEqual(ends.wait()[0], 9)
        computer.free()
        eventually(lambda: self.taken(client, session), "it takes new work again")
        self.assertEqual(client.run(session, "exit 3")[1], 3)
        shell.close()
        shell.wait()

        def closed() -> bool:
            types = [event["type"] for event in computer.journal(session)]
            return types.count("terminal.opened") == types.count("terminal.closed") == 3

        eventually(closed, "all three are closed in the journal")
        journal = computer.journal(session)
        self.assertEqual(client.reach(session, journal[-1]["seq"]), journal)
        self.assertEqual([event["seq"] for event in journal], list(range(1, len(journal) + 1)))

    def refused(self, client: Client, session: str) -> RefusedError:
        """Updates until one is refused."""
        for number in range(90):
            try:
                client.ask("sessions.update", sessionId=session, title=f"{number} " + 190 * "x")
            except RefusedError as error:
                return error
        raise AssertionError("the disk is never full")

    def taken(self, client: Client, session: str) -> bool:
        """Whether an update is taken."""
        try:
            client.ask("sessions.update", sessionId=session, title=f"now {time.monotonic()}")
        except RefusedError as error:
            self.assertIn(error.slug, ("unavailable", "rate_limited"))
            return False
        return True

    def echoes(self, client: Client, shell: Any, count: int) -> list[float]:
        """Keystrokes, and how long each took to come back."""
        seconds = []
        for number in range(count):
            key = f"<{number}>".encode()
            began = time.monotonic()
            shell.type(key)
            shell.expect(key)
            seconds.append(time.monotonic() - began)
        return seconds

    def test_stalled(self) -> None:
        """S5: the file is locked for longer than anybody waits: no echo is late, work waits 5 s and is refused then, at once the next time."""
        computer = self.computer()
        session = computer.session()
        client, other = computer.client(), computer.client()
        self.addCleanup(client.socket.close)
        self.addCleanup(other.socket.close)
        shell = client.open(session, "stty raw -echo; echo go; cat")
        shell.expect(b"go")
        client.attach(session)
        lock = sqlite3.connect(computer.folder / "state" / "journal.db", isolation_level=None)
        self.addCleanup(lock.close)
        lock.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        number = other.send("sessions.update", sessionId=session, title="waits", idempotencyKey="once")
        echoes: list[float] = []
        while time.monotonic() < began + STALL_SECONDS + 0.5:
            echoes += self.echoes(client, shell, 10)
            time.sleep(0.02)
        self.assertLess(percentile(echoes, 99), ECHO_SECONDS)
        with self.assertRaises(RefusedError) as caught:
            other.answer(number)
        self.assertEqual((caught.exception.slug, caught.exception.data["status"]), ("unavailable", 503))
        again = time.monotonic()
        with self.assertRaises(RefusedError) as caught:
            other.ask("sessions.update", sessionId=session, title="refused")
        self.assertEqual(caught.exception.slug, "unavailable")
        self.assertLess(time.monotonic() - again, 1)
        shell.close()
        lock.execute("ROLLBACK")
        eventually(lambda: self.taken(other, session), "it takes new work again")
        # whatever became of it, it is done once
        done = other.ask("sessions.update", sessionId=session, title="waits", idempotencyKey="once")
        client.reach(session, done["seq"])
        titles = [
            event["data"]["changes"]["title"]["to"]
            for event in computer.journal(session)
            if event["type"] == "session.updated"
        ]
        self.assertEqual(titles.count("waits"), 1)
        self.assertNotIn("refused", titles)
        self.assertEqual(shell.wait()[1], "SIGHUP")
