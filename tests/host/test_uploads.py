"""Bytes into the workspace, in memory: windows, deadlines, ends."""

from __future__ import annotations

from attrs import Factory, define
from twisted.internet.defer import CancelledError

from computerd.contract.errors import ApiError, Code
from computerd.host.uploads import ArchiveUpload
from computerd.host.worker.frames import WINDOW
from tests.host.worker_bench import LANDED, PLACE, BenchCase

PIECE = b"x" * 65536


@define(eq=False)
class Giver:
    """Gives as the port says."""

    upload: ArchiveUpload
    rooms: int = 0
    failures: int = 0
    sent: list[int] = Factory(list)

    def __attrs_post_init__(self) -> None:
        self.upload.begin(self._room, self._failed)

    def _room(self) -> None:
        self.rooms += 1

    def _failed(self) -> None:
        self.failures += 1


def more(size: int) -> bytes:
    return size.to_bytes(4, "big")


class UploadTests(BenchCase):
    def begin(self) -> tuple[int, Giver]:
        number, upload = self.ready()
        return number, Giver(upload)

    def test_it_lands(self) -> None:
        number, giver = self.begin()
        self.assertTrue(giver.upload.write(b"abc"))
        done = giver.upload.finish()
        self.assertEqual([(number, b"D", b"abc"), (number, b"E", b"")], self.end.heard())
        self.assertNoResult(done)
        self.end.say(number, b"E", LANDED)
        landed = self.successResultOf(done)
        self.assertEqual(("a", 1, 2, False), (landed.path, landed.files, landed.bytes, landed.replaced))

    def test_refused_before_the_body(self) -> None:
        asked = self.files.unpack(PLACE, "a", replace=False, coding="gzip")
        self.end.say(1, b"F", {"code": "path_exists", "message": "it is there"})
        self.assertEqual(Code.PATH_EXISTS, self.refused(asked).code)

    def test_no_more_than_the_window(self) -> None:
        number, giver = self.begin()
        for _ in range(4):
            self.assertTrue(giver.upload.write(PIECE))
        self.assertFalse(giver.upload.write(PIECE))
        self.assertEqual([65536] * 4, [len(payload) for _, kind, payload in self.end.heard() if kind == b"D"])
        self.end.say(number, b"W", more(1000))
        self.assertEqual((0, [1000]), (giver.rooms, [len(payload) for _, _, payload in self.end.heard()]))
        self.end.say(number, b"W", more(65536))
        self.assertEqual((1, [64536]), (giver.rooms, [len(payload) for _, _, payload in self.end.heard()]))
        self.assertTrue(giver.upload.write(b"a" * 1000))

    def test_the_end_comes_after_what_waits(self) -> None:
        number, giver = self.begin()
        for _ in range(5):
            giver.upload.write(PIECE)
        done = giver.upload.finish()
        self.assertNotIn((number, b"E", b""), self.end.heard())
        self.end.say(number, b"W", more(65536))
        self.assertEqual([b"D", b"E"], [kind for _, kind, _ in self.end.heard()])
        self.end.say(number, b"E", LANDED)
        self.successResultOf(done)

    def test_a_failure_stops_the_rest(self) -> None:
        number, giver = self.begin()
        giver.upload.write(b"abc")
        self.end.say(number, b"F", {"code": "invalid_archive", "message": "it is none"})
        self.assertEqual(1, giver.failures)
        self.end.heard()
        self.assertTrue(giver.upload.write(PIECE))
        self.assertEqual([], self.end.heard())
        self.assertEqual(Code.INVALID_ARCHIVE, self.refused(giver.upload.finish()).code)
        giver.upload.abort()
        self.assertEqual([], self.end.heard())

    def test_a_failure_before_anybody_has_begun(self) -> None:
        number, upload = self.ready()
        self.end.say(number, b"F", {"code": "too_large", "message": "it is"})
        self.assertEqual(1, Giver(upload).failures)

    def test_aborted(self) -> None:
        number, giver = self.begin()
        for _ in range(5):
            giver.upload.write(PIECE)
        self.end.heard()
        giver.upload.abort()
        giver.upload.abort()
        self.assertEqual([(number, b"X", b"")], self.end.heard())
        self.end.say(number, b"W", more(65536))
        self.end.say(number, b"F", {"code": "unavailable", "message": "stopped"})
        self.assertEqual((0, 0, 0), (giver.rooms, giver.failures, self.end.killed))

    def test_the_caller_goes_before_it_is_ready(self) -> None:
        asked = self.files.unpack(PLACE, "a", replace=False, coding="identity")
        self.called()
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        self.assertEqual([(1, b"X", b"")], self.end.heard())

    def test_the_caller_goes_while_it_lands(self) -> None:
        number, giver = self.begin()
        done = giver.upload.finish()
        giver.upload.abort()
        self.assertEqual([(number, b"E", b"")], self.end.heard(), "all of it was given: it lands")
        done.cancel()
        self.failureResultOf(done, CancelledError)
        self.assertEqual([(number, b"X", b"")], self.end.heard())

    def test_a_worker_that_dies(self) -> None:
        _, giver = self.begin()
        self.end.exit()
        self.assertEqual(1, giver.failures)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(giver.upload.finish()).code)

    def test_a_worker_that_dies_while_it_lands(self) -> None:
        _, giver = self.begin()
        done = giver.upload.finish()
        self.end.exit()
        self.assertEqual((0, Code.COMPUTER_UNAVAILABLE), (giver.failures, self.refused(done).code))


