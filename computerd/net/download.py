"""One request for bytes out of a workspace, from the front door's word to the last byte or to nothing at all."""

# twisted.web has no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from computerd.net.answers import Preamble
from computerd.net.outgoing import Outgoing, Trailers
from computerd.net.representation import UNREADABLE, accepted, coding_for, of_archive, part_of
from computerd.net.shares import journal_seconds
from computerd.workspace.port import Coding, Opened, Packed, Source

if TYPE_CHECKING:
    from computerd.net.request import Call, Request
    from computerd.net.transfers import Transfer


class Download:
    """One such request.

    Args:
        request: Is complete.
        plan: What it asks for.
    """

    def __init__(self, request: Request, plan: Call) -> None:
        self._request = request
        self._plan = plan
        self._site = request.site
        self._transfer: Transfer | None = None
        self._outgoing: Outgoing | None = None
        self._asking: Deferred[Opened | Packed] | None = None
        self._gone = False

    def begin(self) -> None:
        """Asks the front door.

        Raises:
            ApiError: `rate_limited`, `invalid_request`.
        """
        plan = self._plan
        params = self._request.params(plan.match)
        self._transfer = self._site.transfers.begin(plan.verified, self._stop)
        self._request.notifyFinish().addErrback(lambda _: self._lost())
        coding = coding_for(self._request.head)
        asking: Deferred[Opened | Packed] = ensureDeferred(self._ask(params, coding))
        self._asking = asking
        asking.addCallback(self._given, coding)
        asking.addErrback(self._failed)

    async def _ask(self, params: Struct, coding: Coding) -> Opened | Packed:
        plan, front = self._plan, self._site.front
        await self._request.turn(plan.caller, journal_seconds(plan.match.method, 0))
        given = await front.give(plan.match.method, params, plan.caller, coding)
        made = given.coding if isinstance(given, Packed) else None
        if made is None or made == coding or accepted(self._request.head, made):
            return given
        # the workspace can't compress it so, and the client has not said that it takes the other way
        _let_go(given)
        return await front.give(plan.match.method, params, plan.caller, "identity")

    def _given(self, given: Opened | Packed, coding: Coding) -> None:
        if self._gone:
            _let_go(given)
            self._over()
            return
        try:
            preamble, source = self._judge(given, coding)
        except BaseException:
            _let_go(given)
            raise
        self._request.open_answer(preamble)
        if source is None:
            _let_go(given)
            self._over()
            self._request.write(b"")
            self._request.finish()
            return
        trailers = _trailers(given) if isinstance(given, Packed) else None
        self._outgoing = Outgoing(self._request, source, preamble.length, self._over, trailers)
        self._outgoing.start()

    def _judge(self, given: Opened | Packed, coding: Coding) -> tuple[Preamble, Source | None]:
        """The head of the answer, and the bytes that follow it, if any do."""
        self._request.check_still(self._plan.verified)
        if isinstance(given, Packed):
            preamble = of_archive(given, coding, chunked=self._request.takes_chunks)
            return preamble, None if self._request.head.verb == "HEAD" else given.source
        part = part_of(given, self._request.head, self._site.now())
        return part.preamble, None if part.span is None else given.read(part.span.start, part.span.length)

    def _failed(self, failure: Failure) -> None:
        self._over()
        self._request.fail(failure)

    def _over(self) -> None:
        transfer, self._transfer = self._transfer, None
        if transfer is not None:
            self._site.transfers.over(transfer)

    def _stop(self, why: str | None) -> None:
        # before the head, the credential is looked at again, and a server that stops says so
        if self._outgoing is not None:
            self._outgoing.stop()

    def _lost(self) -> None:
        self._gone = True
        if self._outgoing is not None:
            self._outgoing.stopProducing()
        elif self._asking is not None:
            self._asking.cancel()


def _trailers(packed: Packed) -> Trailers:
    return lambda: ((UNREADABLE, str(packed.unreadable())),)


def _let_go(given: Opened | Packed) -> None:
    if isinstance(given, Packed):
        given.source.stop()
    else:
        given.close()
