"""An archive on its way from the client into a workspace, in step with it.

A request with an archive goes through these states:

* *asking*: its head was good, and the front door decides. Nothing of the body is read, and no `100 Continue` is sent, before it has.
* *coming*: pieces go to the upload. While it has no room, nothing is read from the client, and what was read already (one read of the
  transport's, 64 KiB, and what was left of the one before) waits here.
* *landing*: the whole body was given away, or the upload has failed; either way it is asked what has become of it. From here on a client that
  goes changes nothing.
* *over*: answered, refused, or the client has gone.

What is refused before the whole body has come is answered at once by the channel, which drops the rest.
"""

# Twisted has no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from computerd.api.front import Answer, Arriving
from computerd.contract import limits
from computerd.contract.errors import ApiError, Code
from computerd.workspace.port import Upload

if TYPE_CHECKING:
    from computerd.net.httpchannel import Channel

PIECE_BYTES: Final = 64 * limits.KIB
"""That an upload takes at a time."""


class Incoming:
    """One request's body.

    Args:
        channel: Where it comes from.
        expects: Whether the client waits for `100 Continue`.
        answer: Called once with what the upload came to, unless the client has gone; the second argument says whether the whole body has come.
        over: Called once when nothing more will happen.
    """

    def __init__(
        self,
        channel: Channel,
        expects: bool,
        answer: Callable[[Answer | Failure, bool], None],
        over: Callable[[], None],
    ) -> None:
        self._channel = channel
        self._expects = expects
        self._answer = answer
        self._over = over
        self._arriving: Arriving | None = None
        self._upload: Upload | None = None
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._room = True
        self._whole = False
        self._landing = False
        self._gone = False

    def ask(self, asking: Coroutine[Any, Any, Arriving]) -> None:
        """Waits for the front door's word."""
        self._channel.hold_body()
        # not stopped when the client goes: what is half made ready would have to be cleared away all the same
        deciding: Deferred[Arriving] = ensureDeferred(asking)
        deciding.addCallbacks(self._may_come, self._settle)
        deciding.addErrback(self._settle)

    def _may_come(self, arriving: Arriving) -> None:
        if self._gone:
            arriving.upload.abort()
            return
        self._arriving, self._upload = arriving, arriving.upload
        self._upload.begin(self._has_room, self._land)
        if self._expects and not self._whole and not self._bytes:
            self._channel.send_continue()
        self.flush()

    # the body

    def add(self, data: bytes) -> None:
        """A piece, however small. It goes on with the next `flush`.

        Raises:
            ApiError: `too_large`: it has become longer than any archive.
        """
        self._bytes += len(data)
        if self._bytes > limits.MAX_UPLOAD_BYTES:
            raise too_large()
        if not self._decided():
            self._pieces.append(data)

    def end(self) -> None:
        """The whole body has come."""
        self._whole = True
        self._channel.release_body()
        self.flush()

    def flush(self) -> None:
        """Gives away what there is room for, and reads on, or not."""
        upload = self._upload
        if self._decided():
            return
        if upload is None:
            self._hold()
            return
        while self._pieces and self._room and not self._decided():
            self._give(upload)
        if self._decided():
            return
        if self._whole and not self._pieces:
            self._land()
        elif self._pieces or not self._room:
            self._hold()
        else:
            self._channel.release_body()

    def _decided(self) -> bool:
        """Whether nothing of the body is wanted any more."""
        return self._landing or self._gone

    def _hold(self) -> None:
        # nothing of this body is to come after its end, and a client that goes is to be noticed
        if not self._whole:
            self._channel.hold_body()

    def _give(self, upload: Upload) -> None:
        data = b"".join(self._pieces)
        piece, rest = data[:PIECE_BYTES], data[PIECE_BYTES:]
        self._pieces = [rest] if rest else []
        self._channel.site.tally.moved["received"] += len(piece)
        if not upload.write(piece):
            self._room = False

    def _has_room(self) -> None:
        self._room = True
        self.flush()

    # the end

    def _land(self) -> None:
        """Asks what has become of it: it has come whole, or has failed."""
        if self._decided():
            return
        assert self._arriving is not None
        self._landing = True
        self._pieces.clear()
        self._hold()
        landing: Deferred[Answer] = ensureDeferred(self._arriving.land())
        landing.addBoth(self._settle)

    def _settle(self, outcome: Answer | Failure) -> None:
        if not self._gone:
            self._gone = True
            self._over()
            self._answer(outcome, self._whole)

    def lost(self) -> None:
        """The client has gone. What came whole still lands."""
        if not self._decided() and not self._whole:
            self._abort()

    def stop(self, error: ApiError) -> None:
        """Refuses it, unless it is landing: then it is told what comes of that."""
        if not self._decided():
            self._abort()
            self._answer(Failure(error), self._whole)

    def _abort(self) -> None:
        self._gone = True
        self._pieces.clear()
        if self._upload is not None:
            self._upload.abort()
        self._over()


def too_large() -> ApiError:
    """What a longer archive than any is refused with."""
    return ApiError(Code.TOO_LARGE, f"An archive has at most {limits.MAX_UPLOAD_BYTES} bytes as it is sent.")