class PatienceTests(BenchCase):
    def test_a_slow_caller_has_all_the_time_that_he_wants(self) -> None:
        _, upload = self.ready()
        giver = Giver(upload)
        self.bench.advance(1000)
        giver.upload.write(b"a")
        self.bench.advance(1000)
        self.assertEqual((0, 0), (giver.failures, self.end.killed))

    def test_a_worker_that_takes_nothing(self) -> None:
        number, upload = self.ready()
        giver = Giver(upload)
        for _ in range(5):
            upload.write(PIECE)
        self.bench.advance(29)
        self.end.say(number, b"W", more(1))
        self.bench.advance(29)
        self.assertEqual(0, giver.failures)
        self.bench.advance(2)
        self.assertEqual((1, 1), (giver.failures, self.end.killed))

    def test_a_landing_that_takes_too_long(self) -> None:
        _, upload = self.ready()
        done = upload.finish()
        self.bench.advance(29)
        self.assertNoResult(done)
        self.bench.advance(2)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(done).code)

    def test_a_landing_that_goes_on(self) -> None:
        """It is given time as long as the worker says so, and not for ever."""
        number, upload = self.ready()
        done = upload.finish()
        for _ in range(29):
            self.bench.advance(20)
            self.end.say(number, b"P")
            self.assertNoResult(done)
        self.bench.advance(19)
        self.end.say(number, b"P")
        self.assertNoResult(done)
        self.bench.advance(2)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(done).code)
        self.assertEqual(0, self.end.killed)

    def test_data_that_is_much_work(self) -> None:
        """A few bytes may stand for many files."""
        number, upload = self.ready()
        giver = Giver(upload)
        self.assertFalse(upload.write(b"x" * (WINDOW + 1)))
        for _ in range(10):
            self.bench.advance(20)
            self.end.say(number, b"P")
        self.assertEqual(0, giver.failures)
        self.bench.advance(31)
        self.assertEqual((1, 0), (giver.failures, self.end.killed))

    def test_a_worker_that_reads_nothing(self) -> None:
        """I10: what it doesn't read is kept, and it isn't much."""
        uploads = [self.ready()[1] for _ in range(8)]
        taken = 0
        for upload in uploads:
            Giver(upload)
            while upload.write(PIECE):
                taken += 65536
        self.assertLess(taken, 8 * WINDOW)
        (worker,) = self.workers._current.values()
        assert worker._link is not None
        self.assertLess(
            len(worker._link._queue) + sum(len(piece) for upload in uploads for piece in upload._held), 1 << 20
        )
        self.bench.advance(31)
        self.assertEqual(1, self.end.killed)
        self.assertIsInstance(self.failureResultOf(uploads[0].finish()).value, ApiError)

    def test_all_of_them_go_on_when_it_reads_again(self) -> None:
        uploads = [self.ready() for _ in range(3)]
        givers = [Giver(upload) for _, upload in uploads]
        for giver in givers:
            while giver.upload.write(PIECE):
                giver.sent.append(65536)
        received = {number: 0 for number, _ in uploads}
        for _ in range(40):
            for number, kind, payload in self.end.heard():
                self.assertEqual(b"D", kind)
                received[number] += len(payload)
                self.end.say(number, b"W", more(len(payload)))
        self.assertEqual([1, 1, 1], [giver.rooms for giver in givers])
        self.assertEqual([sum(giver.sent) + 65536 for giver in givers], list(received.values()))
