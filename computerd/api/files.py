"""`files.list`, `files.read`, `files.download` and `files.upload`: a session's workspace, for its owner and for admins.

Neither reading nor writing wakes a suspended session: its files are there without it. An archived session's files can be read.
"""

from __future__ import annotations

from typing import Final

from attrs import define
from msgspec import UNSET
from twisted.internet.defer import Deferred, ensureDeferred

from computerd.api import access
from computerd.api.caller import Caller
from computerd.contract import objects, results
from computerd.contract.access import Access
from computerd.contract.errors import ApiError, Code
from computerd.contract.events import FilesPushed
from computerd.contract.params import DownloadArchive, ListFiles, ReadFile, UploadArchive
from computerd.contract.shapes import FIRST_SECOND, LAST_SECOND, timestamp
from computerd.session.changing import refuse_archived
from computerd.session.port import Record
from computerd.session.sessions import Sessions
from computerd.workspace.paths import refuse_impossible
from computerd.workspace.port import Coding, Entry, Files, Opened, Packed, Place, Upload

DEFAULT_LIMIT: Final = 100
"""Entries of a page: as many as `limit` allows."""
JOURNAL_SECONDS: Final = 30.0
"""That an upload's answer waits for the journal, whose disk may be full."""


@define(eq=False)
class WorkspaceFiles:
    """The work of the four methods."""

    sessions: Sessions
    files: Files

    async def list_folder(self, params: ListFiles, caller: Caller) -> results.FileList:
        """A page of what a folder holds."""
        place = _place(await self._record(params.session_id, params.path, caller, Access.FILES_READ))
        listing = await self.files.list(
            place,
            params.path,
            depth=1 if params.depth is UNSET else params.depth,
            limit=DEFAULT_LIMIT if params.limit is UNSET else params.limit,
            cursor=None if params.cursor is UNSET else params.cursor,
        )
        return results.FileList(
            path=listing.path, entries=[_entry(entry) for entry in listing.entries], next_cursor=listing.cursor
        )

    async def read(self, params: ReadFile, caller: Caller, coding: Coding) -> Opened:
        """A file, which is sent as it is: parts of it are counted in its own bytes."""
        return await self.files.open(
            _place(await self._record(params.session_id, params.path, caller, Access.FILES_READ)), params.path
        )

    async def download(self, params: DownloadArchive, caller: Caller, coding: Coding) -> Packed:
        """An archive of a file, or of what a folder holds."""
        place = _place(await self._record(params.session_id, params.path, caller, Access.FILES_READ))
        return await self.files.pack(place, params.path, coding)

    async def upload(self, params: UploadArchive, caller: Caller, coding: Coding) -> Upload:
        """Makes ready for an archive."""
        record = await self._record(params.session_id, params.path, caller, Access.FILES_WRITE)
        refuse_archived(record)
        return await self.files.unpack(_place(record), params.path, replace=params.replace, coding=coding)

    async def land(self, params: UploadArchive, caller: Caller, upload: Upload) -> results.ArchiveLanded:
        """The archive has come whole, or can't go on, which `upload` says then."""
        landed = await upload.finish()
        pushed = FilesPushed(path=landed.path, files=landed.files, bytes=landed.bytes, replaced=landed.replaced)
        committing: Deferred[int] = ensureDeferred(self.sessions.files_pushed(params.session_id, pushed, caller.actor))
        return results.ArchiveLanded(
            path=landed.path,
            files=landed.files,
            bytes=landed.bytes,
            replaced=landed.replaced,
            seq=await self._committed(committing),
        )

    async def _committed(self, committing: Deferred[int]) -> int:
        """The number of an event that will be committed in any case, if that happens soon enough to be told."""
        told: Deferred[int] = Deferred()

        def tell(seq: int) -> None:
            if not told.called:
                told.callback(seq)

        committing.addCallback(tell)
        committing.addErrback(lambda failure: None if told.called else told.errback(failure))
        told.addTimeout(JOURNAL_SECONDS, self.sessions.clock, onTimeoutCancel=_not_yet)
        return await told

    async def _record(self, session_id: str, path: str, caller: Caller, rule: Access) -> Record:
        """The session whose workspace it is, if the caller may."""
        record = await self.sessions.record(session_id)
        access.check_owner(rule, caller, record.owner.id)
        refuse_impossible(path)
        return record


def _not_yet(result: object, seconds: float) -> int:
    raise ApiError(
        Code.UNAVAILABLE,
        "The files are in place, but the journal does not take it now: list the folder before you send them again.",
    )


def _place(record: Record) -> Place:
    return Place(session_id=record.id, owner=record.owner.id)


def _entry(entry: Entry) -> objects.FileEntry:
    return objects.FileEntry(
        path=entry.path,
        name=entry.name,
        type=entry.type,
        size=entry.size,
        mode=f"{entry.mode & 0o7777:04o}",
        # a file's owner can set any time
        modified_at=timestamp(min(max(entry.modified, FIRST_SECOND), LAST_SECOND)),
        target=entry.target,
        encoded=entry.encoded,
    )
