"""`files.list`, `files.read`, `files.download` and `files.upload`, on files in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred

from computerd.api.audit import Entry
from computerd.api.caller import Caller
from computerd.api.files import JOURNAL_SECONDS
from computerd.api.front import Answer, Arriving
from computerd.api.trail import Trail
from computerd.contract import results
from computerd.contract.access import Scope
from computerd.contract.errors import ApiError, Code, Reason
from computerd.contract.methods import BY_NAME
from computerd.contract.params import DownloadArchive, ListFiles, ReadFile, UpdateSession, UploadArchive
from computerd.workspace.port import Entry as FileEntry
from computerd.workspace.port import Kind, Landed, Listing, Opened, Packed, Place
from tests.api.callers import a_caller
from tests.api.test_audit import RecordingAudit
from tests.api.test_dispatch import ApiCase
from tests.session.fake_journal import FakeJournal
from tests.session.test_sessions import ID
from tests.workspace.fake_files import FakeUpload, failing

NOW = 1_800_000_000.0
ALICE = a_caller()
BOB = a_caller("bob")


class FilesCase(ApiCase):
    """A session of alice's with one file."""

    def setUp(self) -> None:
        super().setUp()
        self.create(id=ID)
        self.files.contents["a.txt"] = b"abc"
        self.audit = RecordingAudit()
        self.api.trail = Trail(self.audit, lambda: NOW)

    def listed(self, caller: Caller = ALICE, session: str = ID, path: str = "", **params: Any) -> Deferred[Answer]:
        """`files.list`."""
        wanted = ListFiles(session_id=session, path=path, **params)
        return self.begin(self.api.call(BY_NAME["files.list"], wanted, caller, None, 0.0))

    def read(self, caller: Caller = ALICE, path: str = "a.txt") -> Deferred[Opened | Packed]:
        """`files.read`."""
        wanted = ReadFile(session_id=ID, path=path)
        return self.begin(self.api.give(BY_NAME["files.read"], wanted, caller, "gzip"))

    def download(self, caller: Caller = ALICE, path: str = "") -> Deferred[Opened | Packed]:
        """`files.download`."""
        wanted = DownloadArchive(session_id=ID, path=path)
        return self.begin(self.api.give(BY_NAME["files.download"], wanted, caller, "gzip"))

    def take(self, caller: Caller = ALICE, path: str = "new", *, replace: bool = False) -> Deferred[Arriving]:
        """`files.upload`, up to the body."""
        wanted = UploadArchive(session_id=ID, path=path, replace=replace)
        return self.begin(self.api.take(BY_NAME["files.upload"], wanted, caller, "zstd"))

    def upload(self) -> tuple[Arriving, FakeUpload]:
        """One that may come."""
        arriving = self.successResultOf(self.take())
        return arriving, self.files.uploads[-1]

    def land(self, arriving: Arriving) -> Deferred[Answer]:
        """All of it has come."""
        return self.begin(arriving.land())

    @property
    def reading(self) -> list[Callable[..., Deferred[Any]]]:
        """The methods that read."""
        return [self.listed, self.read, self.download]

    def refusal(self, outcome: Deferred[Any]) -> ApiError:
        """What it was refused with."""
        error = self.failureResultOf(outcome, ApiError).value
        assert isinstance(error, ApiError)
        return error


class WhoTests(FilesCase):
    """Who may."""

    def test_the_owner_and_admins(self) -> None:
        for caller in (ALICE, evolve(BOB, admin=True)):
            self.successResultOf(self.listed(caller))
            self.successResultOf(self.read(caller))
            self.successResultOf(self.download(caller))
            self.successResultOf(self.take(caller))
        self.assertEqual(set(self.files.places), {Place(ID, "alice")}, "the Unix user is the owner's, whoever asks")

    def test_nobody_else_and_without_a_reason(self) -> None:
        """The schema's reasons are about scopes, attachments and terminals: none of them says this."""
        for work in [*self.reading, self.take]:
            error = self.refusal(work(BOB))
            self.assertEqual((error.code, error.reason), (Code.FORBIDDEN, None))
            self.assertNotIn("reason", error.body())
        self.assertEqual(self.files.calls, [])

    def test_reading_and_writing_have_scopes_of_their_own(self) -> None:
        for missing, refused, allowed in (
            (Scope.FILES_READ, self.reading, [self.take]),
            (Scope.FILES_WRITE, [self.take], self.reading),
        ):
            for admin in (False, True):
                caller = evolve(ALICE, scopes=frozenset(Scope) - {missing}, admin=admin)
                for work in refused:
                    error = self.refusal(work(caller))
                    self.assertEqual((error.code, error.reason), (Code.FORBIDDEN, Reason.MISSING_SCOPE))
                    self.assertIn(missing.value, error.message)
                for work in allowed:
                    self.successResultOf(work(caller))

    def test_a_stranger_does_not_learn_what_a_path_is(self) -> None:
        bodies = {str(self.refusal(self.read(BOB, path)).body()) for path in ("a.txt", "nothing", "../x")}
        self.assertEqual(len(bodies), 1)


