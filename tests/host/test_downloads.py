"""Bytes out of the workspace, in memory: windows, deadlines, ends."""

from __future__ import annotations

from attrs import evolve

from computerd.contract.errors import ApiError, Code
from computerd.host.room import RESERVE_BYTES
from computerd.host.worker.frames import WINDOW
from computerd.host.worker_life import MAX_RUNNING
from tests.host.taken import Taken
from tests.host.worker_bench import ARCHIVE, PACKED, PLACE, BenchCase

PIECE = b"x" * 65536


class FileTests(BenchCase):
    def test_what_was_opened(self) -> None:
        _, file = self.opened()
        self.assertEqual(("a", 100 << 20, 1, 2), (file.name, file.size, file.modified_ns, file.inode))

    def test_a_part_of_it(self) -> None:
        number, file = self.opened()
        taken = Taken()
        file.read(7, 5).start(taken)
        self.assertEqual([(number, b"C", {"start": 7, "length": 5})], self.end.heard())
        self.end.say(number, b"D", b"he")
        self.end.say(number, b"D", b"llo")
        self.assertEqual((b"hello", []), (bytes(taken.text), taken.ends))
        self.end.say(number, b"E", {})
        self.assertEqual([None], taken.ends)

    def test_nothing_of_it(self) -> None:
        number, file = self.opened()
        taken = Taken()
        file.read(0, 0).start(taken)
        self.end.say(number, b"E", {})
        self.assertEqual([None], taken.ends)

    def test_closed_without_reading(self) -> None:
        number, file = self.opened()
        file.close()
        self.assertEqual([(number, b"X", b"")], self.end.heard())
        self.end.say(number, b"F", {"code": "unavailable", "message": "stopped"})
        file.close()
        self.assertEqual([], self.end.heard())

    def test_shorter_than_it_was(self) -> None:
        """F4."""
        number, file = self.opened()
        taken = Taken()
        file.read(0, 5).start(taken)
        self.end.say(number, b"D", b"hell")
        self.end.say(number, b"E", {})
        (error,) = taken.ends
        assert isinstance(error, ApiError)
        self.assertEqual(Code.UNAVAILABLE, error.code)

    def test_a_failure_in_the_midst(self) -> None:
        number, file = self.opened()
        taken = Taken()
        file.read(0, 5).start(taken)
        self.end.say(number, b"F", {"code": "unavailable", "message": "the disk is gone"})
        (error,) = taken.ends
        self.assertEqual("the disk is gone", str(error))

    def test_what_nobody_reads_is_closed(self) -> None:
        number, file = self.opened()
        self.bench.advance(30)
        self.assertEqual([(number, b"X", b"")], self.end.heard())
        self.assertEqual(0, self.end.killed)
        taken = Taken()
        file.read(0, 1).start(taken)
        (error,) = taken.ends
        assert isinstance(error, ApiError)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)

    def test_a_worker_that_dies(self) -> None:
        _, file = self.opened()
        _, other = self.opened()
        taken, later = Taken(), Taken()
        file.read(0, 5).start(taken)
        self.end.exit()
        other.read(0, 5).start(later)
        for (error,) in (taken.ends, later.ends):
            assert isinstance(error, ApiError)
            self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)


