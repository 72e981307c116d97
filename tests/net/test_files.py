"""Files over HTTP: listed and read; sessions that sleep."""

from __future__ import annotations

from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.contract.params import Suspend, UpdateSession
from tests.api.access_table import THERE
from tests.net.files_case import ARCHIVE, FILE, FILES, TAG, TAR, TEXT, FilesCase


class ListingTests(FilesCase):
    """`GET …/files`."""

    def test_a_page(self) -> None:
        reply = self.ask("GET", f"{FILES}?path=&limit=1")
        self.assertEqual(reply.status, 200)
        self.assertEqual(
            reply.body,
            b'{"path":"","entries":[{"path":"a.txt","name":"a.txt","type":"file","size":1000,"mode":"0644",'
            b'"modifiedAt":"2023-11-14T22:13:20.123Z","target":null,"encoded":false}],"nextCursor":"a.txt"}',
        )
        reply = self.ask("GET", f"{FILES}?path=&limit=1&cursor=a.txt&depth=10")
        self.assertIn(b'"dir/page.html"', reply.body)
        self.assertIn(b'"nextCursor":null', reply.body)

    def test_bad_params(self) -> None:
        for query, field in (
            ("", "path"), ("path=&depth=11", "depth"), ("path=&depth=0", "depth"), ("path=&limit=101", "limit"), ("path=&x=1", "x"),
            ("path=&path=", "path"), ("path=" + "x" * (limits.MAX_PATH_CHARACTERS + 1), "path"), ("path", "path"), ("path=%ff", "query"),
        ):  # fmt: skip
            self.is_refused(self.ask("GET", f"{FILES}?{query}"), 400, "invalid_request", field)

    def test_paths_that_name_nothing(self) -> None:
        """F3: refused before the user's process is asked."""
        for path in ("/etc/passwd", "..", "a/../../b", "%2e%2e/x", "a%00b", "/"):
            for target in (FILES, FILE, ARCHIVE):
                self.is_refused(self.ask("GET", f"{target}?path={path}"), 400, "invalid_path", "path")
            self.is_refused(self.ask("PUT", f"{ARCHIVE}?path={path}"), 400, "invalid_path", "path")
        self.assertEqual(self.files.calls, [])

    def test_what_the_process_refuses_with(self) -> None:
        for code, status in ((Code.COMPUTER_UNAVAILABLE, 503), (Code.COMPUTER_NOT_SET_UP, 409), (Code.TOO_LARGE, 413)):
            self.files.refusing = ApiError(code, "No.")
            for target in (FILES, FILE, ARCHIVE):
                self.is_refused(self.ask("GET", f"{target}?path=a.txt"), status, code)
            self.is_refused(self.ask("PUT", f"{ARCHIVE}?path=n"), status, code)
        self.assertEqual(self.on_their_way, 0)


