"""One request with an archive for a workspace, from its head to the answer."""

# twisted.web has no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from twisted.python.failure import Failure

from computerd.api.front import Answer, Arriving
from computerd.contract import limits
from computerd.contract.errors import ApiError, Code, internal, invalid
from computerd.contract.methods import TAR
from computerd.net import answers
from computerd.net.credentials import refused
from computerd.net.heads import Head
from computerd.net.incoming import Incoming, too_large
from computerd.net.shares import journal_seconds
from computerd.net.tally import NO_LONGER
from computerd.workspace.codings import recognise
from computerd.workspace.port import Coding

if TYPE_CHECKING:
    from computerd.net.request import Call, Request

_CONDITIONS: Final = ("If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range")
"""To pass them over would be to do what the client wants not done (RFC 9110, section 13.2.1)."""
_KINDS: Final = frozenset({"", TAR, "application/octet-stream"})


def check_head(head: Head, length: int | None) -> None:
    """Refuses what is no archive, or too large a one, by its head.

    Raises:
        ApiError: `invalid_request` or `too_large`.
    """
    kind = (head.one("Content-Type") or "").partition(";")[0].strip().lower()
    if kind not in _KINDS:
        raise invalid("Content-Type", f"Send the archive as {TAR}.")
    recognise(head.words("Content-Encoding"))
    for condition in _CONDITIONS:
        if head.words(condition):
            raise invalid(condition, f"An upload takes no conditions: leave {condition} out.")
    if length is not None and length > limits.MAX_UPLOAD_BYTES:
        raise too_large()


class UploadRequest:
    """One such request.

    Args:
        request: Its head is complete, and good.
        plan: What it asks for.
        expects: Whether the client waits for `100 Continue`.
    """

    def __init__(self, request: Request, plan: Call, expects: bool) -> None:
        self._request = request
        self._plan = plan
        self._site = request.site
        self._channel = request.channel
        self._incoming = Incoming(request.channel, expects, self._answer, self._over)
        self._transfer = request.site.transfers.begin(plan.verified, self._stop)

    def begin(self) -> None:
        """Asks the front door.

        Raises:
            ApiError: `invalid_request`.
        """
        plan, request = self._plan, self._request
        try:
            params = request.params(plan.match)
        except ApiError:
            self._over()
            raise
        self._channel.incoming = self._incoming
        request.notifyFinish().addErrback(lambda _: self._incoming.lost())
        coding = recognise(request.head.words("Content-Encoding"))
        self._incoming.ask(self._ask(params, coding))

    async def _ask(self, params: Struct, coding: Coding) -> Arriving:
        plan = self._plan
        await self._request.turn(plan.caller, journal_seconds(plan.match.method, 0))
        return await self._site.front.take(plan.match.method, params, plan.caller, coding)

    def _over(self) -> None:
        self._channel.incoming = None
        self._site.transfers.over(self._transfer)

    def _stop(self, why: str | None) -> None:
        if why is None:
            self._incoming.stop(ApiError(Code.UNAVAILABLE, "The server is stopping: send the archive again."))
        else:
            self._site.unauthenticated(self._channel, NO_LONGER)
            self._incoming.stop(refused(why))

    def _answer(self, outcome: Answer | Failure, whole: bool) -> None:
        if whole:
            if isinstance(outcome, Failure):
                self._request.fail(outcome)
            else:
                status = outcome.status or self._plan.match.route.status
                self._request.send(answers.success(status, outcome.result))
            return
        # an archive that is in place before its end has come is none of ours
        error = self._request.error_of(outcome) if isinstance(outcome, Failure) else internal()
        if self._channel.transport is not None:
            self._channel.refuse(error, self._plan.match.method.name, self._request.request_id)
