"""Files of a workspace in memory, for the front door and for the network edge: no tar is packed or unpacked, bytes only go in and out."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed

from computerd.contract.errors import ApiError, Code
from computerd.workspace.port import Coding, Entry, Landed, Listing, Opened, Packed, Place, Sink

PIECE = 64 * 1024


@define(eq=False)
class FakeSource:
    """Gives its bytes as the sink takes them.

    Attributes:
        data: All of it.
        error: What it ends with once all was given.
        held: Gives nothing by itself: a test calls `give`.
        given: Bytes that the sink was given.
        stopped: How often it was stopped.
    """

    data: bytes
    error: BaseException | None = None
    held: bool = False
    given: int = 0
    stopped: int = 0
    resumed: int = 0
    ended: bool = False
    sink: Sink | None = None

    def start(self, sink: Sink) -> None:
        """Begins."""
        assert self.sink is None
        self.sink = sink
        if not self.held:
            self.flow()

    def resume(self) -> None:
        """Goes on."""
        self.resumed += 1
        if not self.held:
            self.flow()

    def stop(self) -> None:
        """Ends."""
        self.stopped += 1
        self.ended = True

    def give(self, size: int = PIECE) -> bool:
        """One piece. Whether the sink wants more."""
        assert self.sink is not None
        piece = self.data[self.given : self.given + size]
        self.given += len(piece)
        return self.sink.write(piece)

    def finish(self, error: BaseException | None = None) -> None:
        """The end."""
        if not self.ended and self.sink is not None:
            self.ended = True
            self.sink.ended(error)

    def flow(self) -> None:
        """As much as the sink takes."""
        while self.given < len(self.data) and not self.ended:
            if not self.give():
                return
        self.finish(self.error)


@define(eq=False)
class FakeUpload:
    """Keeps what comes, as `pieces`.

    Attributes:
        sizes: Of the pieces.
        room: Bytes that it takes before it says that there is no more room.
        landed: What `finish` fires with; a test may make it wait, or fail.
    """

    path: str = ""
    coding: Coding = "identity"
    replaced: bool = False
    room: int = 1 << 40
    pieces: list[bytes] = field(factory=list)
    sizes: list[int] = field(factory=list)
    begun: bool = False
    finished: bool = False
    aborted: bool = False
    landing: Deferred[Landed] | None = None
    has_room: Callable[[], None] = lambda: None
    failed: Callable[[], None] = lambda: None
    land: Callable[[], None] = lambda: None

    @property
    def data(self) -> bytes:
        """What has come."""
        return b"".join(self.pieces)

    def begin(self, room: Callable[[], None], failed: Callable[[], None]) -> None:
        """Before the first piece."""
        assert not self.begun
        self.begun, self.has_room, self.failed = True, room, failed

    def write(self, data: bytes) -> bool:
        """A piece."""
        assert self.begun and not self.finished and not self.aborted and 0 < len(data) <= PIECE
        self.pieces.append(data)
        self.sizes.append(len(data))
        self.room -= len(data)
        return self.room > 0

    def make_room(self, size: int) -> None:
        """There is room again."""
        self.room = size
        self.has_room()

    def finish(self) -> Deferred[Landed]:
        """That was all."""
        assert not self.finished and not self.aborted
        self.finished = True
        if self.landing is not None:
            return self.landing
        self.land()
        return succeed(Landed(path=self.path, files=1, bytes=len(self.data), replaced=self.replaced))

    def abort(self) -> None:
        """The rest will not come."""
        self.aborted = True


@define(eq=False)
class FakeFiles:
    """Implements `computerd.workspace.port.Files`. A path with a slash at its end is a folder.

    Attributes:
        contents: Of each file.
        modified_ns: Of every file.
        refusing: What every call fails with.
        waiting: Set to a list, every call waits until a test fires what is in it.
        listing: What every listing is; None: what is in `contents`.
        unreadable: What every archive lacks.
        instead: How an archive is compressed that can't be as was asked.
        asked: Depth, limit and cursor of every listing.
        calls: What was asked, as verb and path.
        sources, uploads, closed: What was handed out, and how many open files were let go of unread.
        prepare: Called with every source or upload that is handed out.
    """

    contents: dict[str, bytes] = field(factory=dict)
    modified_ns: int = 1_700_000_000_123_456_789
    refusing: ApiError | None = None
    waiting: list[Deferred[None]] | None = None
    listing: Listing | None = None
    unreadable: int = 0
    instead: dict[Coding, Coding] = field(factory=dict)
    asked: list[tuple[object, ...]] = field(factory=list)
    calls: list[tuple[str, str]] = field(factory=list)
    places: list[Place] = field(factory=list)
    sources: list[FakeSource] = field(factory=list)
    uploads: list[FakeUpload] = field(factory=list)
    closed: int = 0
    prepare: Callable[[FakeSource | FakeUpload], None] = lambda made: None

    async def _called(self, verb: str, place: Place, path: str) -> None:
        self.calls.append((verb, path))
        self.places.append(place)
        if self.waiting is not None:
            wait: Deferred[None] = Deferred()
            self.waiting.append(wait)
            await wait
        if self.refusing is not None:
            raise self.refusing

    async def list(self, place: Place, path: str, *, depth: int, limit: int, cursor: str | None) -> Listing:
        """Every file below, as if it were in the folder itself."""
        await self._called("list", place, path)
        self.asked.append((depth, limit, cursor))
        if self.listing is not None:
            return self.listing
        names = sorted(name for name in self.contents if name > (cursor or ""))
        entries = [
            Entry(
                path=name, name=name.rpartition("/")[2], type="file", size=len(self.contents[name]), mode=0o100644,
                modified=self.modified_ns / 1e9, target=None, encoded=False,
            )
            for name in names[:limit]
        ]  # fmt: skip
        return Listing(path, entries, names[limit - 1] if len(names) > limit else None)

    async def open(self, place: Place, path: str) -> Opened:
        """A file."""
        await self._called("open", place, path)
        content = self._find(path)

        def read(start: int, length: int) -> FakeSource:
            return self._source(content[start : start + length])

        def close() -> None:
            self.closed += 1

        return Opened(path.rpartition("/")[2], len(content), self.modified_ns, self.modified_ns, 77, read, close)

    async def pack(self, place: Place, path: str, coding: Coding) -> Packed:
        """An "archive": the coding and the bytes of the file, or of all files."""
        await self._called("pack", place, path)
        content = self._find(path) if path else b"".join(self.contents.values())
        made = self.instead.get(coding, coding)
        source = self._source(made.encode() + b":" + content)
        return Packed(path.rpartition("/")[2], not path, source, lambda: self.unreadable, made)

    async def unpack(self, place: Place, path: str, *, replace: bool, coding: Coding) -> FakeUpload:
        """An upload, whose bytes become a file."""
        await self._called("unpack", place, path)
        there = path in self.contents
        if there and not replace:
            raise ApiError(Code.PATH_EXISTS, "There is something already: pass replace=true.", field="path")
        upload = FakeUpload(path=path, coding=coding, replaced=there)
        upload.land = lambda: self.contents.__setitem__(path, upload.data)
        self.prepare(upload)
        self.uploads.append(upload)
        return upload

    def _find(self, path: str) -> bytes:
        if path not in self.contents:
            raise ApiError(Code.PATH_NOT_FOUND, "There is nothing at that path: list the folder.", field="path")
        return self.contents[path]

    def _source(self, data: bytes) -> FakeSource:
        source = FakeSource(data)
        self.prepare(source)
        self.sources.append(source)
        return source


def failing(code: Code) -> Deferred[Landed]:
    """What `FakeUpload.landing` may be."""
    return fail(ApiError(code, "It can't be."))
