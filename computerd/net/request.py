"""One HTTP request: judged when its head is complete, then read, carried out and answered."""

# twisted.web and autobahn have no types for what is called here
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Coroutine
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import frozen
from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import ISSLTransport
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web import http

from computerd.api.caller import Caller
from computerd.contract import limits
from computerd.contract.decoding import decode_body, decode_query
from computerd.contract.errors import ApiError, Code, internal, invalid
from computerd.contract.params import Attach
from computerd.net import answers
from computerd.net.answers import Reply
from computerd.net.credentials import Verified, refused
from computerd.net.entrance import Exposition
from computerd.net.heads import Head
from computerd.net.routes import Match
from computerd.net.shares import METRICS_SECONDS, REQUEST_SECONDS, journal_seconds
from computerd.net.tally import NO_LONGER, OTHER
from computerd.wire import strictjson

if TYPE_CHECKING:
    from computerd.net.httpchannel import Channel

_log = Logger()
_TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Of Prometheus' text format, as its documentation of exposition formats names it."""


@frozen
class Health:
    """`GET /health`."""


@frozen
class Metrics:
    """`GET /metrics`."""

    render: Exposition
    caller: Caller


@frozen
class Call:
    """A method.

    Attributes:
        verified: The credential, which may end while the answer is awaited.
    """

    match: Match
    caller: Caller
    verified: Verified


@frozen
class Upgrade:
    """`GET /connect`. Without a credential, the host's key is not there yet."""

    key: str
    verified: Verified | None
    attaches: tuple[Attach, ...]


Plan = Health | Metrics | Call | Upgrade