class ReadingTests(FilesCase):
    """`GET …/file`."""

    def test_a_file(self) -> None:
        reply = self.ask("GET", f"{FILE}?path=a.txt")
        self.assertEqual((reply.status, reply.body), (200, TEXT))
        del reply.headers["date"], reply.headers["x-request-id"]
        self.assertEqual(
            reply.headers,
            {
                "content-type": "text/plain; charset=utf-8", "content-length": "1000", "cache-control": "private, no-cache",
                "x-content-type-options": "nosniff", "etag": TAG, "last-modified": "Tue, 14 Nov 2023 22:13:20 GMT",
                "accept-ranges": "bytes", "content-disposition": 'inline; filename="a.txt"', "content-security-policy": "sandbox",
            },
        )  # fmt: skip
        self.assertEqual(self.on_their_way, 0)

    def test_the_relays_address(self) -> None:
        self.assertEqual(self.ask("GET", f"/files/{THERE}/file?path=a.txt").body, TEXT)

    def test_head_has_the_same_headers_and_reads_nothing(self) -> None:
        whole = self.head(f"{FILE}?path=a.txt")
        head, _, body = whole.partition(b"\r\n\r\n")
        self.assertEqual(body, b"")
        reply = self.ask("GET", f"{FILE}?path=a.txt")
        told = {line.split(b": ")[0].decode().lower() for line in head.split(b"\r\n")[1:]}
        self.assertEqual(told, set(reply.headers))
        self.assertIn(b"Content-Length: 1000", head)
        self.assertEqual((self.files.closed, self.on_their_way, len(self.files.sources)), (1, 0, 1))

    def test_what_could_act_is_saved_and_not_shown(self) -> None:
        reply = self.ask("GET", f"{FILE}?path=dir/page.html")
        self.assertEqual(reply.headers["content-disposition"], 'attachment; filename="page.html"')
        self.assertEqual(reply.headers["content-security-policy"], "sandbox")

    def test_ranges(self) -> None:
        for value, place, body in (
            ("bytes=0-0", "0-0", TEXT[:1]), ("bytes=990-", "990-999", TEXT[990:]), ("bytes=-5", "995-999", TEXT[-5:]),
            ("bytes=10-99999", "10-999", TEXT[10:]), ("Bytes=5-6", "5-6", TEXT[5:7]),
        ):  # fmt: skip
            reply = self.ask("GET", f"{FILE}?path=a.txt", f"Range: {value}")
            self.assertEqual(
                (reply.status, reply.headers["content-range"], reply.body), (206, f"bytes {place}/1000", body)
            )
            self.assertEqual(reply.headers["content-length"], str(len(body)))

    def test_ranges_that_are_passed_over(self) -> None:
        for value in (
            "bytes=5-4",
            "bytes=0-1,4-5",
            "lines=1-2",
            "bytes",
            "bytes=x-",
            "bytes=-",
            "bytes=0-" + "9" * 1001,
        ):
            reply = self.ask("GET", f"{FILE}?path=a.txt", f"Range: {value}")
            self.assertEqual((reply.status, reply.body), (200, TEXT), value)

    def test_a_range_beyond_the_end(self) -> None:
        for value in ("bytes=1000-", "bytes=99999-100000", "bytes=-0"):
            reply = self.ask("GET", f"{FILE}?path=a.txt", f"Range: {value}")
            self.is_refused(reply, 416, "invalid_request", "Range")
            self.assertEqual(reply.headers["content-range"], "bytes */1000")
        self.assertEqual((self.files.closed, self.on_their_way), (3, 0))

    def test_an_empty_file(self) -> None:
        self.files.contents["empty"] = b""
        for lines in ((), ("Range: bytes=0-",)):
            reply = self.ask("GET", f"{FILE}?path=empty", *lines)
            self.assertEqual((reply.status, reply.headers["content-length"], reply.body), (200, "0", b""))
        self.assertEqual((self.files.closed, self.files.sources), (2, []))

    def test_if_none_match(self) -> None:
        for value in (TAG, f"W/{TAG}", f'"x", {TAG}', "*"):
            reply = self.ask("GET", f"{FILE}?path=a.txt", f"If-None-Match: {value}", "Range: bytes=0-1")
            self.assertEqual((reply.status, reply.body, reply.headers["etag"]), (304, b"", TAG))
            self.assertNotIn("content-length", reply.headers)
            self.assertNotIn("transfer-encoding", reply.headers)
        self.assertEqual(self.files.closed, 4)
        self.assertEqual(self.ask("GET", f"{FILE}?path=a.txt", 'If-None-Match: "x"').status, 200)

    def test_if_match(self) -> None:
        self.assertEqual(self.ask("GET", f"{FILE}?path=a.txt", f"If-Match: {TAG}").status, 200)
        for condition in ('If-Match: "x"', "If-Unmodified-Since: Mon, 01 Jan 1990 00:00:00 GMT"):
            reply = self.ask("GET", f"{FILE}?path=a.txt", condition)
            self.is_refused(reply, 412, "invalid_request", condition.partition(":")[0])
        self.assertEqual(self.files.closed, 2)
        for condition in ("If-Match: *", "If-None-Match: *"):
            reply = self.ask("PUT", f"{ARCHIVE}?path=new&replace=true", condition, TAR, body=b"x")
            self.is_refused(reply, 400, "invalid_request", condition.partition(":")[0])
        self.assertEqual(self.files.uploads, [])

    def test_if_range(self) -> None:
        for value, status in (
            (TAG, 206), (f"W/{TAG}", 200), ('"x"', 200), ("Tue, 14 Nov 2023 22:13:20 GMT", 206),
            ("Tue, 14 Nov 2023 22:13:19 GMT", 200), ("Tue, 14 Nov 2023 22:13:21 GMT", 200), ("nonsense", 200),
        ):  # fmt: skip
            reply = self.ask("GET", f"{FILE}?path=a.txt", "Range: bytes=0-1", f"If-Range: {value}")
            self.assertEqual(reply.status, status, value)

    def test_a_second_request_on_the_same_connection(self) -> None:
        peer = self.memory.connect()
        for _ in range(3):
            self.assertEqual(self.ask("GET", f"{FILE}?path=a.txt", peer=peer).body, TEXT)


class SleepingTests(FilesCase):
    """Sessions that are suspended or archived."""

    def test_a_suspended_session_sleeps_on(self) -> None:
        self.successResultOf(self.call("sessions.suspend", Suspend(session_id=THERE)))
        self.assertEqual(self.ask("GET", f"{FILE}?path=a.txt").status, 200)
        self.assertEqual(self.ask("PUT", f"{ARCHIVE}?path=new", "Content-Length: 1", body=b"x").status, 201)
        self.assertEqual(self.journal.records[THERE].status, "suspended")
        self.assertEqual(self.journal.log[THERE][-1].type, "files.pushed")

    def test_an_archived_session_is_read_and_not_written(self) -> None:
        self.successResultOf(self.call("sessions.update", UpdateSession(session_id=THERE, archived=True)))
        for target in (f"{FILE}?path=a.txt", f"{FILES}?path=", f"{ARCHIVE}?path="):
            self.assertEqual(self.ask("GET", target).status, 200)
        self.files.calls.clear()
        reply = self.ask("PUT", f"{ARCHIVE}?path=new", "Content-Length: 1000000")
        self.is_refused(reply, 409, "feature_unavailable")
        self.assertEqual(self.files.calls, [])