class StreamTests(BenchCase):
    def begin(self, full_after: float = float("inf")) -> tuple[int, Taken]:
        number, packed = self.packed()
        taken = Taken(full_after=full_after, source=packed.source)
        packed.source.start(taken)
        return number, taken

    def test_an_archive(self) -> None:
        asked = self.files.pack(PLACE, "b", "zstd")
        self.assertEqual("zstd", self.end.heard()[1][2]["coding"])
        self.end.say(1, b"R", {**ARCHIVE, "name": "b"})
        packed = self.successResultOf(asked)
        self.assertEqual(("b", True, "zstd"), (packed.name, packed.folder, packed.coding))

    def test_how_much_it_lacks(self) -> None:
        number, packed = self.packed()
        taken = Taken()
        packed.source.start(taken)
        self.end.say(number, b"E", {**PACKED, "unreadable": 2**40})
        self.assertEqual(([None], 2**40), (taken.ends, packed.unreadable()))

    def test_gzip_where_there_is_no_zstd(self) -> None:
        program = evolve(self.workers.program(), zstd=False)
        self.workers.program = lambda: program
        asked = self.files.pack(PLACE, "", "zstd")
        self.assertEqual("gzip", self.end.heard()[1][2]["coding"])
        self.end.say(1, b"R", ARCHIVE)
        self.assertEqual("gzip", self.successResultOf(asked).coding)

    def test_what_comes_before_it_is_taken_waits(self) -> None:
        number, packed = self.packed()
        for _ in range(4):
            self.end.say(number, b"D", PIECE)
        self.end.heard()
        taken = Taken()
        packed.source.start(taken)
        self.assertEqual(WINDOW, len(taken.text))
        self.assertEqual([(number, b"W", WINDOW.to_bytes(4, "big"))], self.end.heard())

    def test_the_window_is_renewed_as_it_is_taken(self) -> None:
        number, taken = self.begin()
        for _ in range(100):
            self.end.say(number, b"D", PIECE)
            self.assertEqual([(number, b"W", (65536).to_bytes(4, "big"))], self.end.heard())
        self.end.say(number, b"E", PACKED)
        self.assertEqual((100 * 65536, [None]), (len(taken.text), taken.ends))

    def test_tiny_pieces_are_held_as_large_ones(self) -> None:
        """I9: each of its own would take far more memory than it holds."""
        number, taken = self.begin(full_after=0)
        self.end.say(number, b"D", b"first")
        for count in range(1000):
            self.end.say(number, b"D", b"%04d" % count)
        (held,) = self.asked[-1]._held  # type: ignore[attr-defined]  # of a download, which it is
        self.assertEqual(4000, len(held))
        taken.full_after = float("inf")
        packed = taken.source
        assert packed is not None
        packed.resume()
        self.assertEqual(b"first" + b"".join(b"%04d" % count for count in range(1000)), bytes(taken.text))

    def test_a_sink_that_is_full(self) -> None:
        number, taken = self.begin(full_after=1)
        for _ in range(4):
            self.end.say(number, b"D", PIECE)
        self.assertEqual(65536, len(taken.text))
        self.assertEqual(1, len(self.end.heard()))
        self.bench.advance(1000)
        self.assertEqual([], taken.ends, "it has all the time that it wants")
        taken.full_after = 2 * 65536
        assert taken.source is not None
        taken.source.resume()
        self.assertEqual(2 * 65536, len(taken.text))
        taken.full_after = float("inf")
        taken.source.resume()
        self.assertEqual(WINDOW, len(taken.text))
        self.end.say(number, b"E", PACKED)
        self.assertEqual([None], taken.ends)

    def test_the_end_waits_for_what_is_kept(self) -> None:
        number, taken = self.begin(full_after=1)
        for _ in range(3):
            self.end.say(number, b"D", PIECE)
        self.end.say(number, b"E", PACKED)
        self.assertEqual([], taken.ends)
        self.end.exit()
        taken.full_after = float("inf")
        assert taken.source is not None
        taken.source.resume()
        self.assertEqual((3 * 65536, [None]), (len(taken.text), taken.ends))

    def test_an_end_before_it_is_taken(self) -> None:
        number, packed = self.packed()
        self.end.say(number, b"E", PACKED)
        taken = Taken()
        packed.source.start(taken)
        self.assertEqual([None], taken.ends)

    def test_stopped(self) -> None:
        number, taken = self.begin()
        taken.stop_after = 1
        self.end.say(number, b"D", b"a")
        self.assertEqual([(number, b"X", b"")], self.end.heard())
        self.end.say(number, b"D", PIECE)
        self.end.say(number, b"F", {"code": "unavailable", "message": "stopped"})
        self.assertEqual((b"a", []), (bytes(taken.text), taken.ends))
        self.assertEqual(0, self.end.killed)

    def test_stopped_after_the_end_of_the_worker(self) -> None:
        number, taken = self.begin(full_after=1)
        for _ in range(2):
            self.end.say(number, b"D", PIECE)
        self.end.say(number, b"E", PACKED)
        assert taken.source is not None
        taken.source.stop()
        self.assertEqual([], taken.ends)
        self.assertEqual([RESERVE_BYTES], [worker._reserve.left for worker in self.workers._current.values()])

    def test_no_progress(self) -> None:
        number, taken = self.begin()
        self.end.say(number, b"D", b"a")
        self.bench.advance(29)
        self.end.say(number, b"D", b"a")
        self.bench.advance(29)
        self.assertEqual([], taken.ends)
        self.bench.advance(2)
        (error,) = taken.ends
        assert isinstance(error, ApiError)
        self.assertEqual((Code.COMPUTER_UNAVAILABLE, 1), (error.code, self.end.killed))

    def test_more_than_there_was_room_for(self) -> None:
        """I9."""
        number, taken = self.begin(full_after=1)
        for _ in range(5):
            self.end.say(number, b"D", PIECE)
        self.assertEqual(0, self.end.killed)
        self.end.say(number, b"D", b"a")
        self.assertEqual((1, 1), (self.end.killed, len(taken.ends)))