class Request(http.Request):
    """A request on a `Channel`.

    Attributes:
        head: Its head.
        plan: What it is to become, or why it is refused.
        arrived: When its head was complete, in seconds of the reactor's clock.
    """

    channel: Channel
    content: BytesIO
    head: Head
    plan: Plan | ApiError
    arrived: float

    def gotLength(self, length: int | None) -> None:
        """The head is complete: nothing of the body has been read, and if the request is refused, nothing will be."""
        self.arrived = self.channel.site.reactor.seconds()
        verb, target = self.channel.request_line
        self.head = Head(
            verb=verb.decode("ascii", "replace"),
            target=target.decode("ascii", "replace"),
            headers=self.requestHeaders,
            secure=ISSLTransport.providedBy(self.channel.transport),
            local=self.channel.getHost(),
            body=length != 0,
        )
        try:
            self.plan = self.channel.site.judge(self.head, self.channel)
            self._check_body(length)
        except ApiError as error:
            self.plan = error
        except Exception:
            self.plan = self._internal(Failure())
        self.content = BytesIO()
        if length == 0:
            return
        if isinstance(self.plan, ApiError):
            self.requestHeaders.removeHeader(b"Expect")
            self.channel.refuse(self.plan)
        else:
            self.channel.expect_body()

    def _check_body(self, length: int | None) -> None:
        if length == 0:
            return
        if self.head.verb in ("GET", "HEAD"):
            raise invalid("body", "A GET has no body: put its params in the query.")
        if length is not None and length > limits.MAX_MESSAGE_BYTES:
            raise _too_large()
        kind = (self.head.one("Content-Type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise invalid("Content-Type", "Send the body as application/json.")

    def handleContentChunk(self, data: bytes) -> None:
        """A piece of the body."""
        if self.content.tell() + len(data) > limits.MAX_MESSAGE_BYTES:
            self.channel.refuse(_too_large(), self._method)
            return
        try:
            self.channel.site.members.make_room(self.channel, len(data))
        except ApiError as error:
            self.channel.refuse(error, self._method)
            return
        self.channel.count_body(len(data))
        self.content.write(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """The request is complete. Twisted would parse forms and the query here, in ways that nobody needs."""
        self.method, self.uri, self.clientproto = command, path, version
        self.process()

    def process(self) -> None:
        """Carries the plan out."""
        plan = self.plan
        if isinstance(plan, ApiError):
            self._send(self._refusal(plan))
        elif isinstance(plan, Health):
            self._send(Reply(200, b'{"status":"ok"}'))
        elif isinstance(plan, Metrics):
            self._answer(self._exposition(plan))
        elif isinstance(plan, Upgrade):
            self.channel.site.tally.answered(OTHER, 101)
            self.channel.site.upgrade(self.channel, self.head, plan)
        else:
            self._call(plan)

    @property
    def _method(self) -> str:
        """The method of the API that it calls, as it is counted."""
        plan = self.plan
        return plan.match.method.name if isinstance(plan, Call) else OTHER

    async def _exposition(self, plan: Metrics) -> Reply:
        await self._turn(plan.caller, METRICS_SECONDS)
        return Reply(200, plan.render(), kind=_TEXT_FORMAT)

    def _call(self, plan: Call) -> None:
        working = self._answer(self._carry_out(plan))
        if plan.match.route.verb == "GET":
            # a long poll whose client has gone; what changes something is never stopped half-way
            self.notifyFinish().addErrback(lambda _: working.cancel())

    def _answer(self, work: Coroutine[Deferred[Any], Any, Reply]) -> Deferred[None]:
        return ensureDeferred(work).addErrback(self._failed).addCallback(self._send)

    async def _carry_out(self, plan: Call) -> Reply:
        method = plan.match.method
        await self._turn(plan.caller, journal_seconds(method, self.content.tell()))
        answer = await self.channel.site.front.call(method, self._params(plan.match), plan.caller, None, self.arrived)
        reply = answers.success(answer.status or plan.match.route.status, answer.result)
        if plan.match.route.verb == "GET":
            self._check_still(plan.verified, reply)
        return reply

    async def _turn(self, caller: Caller, seconds: float) -> None:
        """Waits until the member's share allows this request, and spends the seconds that it will take beside what each one takes."""
        site, member = self.channel.site, caller.member.id
        shares = site.sockets.shares
        while wait := shares.wait(member):
            await deferLater(site.reactor, wait, lambda: None)
            if self._disconnected:
                # nothing of it is done yet
                raise CancelledError
        shares.spend(member, REQUEST_SECONDS + seconds)

    def _check_still(self, verified: Verified, reply: Reply) -> None:
        """Whether what was read may still be told, and held until it is taken. What was changed is always told."""
        site = self.channel.site
        problem = site.credentials.problem(verified)
        if problem is not None:
            site.unauthenticated(self.channel, NO_LONGER)
            raise refused(problem)
        site.members.make_room(self.channel, len(reply.body))

    def _params(self, match: Match) -> Struct:
        if match.route.verb == "GET":
            return decode_query(match.method.params, self.head.query, match.fields)
        if self.head.query:
            raise invalid("query", "This path takes its params in the body, not in the query.")
        body = self.content.getvalue()
        return decode_body(match.method.params, _json(body) if body else {}, match.fields, match.route.body)

    # answers

    def _failed(self, failure: Failure) -> Reply:
        if failure.check(ApiError):
            return self._refusal(cast("ApiError", failure.value))
        if failure.check(CancelledError) and self._disconnected:
            return Reply(503, b"")
        return self._refusal(self._internal(failure))

    def _internal(self, failure: Failure) -> ApiError:
        self.request_id = self.channel.site.request_id()
        _log.failure("request {request_id} failed", failure, request_id=self.request_id)
        return internal()

    request_id: str | None = None

    def _refusal(self, error: ApiError) -> Reply:
        self.request_id = self.request_id or self.channel.site.request_id()
        self.channel.site.tally.refused(error)
        return answers.refusal(error, self.request_id)

    def _send(self, reply: Reply) -> None:
        if self._disconnected:
            return
        site = self.channel.site
        site.tally.answered(self._method, reply.status)
        self.setResponseCode(reply.status, answers.reason(reply.status))
        for name, value in reply.lines(self.request_id or site.request_id(), site.date()):
            self.responseHeaders.setRawHeaders(name, [value])
        if reply.status == 401 or site.closing:
            # who has no credential gets no second request on the same connection
            self.responseHeaders.setRawHeaders(b"Connection", [b"close"])
            self.channel.persistent = False
        self.write(reply.body)
        self.channel.answered(len(reply.body))
        self.finish()


def _too_large() -> ApiError:
    return ApiError(Code.TOO_LARGE, f"A body has at most {limits.MAX_MESSAGE_BYTES} bytes.")


def _json(body: bytes) -> object:
    try:
        return strictjson.loads(body)
    except strictjson.NotJson as error:
        raise invalid("body", f"The body is not JSON: {error}.") from error
    except strictjson.TooCostly as error:
        raise ApiError(Code.TOO_LARGE, f"The body has over {limits.MAX_JSON_TOKENS} values.") from error
