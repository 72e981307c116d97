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
from computerd.net.answers import Preamble, Reply
from computerd.net.credentials import Verified, refused
from computerd.net.download import Download
from computerd.net.entrance import Exposition
from computerd.net.heads import Head
from computerd.net.routes import Match
from computerd.net.shares import METRICS_SECONDS, REQUEST_SECONDS, journal_seconds
from computerd.net.tally import NO_LONGER, OTHER
from computerd.net.upload import UploadRequest, check_head
from computerd.wire import strictjson

if TYPE_CHECKING:
    from computerd.net.httpchannel import Channel
    from computerd.net.site import Site

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
        site: Where it came in.
        head: Its head.
        plan: What it is to become, or why it is refused.
        arrived: When its head was complete, in seconds of the reactor's clock.
    """

    channel: Channel
    site: Site
    content: BytesIO
    head: Head
    plan: Plan | ApiError
    arrived: float

    def gotLength(self, length: int | None) -> None:
        """The head is complete: nothing of the body has been read, and if the request is refused, nothing will be."""
        self.site = self.channel.site
        self.arrived = self.site.reactor.seconds()
        verb, target = self.channel.request_line
        self.head = Head(
            verb=verb.decode("ascii", "replace"),
            target=target.decode("ascii", "replace"),
            headers=self.requestHeaders,
            secure=ISSLTransport.providedBy(self.channel.transport),
            local=self.channel.getHost(),
            body=length != 0,
        )
        self.content = BytesIO()
        try:
            self.plan = self.site.judge(self.head, self.channel)
            self._check_body(length)
            if length != 0 and self._takes_stream:
                self.channel.expect_body()
                self._receive(self.plan, expects=self._expects())
                return
        except ApiError as error:
            self.plan = error
        except Exception:
            self.plan = self._internal(Failure())
        if length == 0:
            return
        if isinstance(self.plan, ApiError):
            self.requestHeaders.removeHeader(b"Expect")
            self.channel.refuse(self.plan, request_id=self.request_id)
        else:
            self.channel.expect_body()

    @property
    def _takes_stream(self) -> bool:
        """Whether its body is streamed, if it is not refused."""
        plan = self.plan
        return isinstance(plan, Call) and plan.match.route.takes is not None

    def _expects(self) -> bool:
        """Whether the client waits for `100 Continue`, which Twisted would send at once."""
        expected = [value.lower() for value in self.requestHeaders.getRawHeaders(b"Expect") or []]
        self.requestHeaders.removeHeader(b"Expect")
        return b"100-continue" in expected and self.channel.knows_continue

    def _receive(self, plan: Plan | ApiError, *, expects: bool) -> None:
        assert isinstance(plan, Call)
        UploadRequest(self, plan, expects).begin()

    def _check_body(self, length: int | None) -> None:
        if self._takes_stream:
            check_head(self.head, length)
            return
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
        if self._takes_stream:
            self._pass_on(data)
            return
        if self.content.tell() + len(data) > limits.MAX_MESSAGE_BYTES:
            self.channel.refuse(_too_large(), self._method)
            return
        try:
            self.site.members.make_room(self.channel, len(data))
        except ApiError as error:
            self.channel.refuse(error, self._method)
            return
        self.channel.count_body(len(data))
        self.content.write(data)

    def _pass_on(self, data: bytes) -> None:
        incoming = self.channel.incoming
        if incoming is None:
            # refused, by what came before in the same read
            return
        self.channel.count_body(len(data), kept=False)
        try:
            incoming.add(data)
        except ApiError as error:
            incoming.stop(error)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """The request is complete. Twisted would parse forms and the query here, in ways that nobody needs."""
        self.method, self.uri, self.clientproto = command, path, version
        self.process()

    def process(self) -> None:
        """Carries the plan out."""
        plan = self.plan
        if isinstance(plan, ApiError):
            self.send(self._refusal(plan))
        elif isinstance(plan, Health):
            self.send(Reply(200, b'{"status":"ok"}'))
        elif isinstance(plan, Metrics):
            self._answer(self._exposition(plan))
        elif isinstance(plan, Upgrade):
            self.site.tally.answered(OTHER, 101)
            self.site.upgrade(self.channel, self.head, plan)
        elif plan.match.route.streams:
            self._stream(plan)
        else:
            self._call(plan)

    def _stream(self, plan: Call) -> None:
        try:
            if plan.match.route.gives is not None:
                Download(self, plan).begin()
                return
            if self.channel.incoming is None:
                # without a body, nothing was decided at the end of the head
                self._receive(plan, expects=False)
            if self.channel.incoming is not None:
                self.channel.incoming.end()
        except Exception:
            self.fail(Failure())

    @property
    def _method(self) -> str:
        """The method of the API that it calls, as it is counted."""
        plan = self.plan
        return plan.match.method.name if isinstance(plan, Call) else OTHER

    async def _exposition(self, plan: Metrics) -> Reply:
        await self.turn(plan.caller, METRICS_SECONDS)
        return Reply(200, plan.render(), kind=_TEXT_FORMAT)

    def _call(self, plan: Call) -> None:
        working = self._answer(self._carry_out(plan))
        if plan.match.route.verb == "GET":
            # a long poll whose client has gone; what changes something is never stopped half-way
            self.notifyFinish().addErrback(lambda _: working.cancel())

    def _answer(self, work: Coroutine[Deferred[Any], Any, Reply]) -> Deferred[None]:
        return ensureDeferred(work).addErrback(self._failed).addCallback(self.send)

    async def _carry_out(self, plan: Call) -> Reply:
        method = plan.match.method
        await self.turn(plan.caller, journal_seconds(method, self.content.tell()))
        answer = await self.site.front.call(method, self.params(plan.match), plan.caller, None, self.arrived)
        reply = answers.success(answer.status or plan.match.route.status, answer.result)
        if plan.match.route.verb == "GET":
            self.check_still(plan.verified)
            self.site.members.make_room(self.channel, len(reply.body))
        return reply

    async def turn(self, caller: Caller, seconds: float) -> None:
        """Waits until the member's share allows this request, and spends the seconds that it will take beside what each one takes."""
        member = caller.member.id
        shares = self.site.sockets.shares
        while wait := shares.wait(member):
            await deferLater(self.site.reactor, wait, lambda: None)
            if self._disconnected:
                # nothing of it is done yet
                raise CancelledError
        shares.spend(member, REQUEST_SECONDS + seconds)

    def check_still(self, verified: Verified) -> None:
        """Whether what was read may still be told. What was changed is always told.

        Raises:
            ApiError: `unauthenticated`: the credential has ended meanwhile.
        """
        problem = self.site.credentials.problem(verified)
        if problem is not None:
            self.site.unauthenticated(self.channel, NO_LONGER)
            raise refused(problem)

    def params(self, match: Match) -> Struct:
        """What it asks for, apart from a stream.

        Raises:
            ApiError: `invalid_request` with the field, or `too_large`.
        """
        if match.route.in_query:
            return decode_query(match.method.params, self.head.query, match.fields)
        if self.head.query:
            raise invalid("query", "This path takes its params in the body, not in the query.")
        body = self.content.getvalue()
        return decode_body(match.method.params, _json(body) if body else {}, match.fields, match.route.body)

    # answers

    def fail(self, failure: Failure) -> None:
        """Answers with what went wrong."""
        self.send(self._failed(failure))

    def _failed(self, failure: Failure) -> Reply:
        if failure.check(CancelledError) and self._disconnected:
            return Reply(503, b"")
        return self._refusal(self.error_of(failure))

    def error_of(self, failure: Failure) -> ApiError:
        """What the client is told of a failure; one that is no refusal is logged."""
        return cast("ApiError", failure.value) if failure.check(ApiError) else self._internal(failure)

    def _internal(self, failure: Failure) -> ApiError:
        self.request_id = self.site.request_id()
        _log.failure("request {request_id} failed", failure, request_id=self.request_id)
        return internal()

    request_id: str | None = None

    def _refusal(self, error: ApiError) -> Reply:
        self.request_id = self.request_id or self.site.request_id()
        self.site.tally.refused(error)
        return answers.refusal(error, self.request_id)

    def open_answer(self, answer: Reply | Preamble) -> None:
        """Makes the head of the answer ready, which goes out with the first `write`."""
        site = self.site
        site.tally.answered(self._method, answer.status)
        self.setResponseCode(answer.status, answers.reason(answer.status))
        for name, value in answer.lines(self.request_id or site.request_id(), site.date()):
            self.responseHeaders.setRawHeaders(name, [value])
        if answer.status == 401 or site.closing:
            # who has no credential gets no second request on the same connection
            self.responseHeaders.setRawHeaders(b"Connection", [b"close"])
            self.channel.persistent = False

    @property
    def takes_chunks(self) -> bool:
        """Whether an answer whose length nobody knows goes in chunks, by the rule of Twisted's `write`."""
        return self.clientproto == b"HTTP/1.1" and self.head.verb != "HEAD"

    def end(self, trailers: tuple[tuple[str, str], ...]) -> None:
        """The body is complete. Where it went in chunks, the trailers follow (RFC 9112, section 7.1.2); elsewhere there is no place for them."""
        if self.chunked and trailers:
            lines = b"".join(b"%s: %s\r\n" % (name.encode(), value.encode()) for name, value in trailers)
            self.channel.write(b"0\r\n%s\r\n" % lines)
            # or `finish`, which knows no trailers, would write the last chunk once more
            self.chunked = 0
        self.finish()

    def send(self, reply: Reply) -> None:
        """Answers, unless the client has gone."""
        if self._disconnected:
            return
        self.open_answer(reply)
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
