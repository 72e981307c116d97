"""I9: what a worker may not say, in memory. One word of it, and the worker is killed; who has asked is told, and nobody else."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from computerd.contract.errors import ApiError, Code
from computerd.host import downloads
from computerd.host.worker.frames import encode
from tests.host.taken import Taken
from tests.host.worker_bench import ARCHIVE, FILE, LANDED, PACKED, PAGE, PLACE, READY, ROW, BenchCase


def row(at: int, value: object) -> dict[str, object]:
    """A page whose only entry has that at that place."""
    return {**PAGE, "entries": [[*ROW[:at], value, *ROW[at + 1 :]]]}


FRAMES = {
    "4 GiB": struct.pack(">IIc", 2**32 - 1, 1, b"R"),
    "longer than 64 KiB": struct.pack(">IIc", 65536 + 6, 1, b"R"),
    "no room for a kind": struct.pack(">IIc", 4, 1, b"R"),
    "no length": bytes(9),
    "no kind": encode(1, b"?"),
    "the daemon's kind": encode(1, b"C", b"{}"),
    "another's request": encode(3, b"R", json.dumps(PAGE).encode()),
    "the worker itself": encode(0, b"R", b"{}"),
    "data without a stream": encode(1, b"D", b"a"),
    "an end without a stream": encode(1, b"E", b"{}"),
    "a window without a stream": encode(1, b"W", b"\0\0\0\1"),
}
PAGES: dict[str, object] = {
    "no JSON": b"{",
    "no UTF-8": b'{"path":"\xff","entries":[],"cursor":null}',
    "half of a pair": b'{"path":"\\ud800","entries":[],"cursor":null}',
    "deep": b"[" * 60_000,
    "deep in what nobody asked for": b'{"more":' + b'{"a":' * 10_000,
    "digits": b'{"path":"","entries":[["a","a","file",' + b"9" * 60_000 + b',1,1,null,false]],"cursor":null}',
    "not a number": b'{"path":"","entries":[["a","a","file",NaN,1,1,null,false]],"cursor":null}',
    "nothing": b"",
    "a list": [],
    "null": b"null",
    "no entries": {"path": "", "cursor": None},
    "more fields": {**PAGE, "more": 1},
    "too many entries": {**PAGE, "entries": [ROW] * 101},
    "a short row": {**PAGE, "entries": [ROW[:7]]},
    "a long row": {**PAGE, "entries": [[*ROW, 1]]},
    "NUL in a path": row(0, "a\0b"),
    "NUL in a name": row(1, "a\0b"),
    "a slash in a name": row(1, "a/b"),
    "a long name": row(1, "a" * 4097),
    "a long path": row(0, "a" * 12_289),
    "no type": row(2, "door"),
    "a negative size": row(3, -1),
    "a size of text": row(3, "1"),
    "a broken size": row(3, 1.5),
    "a large size": row(3, 2**63),
    "a large mode": row(4, 0o10000),
    "a time of text": row(5, "now"),
    "NUL in a target": row(6, "a\0b"),
    "no truth": row(7, 1),
    "NUL in the cursor": {**PAGE, "cursor": "a\0"},
}
FAILURES: dict[str, object] = {
    "no code": {"message": "a"},
    "a code that isn't the worker's": {"code": "forbidden", "message": "a"},
    "no such code": {"code": "a", "message": "a"},
    "no message": {"code": "path_not_found", "message": None},
    "a long field": {"code": "path_not_found", "message": "a", "field": "a" * 256},
    "more": {"code": "path_not_found", "message": "a", "more": 1},
}
FILES: dict[str, object] = {
    "too large": {**FILE, "size": (100 << 20) + 1},
    "no stream": {**FILE, "stream": False},
    "no name": {**FILE, "name": ""},
    "NUL": {**FILE, "name": "a\0"},
    "a path": {**FILE, "name": "../a"},
    "inode": {**FILE, "inode": 2**64},
    "a page": PAGE,
}
ARCHIVES: dict[str, object] = {
    "more": {**ARCHIVE, "coding": "gzip"},
    "no stream": {**ARCHIVE, "stream": False},
    "a path": {**ARCHIVE, "name": "a/b"},
    "a file": FILE,
}
ENDS: dict[str, object] = {
    "nothing": {},
    "no JSON": b"{",
    "negative": {**PACKED, "unreadable": -1},
    "text": {**PACKED, "unreadable": "1"},
    "missing": {"entries": 3, "bytes": 4, "skipped": 1},
    "null": {**PACKED, "unreadable": None},
    "huge": {**PACKED, "unreadable": 2**63},
    "digits": b'{"entries":3,"bytes":4,"skipped":1,"unreadable":' + b"9" * 60_000 + b"}",
    "a fraction": {**PACKED, "unreadable": 1.5},
    "a negative number beside it": {**PACKED, "skipped": -1},
    "more": {**PACKED, "more": 1},
}


@contextmanager
def named(name: str) -> Iterator[None]:
    """Says which of a table it was."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{name}: {error!r}") from error