class ListTests(FilesCase):
    """`files.list`."""

    def test_what_is_asked_of_the_workspace(self) -> None:
        self.files.listing = Listing("d", [], "next")
        self.successResultOf(self.listed())
        result: Any = self.successResultOf(self.listed(path="d", depth=3, limit=5, cursor="c")).result
        self.assertEqual(self.files.asked, [(1, 100, None), (3, 5, "c")])
        self.assertEqual(self.files.calls, [("list", ""), ("list", "d")])
        self.assertEqual((result.path, result.entries, result.next_cursor), ("d", [], "next"))

    def entry(self, mode: int = 0o100644, modified: float = 0.0, kind: Kind = "file", target: str | None = None) -> Any:
        """One entry, as the API writes it."""
        entry = FileEntry("d/n%ff", "n%ff", kind, 5, mode, modified, target, True)
        self.files.listing = Listing("d", [entry], None)
        result = self.successResultOf(self.listed()).result
        assert isinstance(result, results.FileList)
        (told,) = result.entries
        return told

    def test_entries(self) -> None:
        entry = self.entry(0o100640, 1_700_000_000.25, "symlink", "../x")
        self.assertEqual(
            (
                entry.path,
                entry.name,
                entry.type,
                entry.size,
                entry.mode,
                entry.modified_at,
                entry.target,
                entry.encoded,
            ),
            ("d/n%ff", "n%ff", "symlink", 5, "0640", "2023-11-14T22:13:20.250Z", "../x", True),
        )

    def test_modes_have_four_digits(self) -> None:
        for mode, text in ((0o100644, "0644"), (0, "0000"), (0o7777, "7777"), (0o41777, "1777")):
            self.assertEqual(self.entry(mode).mode, text)

    def test_times_that_no_clock_shows(self) -> None:
        for modified in (-1e30, -62135596800.0, 1e30, float("inf"), 253402300800.0):
            self.assertRegex(self.entry(modified=modified).modified_at, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{12}Z$")


class StreamTests(FilesCase):
    """`files.read` and `files.download`."""

    def test_a_file_is_never_compressed_and_an_archive_as_asked(self) -> None:
        opened = self.successResultOf(self.read())
        assert isinstance(opened, Opened)
        self.assertEqual((opened.name, opened.size), ("a.txt", 3))
        packed = self.successResultOf(self.download(path="a.txt"))
        assert isinstance(packed, Packed)
        self.assertEqual(self.files.sources[-1].data, b"gzip:abc")

    def test_reading_is_not_told_in_the_audit_trail(self) -> None:
        for work in self.reading:
            self.successResultOf(work())
            self.refusal(work(BOB))
        self.assertEqual(self.audit.rows, [])


class UploadTests(FilesCase):
    """`files.upload`."""

    def row(self, result: str = "ok", path: str = "new") -> Entry:
        """What the audit trail says of one."""
        return Entry(NOW, "files.upload", result, "alice", "t", ID, path)

    def test_it_lands(self) -> None:
        arriving, upload = self.upload()
        self.assertEqual((upload.coding, self.audit.rows), ("zstd", []))
        answer = self.successResultOf(self.land(arriving))
        result: Any = answer.result
        event = self.journal.log[ID][-1]
        self.assertEqual(
            (result.path, result.files, result.bytes, result.replaced, result.seq), ("new", 1, 0, False, event.seq)
        )
        self.assertEqual((event.type, event.actor), ("files.pushed", ALICE.actor))
        self.assertEqual(self.audit.rows, [self.row()])

    def test_one_that_is_refused_is_told_in_the_audit_trail(self) -> None:
        self.refusal(self.take(BOB))
        self.assertEqual(self.audit.rows.pop(), evolve(self.row("forbidden"), member="bob"))
        self.refusal(self.take(path="a.txt"))
        self.assertEqual(self.audit.rows.pop(), self.row("path_exists", "a.txt"))
        arriving, upload = self.upload()
        upload.landing = failing(Code.INVALID_ARCHIVE)
        self.refusal(self.land(arriving))
        self.assertEqual(self.audit.rows.pop(), self.row("invalid_archive"))
        self.assertNotIn("files.pushed", [event.type for event in self.journal.log[ID]])

    def test_an_archived_session_takes_none(self) -> None:
        archive = UpdateSession(session_id=ID, archived=True)
        self.successResultOf(self.call("sessions.update", archive))
        self.assertEqual(self.refusal(self.take()).code, Code.FEATURE_UNAVAILABLE)
        self.successResultOf(self.read())

    def test_a_journal_that_is_slow(self) -> None:
        """What is in place is journaled in any case; who waits for it is told in time."""
        arriving, _ = self.upload()
        self.journal.refusing = ApiError(Code.UNAVAILABLE, "The disk is full.")
        landing = self.land(arriving)
        self.clock.advance(JOURNAL_SECONDS - 1)
        self.assertNoResult(landing)
        self.clock.advance(1)
        error = self.refusal(landing)
        self.assertEqual(error.code, Code.UNAVAILABLE)
        self.assertIn("in place", error.message)
        self.assertEqual(self.audit.rows, [self.row("unavailable")])
        self.journal.refusing = None
        self.journal.heal()
        self.assertEqual(self.journal.log[ID][-1].type, "files.pushed")

    def test_a_journal_that_stops(self) -> None:
        arriving, _ = self.upload()

        async def stopped(*_: object, **__: object) -> None:
            raise ApiError(Code.UNAVAILABLE, "The journal has stopped.")

        self.patch(FakeJournal, "append", stopped)
        self.assertEqual(self.refusal(self.land(arriving)).message, "The journal has stopped.")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_who_waits_may_go(self) -> None:
        arriving, upload = self.upload()
        upload.landing = Deferred()
        landing = self.land(arriving)
        self.assertNoResult(landing)
        upload.landing.callback(Landed("new", 2, 3, True))
        result: Any = self.successResultOf(landing).result
        self.assertEqual((result.files, result.replaced), (2, True))