class ReserveTests(BenchCase):
    """I9: what a worker can make the daemon keep."""

    def test_no_more_than_a_mebibyte_is_promised(self) -> None:
        for _ in range(4):
            self.packed()
        waiting = self.files.pack(PLACE, "", "identity")
        self.assertEqual([], self.called())
        self.list_it()
        self.assertEqual([(5, "list")], self.called(), "what needs no room goes on")
        self.end.say(1, b"D", PIECE)
        self.end.say(1, b"E", PACKED)
        self.assertEqual([], self.called(), "what is kept takes its room still")
        self.assertNoResult(waiting)

    def test_it_is_given_back(self) -> None:
        first = [self.packed() for _ in range(4)]
        waiting = self.files.pack(PLACE, "", "identity")
        first[0][1].source.start(Taken())
        self.end.say(1, b"E", PACKED)
        self.assertEqual([(5, "pack")], self.called())
        self.end.say(5, b"R", ARCHIVE)
        self.successResultOf(waiting)

    def test_many_small_files_at_once(self) -> None:
        for _ in range(MAX_RUNNING):
            number, file = self.opened()
            file.read(0, 60_000).start(Taken())
            self.assertEqual([(number, b"C", {"start": 0, "length": 60_000})], self.end.heard())

    def test_a_file_waits_for_room(self) -> None:
        first = [self.packed() for _ in range(4)]
        number, file = self.opened()
        taken = Taken()
        file.read(0, 1 << 20).start(taken)
        self.assertEqual([], self.end.heard())
        first[2][1].source.stop()
        self.end.say(first[2][0], b"F", {"code": "unavailable", "message": "stopped"})
        self.assertIn((number, b"C", {"start": 0, "length": 1 << 20}), self.end.heard())

    def test_a_file_that_nobody_wants_any_more_when_there_is_room(self) -> None:
        first = [self.packed() for _ in range(4)]
        number, file = self.opened()
        taken = Taken()
        file.read(0, 1 << 20).start(taken)
        file.close()
        self.assertEqual([(number, b"X", b"")], self.end.heard())
        first[2][1].source.stop()
        self.end.say(first[2][0], b"F", {"code": "unavailable", "message": "stopped"})
        self.assertEqual([(first[2][0], b"X", b"")], self.end.heard())
        self.assertEqual([], taken.ends)

    def test_a_file_that_waits_too_long(self) -> None:
        for _ in range(4):
            _, packed = self.packed()
            packed.source.start(Taken(full_after=1))
        for number in range(1, 5):
            self.end.say(number, b"D", b"a")
        _, file = self.opened()
        taken = Taken()
        file.read(0, 1 << 20).start(taken)
        self.bench.advance(11)
        (error,) = taken.ends
        assert isinstance(error, ApiError)
        self.assertEqual((Code.RATE_LIMITED, 0), (error.code, self.end.killed))
        self.end.heard()