class LyingTests(BenchCase):
    def lie(self, ask: Callable[[], Deferred[Any]], tell: Callable[[], None]) -> ApiError:
        """Asks, lies, and looks what comes of it."""
        before = len(self.employer.ends)
        asked, beside = ask(), self.list_it("beside")
        self.end.heard()
        tell()
        self.assertEqual(1, self.end.killed)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(beside).code)
        error = self.refused(asked)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, error.code)
        self.assertEqual(before + 1, len(self.employer.ends))
        self.bench.advance(100)  # no matter how often
        return error

    def table(self, lies: dict[str, object], ask: Callable[[], Deferred[Any]], kind: bytes = b"R") -> None:
        for name, payload in lies.items():
            with named(name):
                self.lie(ask, lambda payload=payload: self.end.say(1, kind, payload))  # type: ignore[misc]

    def test_frames(self) -> None:
        for name, data in FRAMES.items():
            with named(name):
                self.lie(lambda: self.files.open(PLACE, "a"), lambda data=data: self.end.put(data))  # type: ignore[misc]

    def test_pages(self) -> None:
        self.table(PAGES, self.list_it)

    def test_failures(self) -> None:
        self.table(FAILURES, self.list_it, b"F")

    def test_files(self) -> None:
        self.table(FILES, lambda: self.files.open(PLACE, "a"))

    def test_archives(self) -> None:
        self.table(ARCHIVES, lambda: self.files.pack(PLACE, "", "identity"))

    def test_ends_of_archives(self) -> None:
        """The archive is broken off: nobody takes it for whole."""
        for name, payload in ENDS.items():
            with named(name):
                number, packed = self.packed()
                taken = Taken()
                packed.source.start(taken)
                self.end.say(number, b"D", b"a")
                self.end.say(number, b"E", payload)
                self.assertEqual((1, 1), (self.end.killed, len(taken.ends)))
                self.assertIsInstance(taken.ends[0], ApiError)
                self.bench.advance(100)

    def test_uploads(self) -> None:
        lies: dict[str, object] = {"not ready": {**READY, "ready": False}, "landed": LANDED, "no object": b"1"}
        self.table(lies, lambda: self.files.unpack(PLACE, "a", replace=True, coding="gzip"))

    def test_control_characters_are_a_names_own(self) -> None:
        asked = self.list_it()
        self.end.say(1, b"R", row(1, "a\n\x1b[2J"))
        self.assertEqual("a\n\x1b[2J", self.successResultOf(asked).entries[0].name)

    def test_two_answers(self) -> None:
        number, _ = self.opened()
        self.end.say(number, b"R", FILE)
        self.assertEqual(1, self.end.killed)

    def test_data_before_it_was_asked_for(self) -> None:
        number, file = self.opened()
        self.end.say(number, b"D", b"a")
        self.assertEqual(1, self.end.killed)
        taken = Taken()
        file.read(0, 1).start(taken)
        self.assertEqual(1, len(taken.ends))

    def test_more_than_was_asked_for(self) -> None:
        number, file = self.opened()
        taken = Taken()
        file.read(0, 5).start(taken)
        self.end.say(number, b"D", b"hello!")
        self.assertEqual((1, b""), (self.end.killed, bytes(taken.text)))
        self.assertIsInstance(taken.ends[0], ApiError)

    def test_empty_data(self) -> None:
        number, packed = self.packed()
        taken = Taken()
        packed.source.start(taken)
        self.end.say(number, b"D", b"")
        self.assertEqual((1, 1), (self.end.killed, len(taken.ends)))

    def test_a_stream_without_an_end(self) -> None:
        self.patch(downloads, "_MAX_TAR_BYTES", 1 << 20)
        number, packed = self.packed()
        taken = Taken()
        packed.source.start(taken)
        for _ in range(1000):
            if self.end.killed:
                break
            self.end.say(number, b"D", bytes(65536))
        self.assertEqual((1, 1), (self.end.killed, len(taken.ends)))
        self.assertLessEqual(len(taken.text), 1 << 20)

    def test_windows(self) -> None:
        for payload in (b"", b"\0\0\0\0", b"\0\0\0\1\0", b"\0\0\0\1", b"\xff\xff\xff\xff"):
            number, upload = self.ready()
            failures: list[int] = []
            upload.begin(lambda: None, lambda failures=failures: failures.append(1))
            self.end.say(number, b"W", payload)
            self.assertEqual((1, [1]), (self.end.killed, failures), payload)
            self.bench.advance(100)

    def test_a_flood_of_tiny_frames(self) -> None:
        """I9: whatever their kind, the worker is killed for it within a second's worth."""
        for kind, payload in ((b"P", b""), (b"D", b"x")):
            number, packed = self.packed()
            taken = Taken()
            packed.source.start(taken)
            for _ in range(10_000):
                self.end.say(number, kind, payload)
                self.end.heard()
                if self.end.killed:
                    break
            self.assertEqual((1, 1), (self.end.killed, len(taken.ends)), kind)
            self.bench.advance(100)

    def test_many_frames_over_a_long_time(self) -> None:
        number, packed = self.packed()
        packed.source.start(Taken())
        for _ in range(10_000):
            self.end.say(number, b"P")
            self.bench.advance(0.001)
        self.assertEqual(0, self.end.killed)

    def test_more_large_frames_than_a_second_has(self) -> None:
        """They wait, and none is lost."""
        number, packed = self.packed()
        taken = Taken()
        packed.source.start(taken)
        for _ in range(4020):
            self.end.say(number, b"D", bytes(2000))
            self.end.heard()
        self.assertEqual((0, 3999 * 2000), (self.end.killed, len(taken.text)))
        self.bench.advance(1)
        self.bench.settle()
        self.assertEqual((0, 4020 * 2000), (self.end.killed, len(taken.text)))

    def test_a_place_that_was_not_asked_for(self) -> None:
        """What the worker says of where it landed is what the session's journal gets."""
        for path, killed in (("b", 1), ("../a", 1), ("", 1), ("a\x1b[31m", 1), ("a", 0)):
            number, upload = self.ready()
            done = upload.finish()
            self.end.heard()
            self.end.say(number, b"E", {**LANDED, "path": path})
            self.assertEqual(killed, self.end.killed, path)
            self.bench.advance(100)
            done.addErrback(lambda _: None)

    def test_a_landing_before_the_end(self) -> None:
        number, upload = self.ready()
        self.end.say(number, b"E", LANDED)
        self.assertEqual(1, self.end.killed)
        self.assertEqual(Code.COMPUTER_UNAVAILABLE, self.refused(upload.finish()).code)

    def test_a_landing_before_all_was_sent(self) -> None:
        number, upload = self.ready()
        for _ in range(5):
            upload.write(bytes(65536))
        done = upload.finish()
        self.end.say(number, b"E", LANDED)
        self.assertEqual((1, Code.COMPUTER_UNAVAILABLE), (self.end.killed, self.refused(done).code))

    def test_more_entries_than_were_asked_for(self) -> None:
        asked = self.files.list(PLACE, "", depth=1, limit=1, cursor=None)
        self.end.say(1, b"R", {**PAGE, "entries": [ROW, ROW]})
        self.assertEqual((1, Code.COMPUTER_UNAVAILABLE), (self.end.killed, self.refused(asked).code))

    def test_a_landing_that_is_none(self) -> None:
        number, upload = self.ready()
        done = upload.finish()
        self.end.say(number, b"E", {**LANDED, "files": -1})
        self.assertEqual((1, Code.COMPUTER_UNAVAILABLE), (self.end.killed, self.refused(done).code))

    def test_after_a_cancellation_too(self) -> None:
        for kind, payload in ((b"D", bytes(65536)), (b"W", b"\xff" * 4), (b"R", b"{}")):
            number, packed = self.packed()
            packed.source.stop()
            for _ in range(5):
                self.end.say(number, kind, payload)
            self.assertEqual(1, self.end.killed, kind)
            self.bench.advance(100)

    def test_half_a_frame_and_nothing(self) -> None:
        for data in (b"\0\0", encode(1, b"R", json.dumps(PAGE).encode())[:-1], b""):
            asked = self.list_it()
            self.end.put(data)
            self.bench.advance(9)
            self.assertNoResult(asked)
            self.bench.advance(2)
            self.assertEqual((1, Code.COMPUTER_UNAVAILABLE), (self.end.killed, self.refused(asked).code))
            self.bench.advance(100)

    def test_nothing_before_the_first_request(self) -> None:
        asked = self.list_it()
        self.end.put(b"Python is not installed\n" * 1000)
        self.assertEqual((1, Code.COMPUTER_UNAVAILABLE), (self.end.killed, self.refused(asked).code))

    @settings(max_examples=200, deadline=None)
    @given(
        data=st.binary(max_size=300), request=st.integers(0, 3), kind=st.sampled_from([b"R", b"D", b"E", b"F", b"W"])
    )
    def test_whatever_comes_nobody_hears_an_exception(self, data: bytes, request: int, kind: bytes) -> None:
        self.bench.advance(1000)
        asked = [self.list_it(), self.files.open(PLACE, "a"), self.files.pack(PLACE, "a", "gzip")]
        end = self.end
        end.heard()
        end.say(request, kind, data)
        end.exit()
        for one in asked:
            self.assertIsInstance(self.failureResultOf(one).value, ApiError)
